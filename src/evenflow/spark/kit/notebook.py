"""HTML of a running query for notebooks: its lanes as bars, and its latest moves. It loads no scripts or styles."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

SHOWN_MOVES = 10


def query_html(name: str, nodes: Sequence[Sequence[Any]], moves: Sequence[Sequence[Any]]) -> str:
    """Return the tables as HTML; the arguments are the rows of ``query.nodes()`` and ``query.moves()``."""
    used = [row for row in nodes if row[1]]
    highest = max((row[6] for row in nodes), default=0.0)
    mean = sum(row[6] for row in used) / len(used) if used else 0.0
    even = f"max over mean {highest / mean:.2f}" if mean else "no batch yet"
    lanes = "".join(
        f"<tr><td>{lane}</td><td>{'in use' if in_use else 'resting'}</td><td>{slices}</td><td>{rows:,}</td>"
        f"<td>{cpu_s:.3f}</td><td>{_bar(cpu_s / highest if highest else 0.0, hot=cpu_s > 1.2 * mean)}</td></tr>"
        for lane, in_use, slices, _, _, rows, cpu_s, _ in nodes
    )
    latest = "".join(
        f"<tr><td>{unit}</td><td>{giver} → {taker}</td><td>{'done' if done else 'under way'}</td><td>{escape(why)}</td></tr>"
        for _, unit, giver, taker, _, done, why in reversed(moves[-SHOWN_MOVES:])
    )
    return (
        f"<p><b>{escape(name)}</b>: {len(used)} of {len(nodes)} lanes in use, {even}</p>"
        f"<table>{_head('lane', 'state', 'slices', 'rows', 'CPU, s', 'last batch')}<tbody>{lanes}</tbody></table>"
        + (f"<table>{_head('slice', 'lanes', 'state', 'why')}<tbody>{latest}</tbody></table>" if latest else "")
    )


def _head(*names: str) -> str:
    return f"<thead><tr>{''.join(f'<th>{name}</th>' for name in names)}</tr></thead>"


def _bar(share: float, *, hot: bool) -> str:
    colour = "#c0392b" if hot else "#7fb3d5"
    return f'<div style="width:{160 * share:.0f}px;height:.8em;background:{colour}"></div>'
