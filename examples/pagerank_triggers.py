"""PageRank by triggers on a small web, then a new link: only what it affects is computed again."""

from __future__ import annotations

from evenflow.triggers.local import LocalCluster
from evenflow.triggers.pagerank import PAGES, pagerank

LINKS = {"home": ("news", "shop"), "news": ("home",), "shop": ("home", "cart"), "cart": ("shop",), "blog": ("home",)}


def main() -> None:
    """Rank the pages, add a link, rank again."""
    cluster = LocalCluster(pagerank(tolerance=1e-6), workers=2)
    for page, links in LINKS.items():
        cluster.put(PAGES, page, "weights", "nobody", 0.0)  # a page that nobody links to is summed up once, too
        cluster.set(PAGES, page, "links", links)
    show("at first", cluster, cluster.run())
    cluster.set(PAGES, "cart", "links", ("shop", "blog"))
    show("with one more link", cluster, cluster.run())


def show(when: str, cluster: LocalCluster, triggers: int) -> None:
    """Print the ranks."""
    ranks = sorted(((row["rank"], page) for page, row in cluster.rows(PAGES).items()), reverse=True)
    print(f"{when}: {triggers} triggers,", ", ".join(f"{page} {rank:.3f}" for rank, page in ranks))


if __name__ == "__main__":
    main()
