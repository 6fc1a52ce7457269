"""Nothing imports upward: logic knows no driver, no clock, no chance; each foreign library has one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "evenflow"

# From the bottom up. A part may import its own layer and what is below, except that drivers never import each other.
# What is not named here is logic: a new module starts under the strictest rule.
LAYERS = {
    "sim": 1,
    "spark": 1,
    "dds": 1,
    "experiments": 2,
    "bench": 3,
    "web": 3,
    "cli": 4,
    "__main__": 5,
}
LOGIC = 0
DRIVERS = {"sim", "spark", "dds"}
EDGE = "spark/dds/"  # where a topic becomes a stream of rows: this package alone knows two drivers
HOMES = {
    "pyspark": {"spark", "experiments"},  # live trials and drills are experiments
    "bokeh": {"web"},
    "panel": {"web"},
    "cyclonedds": {"dds", "experiments"},
    "typer": {"cli"},
    "rich": {"cli"},
}
# ``bench`` measures against peers and may import them.
NOT_IN_LOGIC = {"time", "datetime", "random", "secrets", "asyncio", "threading", "multiprocessing", "socket"}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    """Every module a file imports, wherever in the file, except for type checking alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            assert node.module is not None
            yield node.module
            if node.module in ("evenflow", "numpy"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_layers(path: Path):
    part = part_of(path)
    layer = LAYERS.get(part, LOGIC)
    for module in imports_of(path):
        top, _, rest = module.partition(".")
        assert part in HOMES.get(top, {part}) | {"bench"}, f"{module} belongs under {HOMES[top]}"
        if layer == LOGIC:
            assert top not in NOT_IN_LOGIC, f"logic imports {module}: time and chance are arguments"
            assert module != "numpy.random", "logic imports numpy.random: chance is an argument"
        if top == "evenflow" and rest:
            other = rest.partition(".")[0]
            assert LAYERS.get(other, LOGIC) <= layer, f"{part} imports upward: {module}"
            at_the_edge = other == "dds" and path.relative_to(SOURCE).as_posix().startswith(EDGE)
            separate = at_the_edge or not {part, other} <= DRIVERS
            assert other == part or separate, f"drivers never import each other: {module}"


CALLS_OF_CHANCE = (
    "np.random.",
    "numpy.random.",
    "time.time",
    "datetime.now",
    "os.urandom",
    "uuid.uuid",
    "uuid1",
    "uuid4",
)


@pytest.mark.parametrize(
    "path", [p for p in FILES if LAYERS.get(part_of(p), LOGIC) == LOGIC], ids=lambda path: str(path.relative_to(SOURCE))
)
def test_logic_calls_no_clock_and_no_chance(path: Path):
    calls = [ast.unparse(n.func) for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    assert not [call for call in calls if call.startswith(CALLS_OF_CHANCE)]


def test_the_public_package_loads_no_driver():
    import subprocess
    import sys

    program = "import sys, evenflow; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not set(loaded) & {"pyspark", "bokeh", "cyclonedds", "typer", "rich"}
