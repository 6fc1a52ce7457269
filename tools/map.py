"""Draw the packages and who imports whom as docs/map.svg; refuse cycles and packages without a sentence.

make map
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import mermaidx
import networkx as nx

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "evenflow"
PICTURE = ROOT / "docs" / "map.svg"
CORE = "core"
IN_CORE = {"expression", "policies", "search", "trace"}  # small packages that every system may use
DRIVERS = ("sim", "dds", "spark")


def package_of(path: Path) -> str:
    """Return the package that a source file belongs to, as the map names it."""
    folder = path.relative_to(SOURCE).parent
    if folder.parts[:1] in {(), *((name,) for name in IN_CORE)}:
        return CORE
    return ".".join(folder.parts[:2])  # what is below is read together with it


def imported(path: Path) -> Iterator[Path]:
    """Yield the source files of evenflow that a file imports when it runs."""
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
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            found = _file(name)
            if found is not None:
                yield found


def _file(name: str) -> Path | None:
    """Return the file of a module, or of the module that a name is imported from."""
    parts = name.split(".")
    if parts[0] != "evenflow":
        return None
    while len(parts) > 1:
        path = SOURCE.joinpath(*parts[1:])
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.is_file():
                return candidate
        parts.pop()
    return SOURCE / "__init__.py"


def graph() -> nx.DiGraph:
    """Return the packages as nodes, with an edge from each to what it imports."""
    packages = nx.DiGraph()
    for path in sorted(SOURCE.rglob("*.py")):
        if path.parent == SOURCE and path.stem in {"__init__", "__main__"}:
            continue  # the doors to everything, loaded by nothing below them
        package = package_of(path)
        packages.add_node(package)
        for other in imported(path):
            if package_of(other) != package:
                packages.add_edge(package, package_of(other))
    return packages


def sentence(package: str) -> str:
    """Return the first line of a package's docstring."""
    if package == CORE:
        return "What every system shares: the model, measuring, planning, policies, the trace, invariants."
    text = SOURCE.joinpath(*package.split("."), "__init__.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def faults(packages: nx.DiGraph) -> list[str]:
    """Return what is wrong: cycles, drivers that know each other, packages without a sentence."""
    found = [f"cycle: {' -> '.join([*cycle, cycle[0]])}" for cycle in nx.simple_cycles(packages)]
    for one, other in packages.edges:
        ends = one.partition(".")[0], other.partition(".")[0]
        if ends[0] != ends[1] and set(ends) <= set(DRIVERS) and one != "spark.dds":
            found.append(f"drivers know each other: {one} -> {other}")
    return found + [f"no sentence: {package}" for package in packages if not sentence(package)]


def drawing(packages: nx.DiGraph) -> str:
    """Return the map as Mermaid text: an arrow leads to what is used, and what follows from other arrows is left out."""
    reduced = nx.transitive_reduction(packages)
    lines = ["flowchart TB", *(f'  {package.replace(".", "_")}["{package}"]' for package in sorted(packages))]
    lines += [f"  {a.replace('.', '_')} --> {b.replace('.', '_')}" for a, b in sorted(reduced.edges)]
    return "\n".join(lines)


def signature(packages: nx.DiGraph) -> str:
    """Return the comment that says what the picture shows, so that a test can tell an old picture."""
    return f"<!-- {hashlib.sha256(drawing(packages).encode()).hexdigest()[:16]} -->"


def main() -> int:
    """Check and draw; return the exit code."""
    packages = graph()
    wrong = faults(packages)
    if wrong:
        print(*wrong, sep="\n")
        return 1
    svg = mermaidx.render(drawing(packages)).svg()
    text = svg if isinstance(svg, str) else svg.decode()
    PICTURE.write_text(f"{text}\n{signature(packages)}\n", encoding="utf-8")
    print(f"{len(packages)} packages, no cycles: {PICTURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
