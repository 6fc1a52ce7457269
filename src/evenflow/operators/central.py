"""A central balancer for comparison: it sees all units and moves operators hop by hop, no receiver above the limit.

It follows the same rules of adjacency and feasibility as the units. An overload that it cannot end is therefore no
fault of a protocol between neighbours. It is greedy: it relieves the units with the smallest need first, then uses
the remaining room to take load from the fullest units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evenflow.operators.graph import Graph
from evenflow.operators.transfers import Selection, Transfer
from evenflow.operators.tree import Tree

EPSILON = 1e-9


class Board:
    """The place and size of every operator, with a list of moves that can be undone.

    Parameters
    ----------
    graph, tree, where, sizes
        The operator graph, the tree, the unit of every operator, and the sizes, which ``look`` reads again.
    """

    def __init__(self, graph: Graph, tree: Tree, where: Mapping[int, str], sizes: Mapping[int, float]) -> None:
        self.tree = tree
        self.sizes = sizes
        self.selections = {unit: Selection(graph, tree, unit) for unit in tree.units}
        held: dict[str, list[int]] = {unit: [] for unit in tree.units}
        for op, unit in where.items():
            held[unit].append(op)
        for unit, ops in held.items():
            self.selections[unit].add(ops)
        self.memory: dict[str, float] = {}
        self.moves: list[tuple[str, Transfer]] = []
        self.look()

    def look(self) -> None:
        """Measure every unit."""
        size = self.sizes.__getitem__
        self.memory = {unit: sum(map(size, s.present)) for unit, s in self.selections.items()}

    def transfers(self, giver: str, taker: str) -> list[Transfer]:
        """Return the transfers that may go from one unit to its neighbour, with current sizes."""
        size = self.sizes.__getitem__
        return [Transfer(t.ops, t.to, sum(map(size, t.ops))) for t in self.selections[giver] if t.to == taker]

    def move(self, giver: str, transfer: Transfer) -> None:
        """Carry out one transfer and record it."""
        self._shift(giver, transfer.to, transfer.ops)
        self.moves.append((giver, transfer))

    def undo(self, mark: int) -> None:
        """Undo every move since ``mark``, which is an earlier length of ``moves``."""
        while len(self.moves) > mark:
            giver, transfer = self.moves.pop()
            self._shift(transfer.to, giver, transfer.ops)

    def _shift(self, giver: str, taker: str, ops: Iterable[int]) -> None:
        size = sum(self.sizes[op] for op in ops)
        self.selections[giver].remove(ops)
        self.selections[taker].add(ops)
        self.memory[giver] -= size
        self.memory[taker] += size


def best_fit(transfers: Iterable[Transfer], need: float, space: float) -> Transfer | None:
    """Return the smallest transfer that covers the need and fits, else the largest that fits.

    Examples
    --------
    >>> sizes = [Transfer((n,), "up", float(size)) for n, size in enumerate([2, 5, 9])]
    >>> best_fit(sizes, 4.0, 8.0).size, best_fit(sizes, 20.0, 8.0).size, best_fit(sizes, 4.0, 1.0)
    (5.0, 5.0, None)
    """
    fitting = [t for t in transfers if EPSILON < t.size <= space + EPSILON]
    enough = [t for t in fitting if t.size >= need - EPSILON]
    if enough:
        return min(enough, key=lambda t: (t.size, len(t.ops), t.ops))
    return max(fitting, key=lambda t: (t.size, -len(t.ops), t.ops), default=None)


def shed(board: Board, unit: str, need: float, upper: float, hops: int, barred: frozenset[str]) -> float:
    """Move ``need`` away from a unit, to neighbours that may first make room, and return how much was moved."""
    gone = 0.0
    neighbours = [n for n in board.tree.neighbours(unit) if n not in barred]
    for neighbour in sorted(neighbours, key=lambda n: (board.memory[n], n)):
        if board.memory[neighbour] > upper + EPSILON:
            break  # an overloaded neighbour takes and passes on nothing, and the next ones are fuller
        while gone < need - EPSILON:
            space = upper - board.memory[neighbour]
            transfer = best_fit(board.transfers(unit, neighbour), need - gone, space)
            if transfer is None or (hops > 1 and transfer.size < need - gone - EPSILON):
                more = _made_room(board, unit, neighbour, need - gone, upper, hops, barred)
                transfer = more if more is not None else transfer
            if transfer is None:
                break
            board.move(unit, transfer)
            gone += transfer.size
    return gone


def _made_room(
    board: Board, unit: str, neighbour: str, need: float, upper: float, hops: int, barred: frozenset[str]
) -> Transfer | None:
    """Let a neighbour give operators away first, so that it has room for one transfer; else change nothing."""
    if hops <= 1 or not any(
        board.memory[n] <= upper + EPSILON for n in board.tree.neighbours(neighbour) if n != unit and n not in barred
    ):
        return None
    wanted = best_fit(board.transfers(unit, neighbour), need, upper)
    if wanted is None:
        return None
    mark = len(board.moves)
    lacking = wanted.size - (upper - board.memory[neighbour])
    if board.memory[neighbour] <= upper + EPSILON and lacking > EPSILON:
        shed(board, neighbour, lacking, upper, hops - 1, barred | {unit})
    # The neighbour's own moves may have changed which operators must go together, so look the transfer up again.
    again = best_fit(board.transfers(unit, neighbour), need, upper - board.memory[neighbour])
    if again is None or again.size < wanted.size - EPSILON:
        board.undo(mark)
        return None
    return again


def rebalance(board: Board, upper: float, *, hops: int = 4, spread: bool = True) -> list[tuple[str, Transfer]]:
    """Relieve every unit whose overload can end completely, the smallest need first, and return the moves.

    With ``spread``, the remaining room then takes load from the other overloaded units, the fullest first.
    """
    board.look()
    board.moves.clear()
    over = sorted((m, unit) for unit, m in board.memory.items() if m > upper + EPSILON)
    left = []
    for memory, unit in over:
        mark = len(board.moves)
        need = memory - upper
        if shed(board, unit, need, upper, hops, frozenset({unit})) < need - EPSILON:
            board.undo(mark)
            left.append(unit)
    if spread:
        for unit in reversed(left):
            shed(board, unit, board.memory[unit] - upper, upper, hops, frozenset({unit}))
    return list(board.moves)
