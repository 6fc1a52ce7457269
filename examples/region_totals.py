"""Totals per region, kept up to date by triggers while orders come, change and go."""

from __future__ import annotations

from evenflow.triggers.app import Entries, RowView, TriggerApp
from evenflow.triggers.local import LocalCluster


def totals() -> TriggerApp:
    """Return the application: an order goes to its region, a region adds up."""
    app = TriggerApp("totals")
    app.table("orders", region=None, amount=None, counted_in=None)
    app.table("regions", amounts=Entries(), total=0.0)

    @app.on("orders.amount", "orders.region")
    def count(row: RowView) -> None:
        if row["counted_in"] not in (None, row["region"]):
            row.put("regions", [row["counted_in"]], "amounts", row.key, None)  # it has moved
        if row["region"] is not None:
            row.put("regions", [row["region"]], "amounts", row.key, row["amount"])  # an amount of None takes it out
        row["counted_in"] = row["region"]

    @app.on("regions.amounts")
    def add_up(row: RowView) -> None:
        row["total"] = sum(row["amounts"].values())

    return app


def main() -> None:
    """Insert a thousand orders, then change one and delete one."""
    cluster = LocalCluster(totals(), workers=4)
    for order in range(1000):
        cluster.set("orders", order, "region", ("north", "south", "east")[order % 3])
        cluster.set("orders", order, "amount", float(order % 10))
    print("insert:", cluster.run(), "triggers,", {k: r["total"] for k, r in sorted(cluster.rows("regions").items())})
    cluster.set("orders", 7, "amount", 100.0)
    print("change:", cluster.run(), "triggers, south", cluster.row("regions", "south")["total"])
    cluster.set("orders", 7, "amount", None)
    print("delete:", cluster.run(), "triggers, south", cluster.row("regions", "south")["total"])


if __name__ == "__main__":
    main()
