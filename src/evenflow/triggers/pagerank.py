"""PageRank by triggers, as *DLBer* evaluates it (section 3): ``PageRankDist`` and ``PageRankSum``.

Ranks are not normalised: they solve ``rank = 1 - damping + damping × Σ weights``, with a mean near 1, and a page
without links passes nothing on. Divided by their sum they are the usual PageRank, in which such a page gives to all:
that only scales every rank by the same factor.
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
    """Return the application.

    Parameters
    ----------
    tolerance
        A page tells its links of its rank only when it differs by more from what it told them last.
        So at the end every page's equation holds to within ``tolerance``, for the ranks that were told.
    damping
        The usual factor.
    lazy
        Add up what a page was told only when its rank will differ so much that its links must be told.
        Published is to add it up whenever it changes; most changes after an update of the links are too small to matter.
    """
    app = TriggerApp("pagerank")
    app.table(PAGES, rank=1.0, told=0.0, links=(), told_links=(), weights=Numbers())

    def to_tell(row: Row) -> bool:
        if row["links"] is not row["told_links"] and row["links"] != row["told_links"]:
            return True
        return bool(abs(row["rank"] - row["told"]) > tolerance)

    def at_once(_: Row) -> float:
        return math.inf  # cheap, and whoever adds up before it was told adds up in vain

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

    # What was told may be older than what came in meanwhile: then it is asked again whether that matters.
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
    """Return rows for ``pages`` as they begin: a rank of 1 that nobody was told yet; ``DIST`` is to be invoked for all.

    A page that nobody links to (not in ``linked``) will never be summed up: it begins with the rank that it keeps.
    """
    rows = Rows(app)
    alone = 1.0 - damping
    for page in pages:
        targets = tuple(links.get(page, ()))
        rows.get(PAGES, page).update(rank=1.0 if page in linked else alone, links=targets, told_links=targets)
    return rows


def residual(rows: Mapping[Key, Row], damping: float = 0.85) -> float:
    """Return how far the worst page's equation is from holding, at the ranks that were told."""
    worst = 0.0
    for row in rows.values():
        worst = max(worst, abs(1.0 - damping + damping * sum(row["weights"].values()) - row["told"]))
    return worst
