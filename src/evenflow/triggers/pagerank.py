"""PageRank by triggers, as *DLBer* evaluates it (section 3): ``PageRankDist`` and ``PageRankSum``.

Ranks are not normalised: they solve ``rank = 1 - damping + damping × Σ weights``, with a mean near 1, and a page
without links passes nothing on. Divided by their sum they are the usual PageRank. There a page without links gives to
all pages, which only scales every rank by the same factor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from evenflow.triggers.app import Key, Numbers, Row, RowView, TriggerApp
from evenflow.triggers.store import Rows

DIST, SUM = "PageRankDist", "PageRankSum"
PAGES = "pages"


def pagerank(tolerance: float = 0.05, damping: float = 0.85, *, lazy: bool = False) -> TriggerApp:
    """Return the PageRank application.

    Parameters
    ----------
    tolerance
        A page sends its rank to its links only when the rank differs by more than this from the one it sent last.
        So at the end every page's equation holds to within ``tolerance``, for the ranks that were sent.
    damping
        The usual damping factor.
    lazy
        Sum a page's weights only when its rank will change by more than ``tolerance``, so that it must be sent on.
        The published version sums at every change, but after an update of the links most changes are too small.
    """
    app = TriggerApp("pagerank")
    app.table(PAGES, rank=1.0, told=0.0, links=(), told_links=(), weights=Numbers())

    def to_tell(row: Row) -> bool:
        if row["links"] is not row["told_links"] and row["links"] != row["told_links"]:
            return True
        return bool(abs(row["rank"] - row["told"]) > tolerance)

    def at_once(_: Row) -> float:
        return math.inf  # cheap, and summing before all updates have arrived is wasted work

    @app.on("pages.rank", "pages.links", when=to_tell, size=lambda row: len(row["links"]), matters=at_once)
    def PageRankDist(row: RowView) -> None:  # noqa: N802 - the published name
        links, rank = row["links"], row["rank"]
        before = row["told_links"]
        if before is not links:
            row.put(PAGES, sorted(set(before) - set(links)), "weights", row.key, None)
            row["told_links"] = links
        row["told"] = rank
        if links:
            row.put(PAGES, links, "weights", row.key, rank / len(links))

    def change(row: Row) -> float:
        return float(abs(1.0 - damping + damping * row["weights"].total - row["told"]))

    def to_add_up(row: Row) -> bool:
        return change(row) > tolerance

    # New weights may have arrived before the page sent its rank, so the condition is checked again after sending.
    events = ("pages.weights", "pages.told") if lazy else ("pages.weights",)

    @app.on(*events, when=to_add_up if lazy else None, size=lambda row: len(row["weights"]), matters=change)
    def PageRankSum(row: RowView) -> None:  # noqa: N802 - the published name
        row["rank"] = 1.0 - damping + damping * sum(row["weights"].values())

    return app


def page_rows(
    app: TriggerApp,
    links: Mapping[int, Sequence[int]],
    linked: AbstractSet[int],
    pages: Iterable[int],
    damping: float = 0.85,
) -> Rows:
    """Return the initial rows of ``pages``: a rank of 1 that is not sent yet. Invoke ``DIST`` for all of them.

    A page without incoming links (not in ``linked``) is never summed, so it starts with its final rank.
    """
    rows = Rows(app)
    alone = 1.0 - damping
    for page in pages:
        targets = tuple(links.get(page, ()))
        rows.get(PAGES, page).update(rank=1.0 if page in linked else alone, links=targets, told_links=targets)
    return rows


def residual(rows: Mapping[Key, Row], damping: float = 0.85) -> float:
    """Return the largest error of any page's equation, for the ranks that were sent."""
    worst = 0.0
    for row in rows.values():
        worst = max(worst, abs(1.0 - damping + damping * sum(row["weights"].values()) - row["told"]))
    return worst
