"""Event, condition, action: what invokes a trigger, what it sees, and what stays up to date."""

from __future__ import annotations

import pickle
import random
import runpy
from pathlib import Path

import networkx as nx
import pytest

from evenflow.errors import BadInput
from evenflow.experiments.triggers.graph import Graph
from evenflow.experiments.triggers.live import l1, normalised, power_iteration
from evenflow.triggers.app import Entries, Numbers, RowView, TriggerApp
from evenflow.triggers.local import LocalCluster
from evenflow.triggers.pagerank import PAGES, pagerank, residual
from evenflow.triggers.store import Rows

EXAMPLES = Path(__file__).parents[2] / "examples"


def totals() -> TriggerApp:
    """Orders belong to regions; every region has its total."""
    app = TriggerApp("totals")
    app.table("orders", region=None, counted_in=None, amount=None)
    app.table("regions", amounts=Entries(), total=0.0, large=0)

    @app.on("orders.amount", "orders.region")
    def count(row: RowView) -> None:
        if row["counted_in"] not in (None, row["region"]):
            row.put("regions", [row["counted_in"]], "amounts", row.key, None)
        if row["region"] is not None:
            row.put("regions", [row["region"]], "amounts", row.key, row["amount"])
        row["counted_in"] = row["region"]

    @app.on("regions.amounts")
    def add_up(row: RowView) -> None:
        row["total"] = sum(row["amounts"].values())

    @app.on("regions.total", when=lambda row: row["total"] > 100)
    def notice(row: RowView) -> None:
        row["large"] = row["large"] + 1

    return app


@pytest.mark.parametrize("workers", [1, 3])
def test_an_aggregate_stays_right_under_inserts_changes_and_deletes(workers):
    cluster, chance = LocalCluster(totals(), workers), random.Random(7)
    orders: dict[int, tuple[str, float]] = {}
    for step in range(300):
        order = chance.randrange(40)
        if chance.random() < 0.3:
            orders.pop(order, None)
            cluster.set("orders", order, "amount", None)
        else:
            orders[order] = (chance.choice("abc"), float(chance.randrange(1, 9)))
            cluster.set("orders", order, "region", orders[order][0])
            cluster.set("orders", order, "amount", orders[order][1])
        if step % 10 == 0:
            cluster.run()
    cluster.run()
    for region in "abc":
        wanted = sum(amount for name, amount in orders.values() if name == region)
        assert cluster.row("regions", region)["total"] == wanted


def test_only_what_is_affected_runs():
    cluster = LocalCluster(totals(), 2)
    for order in range(100):
        cluster.set("orders", order, "region", f"region {order % 10}")
        cluster.set("orders", order, "amount", 1.0)
    cluster.run()
    before = dict(cluster.work)
    cluster.set("orders", 5, "amount", 2.0)
    assert cluster.run() == 2
    assert {name: cluster.work[name] - before[name] for name in before} == {"count": 1, "add_up": 1, "notice": 0}


def test_a_write_that_changes_nothing_is_no_event():
    cluster = LocalCluster(totals())
    cluster.set("orders", 1, "amount", 3.0)
    cluster.run()
    cluster.set("orders", 1, "amount", 3.0)
    assert cluster.run() == 0


def test_the_condition_decides():
    cluster = LocalCluster(totals())
    cluster.put("regions", "a", "amounts", 1, 60.0)
    cluster.run()
    assert cluster.work["notice"] == 0
    cluster.put("regions", "a", "amounts", 2, 60.0)
    cluster.run()
    assert (cluster.work["notice"], cluster.row("regions", "a")["large"]) == (1, 1)


def test_an_action_reads_its_own_writes_and_others_see_them_at_the_end():
    view = RowView("t", 1, {"a": 1, "b": 2})
    view["a"] = 5
    assert view["a"] == 5
    assert [write.value for write in view.writes] == [5]
    with pytest.raises(BadInput, match="'b'"):
        view["bb"]


@pytest.mark.parametrize(
    ("places", "word"),
    [
        (("regions",), "table.column"),
        (("region.total",), "'regions'"),
        (("regions.totals",), "'total'"),
        ((), "one table"),
    ],
)
def test_places_that_do_not_exist_are_refused(places, word):
    with pytest.raises(BadInput, match=word):
        totals().on(*places)


def test_names_are_given_once():
    app = totals()
    with pytest.raises(BadInput, match="twice"):
        app.table("orders", amount=0)
    with pytest.raises(BadInput, match="twice"):

        @app.on("orders.amount")
        def count(row: RowView) -> None: ...


def test_an_entry_needs_a_column_of_entries():
    with pytest.raises(BadInput, match="Entries"):
        LocalCluster(totals()).put("regions", "a", "total", 1, 2.0)


def test_an_application_without_rest_is_told():
    app = TriggerApp("endless")
    app.table("t", n=0)

    @app.on("t.n")
    def again(row: RowView) -> None:
        row["n"] = row["n"] + 1

    cluster = LocalCluster(app)
    cluster.set("t", 1, "n", 1)
    with pytest.raises(BadInput, match="comes to rest"):
        cluster.run(at_most=100)


def random_graph(seed: int) -> Graph:
    drawn = nx.gnp_random_graph(60, 0.05, seed=seed, directed=True)
    links = {n: tuple(drawn.successors(n)) for n in drawn if drawn.out_degree(n)}
    assert len(links) < 60  # some pages have no links
    return Graph(tuple(range(60)), links)


def networkx_rank(graph: Graph) -> dict[int, float]:
    given = nx.DiGraph()
    given.add_nodes_from(graph.pages)
    given.add_edges_from((a, b) for a, targets in graph.links.items() for b in targets)
    return nx.pagerank(given, alpha=0.85, tol=1e-12, max_iter=1000)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_pagerank_is_that_of_networkx_also_after_links_change(seed, lazy):
    graph = random_graph(seed)
    cluster = LocalCluster(pagerank(1e-9, lazy=lazy), 3)
    for page in graph.pages:
        cluster.put(PAGES, page, "weights", "nobody", 0.0)  # sums every page up once
    for page, targets in graph.links.items():
        cluster.set(PAGES, page, "links", targets)
    full = cluster.run()
    assert l1(normalised(cluster.rows(PAGES)), networkx_rank(graph)) < 1e-7
    assert residual(cluster.rows(PAGES)) <= 1e-9
    links = dict(graph.links)
    taken = min(links)
    more = next(page for page in graph.pages if page != taken and page not in links[taken])
    links[taken] = (*links[taken][1:], more)  # one link less, one more
    cluster.set(PAGES, taken, "links", links[taken])
    assert cluster.run() < full
    assert l1(normalised(cluster.rows(PAGES)), networkx_rank(Graph(graph.pages, links))) < 1e-7


def test_what_does_not_matter_is_not_added_up():
    """One more link changes the weights of all its neighbours, each by too little to be passed on."""
    graph = random_graph(4)
    works, ranks = [], []
    for lazy in (False, True):
        cluster = LocalCluster(pagerank(0.05, lazy=lazy), 3)
        for page in graph.pages:
            cluster.put(PAGES, page, "weights", "nobody", 0.0)
        for page, targets in graph.links.items():
            cluster.set(PAGES, page, "links", targets)
        cluster.run()
        assert residual(cluster.rows(PAGES)) <= 0.05
        busiest = max(graph.links, key=lambda page: len(graph.links[page]))
        more = next(p for p in graph.pages if p != busiest and p not in graph.links[busiest])
        cluster.set(PAGES, busiest, "links", (*graph.links[busiest], more))
        works.append(cluster.run())
        assert residual(cluster.rows(PAGES)) <= 0.05
        ranks.append(normalised(cluster.rows(PAGES)))
    assert works[1] < 0.75 * works[0]
    assert l1(*ranks) < 0.05


def test_numbers_know_their_total():
    app = TriggerApp("numbers")
    app.table("t", amounts=Numbers())
    rows = Rows(app)
    row, other = rows.get("t", 1), rows.get("t", 2)
    assert rows.change(row, "amounts", "a", 2.0)
    assert rows.change(row, "amounts", "b", 3.0)
    assert not rows.change(row, "amounts", "b", 3.0)
    assert rows.change(row, "amounts", "a", 1.0)
    assert row["amounts"].total == 4.0
    assert not rows.change(row, "amounts", "c", None)
    copied, pickled = rows.copied("t", 1), pickle.loads(pickle.dumps(rows)).get("t", 1)
    assert rows.change(row, "amounts", "b", None)
    assert (row["amounts"].total, other["amounts"].total) == (1.0, 0.0)
    for kept in (copied, pickled):
        assert rows.change(kept, "amounts", "a", 5.0)
        assert (kept["amounts"], kept["amounts"].total) == ({"a": 5.0, "b": 3.0}, 8.0)


def test_the_power_iteration_is_that_of_networkx():
    graph = random_graph(3)
    assert l1(power_iteration(graph), networkx_rank(graph)) < 1e-10


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("region_totals", ["south 1590.0", "south 1490.0"]),
        ("pagerank_triggers", ["at first", "with one more link"]),
    ],
)
def test_the_examples_print_what_they_should(name, wanted, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    assert all(any(words in line for line in printed) for words in wanted), printed
