"""Graphs for PageRank: generated with power laws, or read from an edge list."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from evenflow.errors import BadInput

BUNDLED = {"wiki-Vote": "wiki-Vote.txt.gz"}
"""Graphs that are part of the package, by name."""

Links = dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Graph:
    """Pages, and the links of each page that has any."""

    pages: tuple[int, ...]
    links: Links

    @property
    def linked(self) -> frozenset[int]:
        """The pages with incoming links."""
        return frozenset(target for targets in self.links.values() for target in targets)

    @property
    def edges(self) -> int:
        """The number of links."""
        return sum(len(targets) for targets in self.links.values())


def power_law(pages: int, chance: np.random.Generator, mean: float = 8.0, most: int = 300) -> Graph:
    """Generate a graph: out-degrees are Zipf(2) capped at ``most`` and scaled to ``mean``, targets drawn by popularity.

    The popularity of the page at rank r is proportional to ``(r + 1) ** -0.8``; ranks are random.
    """
    raw = np.minimum(chance.zipf(2.0, pages), most).astype(float)
    degrees = np.clip(np.round(raw * mean / raw.mean()), 1, pages - 1).astype(int)
    popularity = (np.arange(pages) + 1.0) ** -0.8
    chance.shuffle(popularity)
    ends = np.cumsum(popularity / popularity.sum())
    links: Links = {}
    for page, degree in enumerate(degrees.tolist()):
        targets: dict[int, None] = {}
        for _ in range(20):  # repeat for targets that were drawn twice; a page with very many links may get fewer
            drawn = np.searchsorted(ends, chance.random(degree - len(targets)))
            targets.update(dict.fromkeys(int(t) for t in drawn if t != page and t < pages))
            if len(targets) >= degree:
                break
        links[page] = tuple(targets)
    return Graph(tuple(range(pages)), links)


def read_graph(name: str) -> Graph:
    """Read an edge list: two integers per line, ``#`` starts a comment, ``.gz`` is decompressed.

    ``name`` is a file, or the name of a graph that is part of the package.
    """
    links: dict[int, dict[int, None]] = {}
    pages: dict[int, None] = {}
    for number, line in _lines(name):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            source, target = (int(word) for word in words)
        except ValueError:
            raise BadInput(repr(line.strip()[:40]), "two whole numbers", f"{name}, line {number}") from None
        pages[source] = pages[target] = None
        if source != target:
            links.setdefault(source, {})[target] = None
    if not pages:
        raise BadInput("no edge", "at least one edge, as two whole numbers per line", name)
    return Graph(tuple(sorted(pages)), {page: tuple(targets) for page, targets in sorted(links.items())})


def _lines(name: str) -> Iterator[tuple[int, str]]:
    place: Any = files("evenflow.experiments").joinpath("data", BUNDLED[name]) if name in BUNDLED else Path(name)
    try:
        with place.open("rb") as file:
            content = file.read()
        if str(place).endswith(".gz"):
            content = gzip.decompress(content)
        text = content.decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        known = ", ".join(repr(bundled) for bundled in BUNDLED)
        reason = getattr(error, "strerror", None) or "cannot be read as an edge list"
        raise BadInput(f"'{name}' ({reason})", f"an edge list that can be read, or {known}", "--set graph") from None
    yield from enumerate(text.split("\n"), 1)


def skewed_homes(pages: Sequence[int], workers: int, skew: float, chance: np.random.Generator) -> dict[int, int]:
    """Return a random placement in which worker i has a share of the pages proportional to ``(i + 1) ** -skew``.

    Examples
    --------
    >>> homes = skewed_homes(range(100), 2, 1.0, np.random.default_rng(1))
    >>> sorted(list(homes.values()).count(worker) for worker in (0, 1))
    [33, 67]
    """
    share = (np.arange(workers) + 1.0) ** -skew
    ends = np.round(np.cumsum(share / share.sum()) * len(pages)).astype(int)
    homes = np.minimum(np.searchsorted(ends, np.arange(len(pages)), side="right"), workers - 1)
    chance.shuffle(homes)
    return dict(zip(pages, homes.tolist(), strict=True))
