"""Build the documentation site: pages of docs/, the examples, the reference, the diagrams drawn; then check every link.

make docs
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import mermaidx

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "site" / "source"
HTML = ROOT / "site" / "html"
EXAMPLES = sorted(p for p in (ROOT / "examples").iterdir() if p.suffix in {".py", ".toml"})
# What a user calls or writes against, in the order of need.
REFERENCE = [
    "evenflow.spark.slices.balance",
    "evenflow.spark.kit.query",
    "evenflow.spark.kit.controller.Balancing",
    "evenflow.spark.slices.testing",
    "evenflow.spark.slices.stateful.testing",
    "evenflow.spark.matching.match",
    "evenflow.model",
    "evenflow.planner",
    "evenflow.draft",
    "evenflow.guards",
    "evenflow.imbalance",
    "evenflow.measure",
    "evenflow.policies",
    "evenflow.trace",
    "evenflow.invariants",
    "evenflow.errors",
]
SHIM = "search-from-file.js"
LANGUAGES = {".py": "py", ".toml": "toml"}
FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


def main() -> int:
    """Stage, build, check; return the exit code."""
    shutil.rmtree(ROOT / "site", ignore_errors=True)
    stage()
    built = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=ROOT, check=False)
    if built.returncode:
        return built.returncode
    finish(HTML)
    faults = list(check(HTML))
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{len(list(HTML.rglob('*.html')))} pages, {len(faults)} faults: {HTML.relative_to(ROOT) / 'index.html'}")
    return 1 if faults else 0


def stage() -> None:
    """Put what the site is made of into one directory."""
    shutil.copytree(ROOT / "docs", SOURCE)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](").replace("](CHANGELOG", "](changelog")
        (SOURCE / name.lower()).write_text(text, encoding="utf-8")
    (SOURCE / "examples.md").write_text(examples(), encoding="utf-8")
    (SOURCE / "reference.md").write_text(reference(), encoding="utf-8")
    for page in SOURCE.glob("*.md"):
        text = re.sub(r"\]\(\.\./examples/([\w.-]+)\)", lambda m: f"](examples.md#{anchor(m[1])})", page.read_text())
        text = re.sub(r"^```mermaid\n(.*?)\n```$", draw, text, flags=re.DOTALL | re.MULTILINE)
        page.write_text(text, encoding="utf-8")


def draw(block: re.Match[str]) -> str:
    """Draw a diagram, and return what shows it: a page that drew it in the browser would fetch the means to."""
    folder = SOURCE / "diagrams"
    folder.mkdir(exist_ok=True)
    picture = folder / f"{hashlib.sha256(block[1].encode()).hexdigest()[:12]}.svg"
    svg = mermaidx.render(block[1]).svg()
    picture.write_text(svg if isinstance(svg, str) else svg.decode(), encoding="utf-8")
    return f"![State diagram](diagrams/{picture.name})"


def examples() -> str:
    """Return the page of the examples: each file as it is."""
    lines = ["# Examples", "", "Small programs to copy, from `examples/`; each generates its input and ends by itself."]
    for path in EXAMPLES:
        text = path.read_text(encoding="utf-8")
        lines += ["", f"## {path.name}", "", f"```{LANGUAGES[path.suffix]}", text.rstrip(), "```"]
    return "\n".join([*lines, ""])


def reference() -> str:
    """Return the page of the reference: the docstrings of what a user calls."""
    lines = ["# Reference", "", "From the docstrings, whose examples run with the tests."]
    return "\n".join([*lines, *(f"\n::: {name}" for name in REFERENCE), ""])


def anchor(name: str) -> str:
    """Return the anchor of a heading that is a file's name.

    Examples
    --------
    >>> anchor("online_model.py")
    'online_modelpy'
    """
    return name.replace(".", "").lower()


def finish(html: Path) -> None:
    """Replace the one script that the offline plugin fetches, so that search works in a page opened as a file."""
    shutil.copy(ROOT / "tools" / SHIM, html)
    for page in html.rglob("*.html"):
        up = "../" * (len(page.relative_to(html).parts) - 1)
        text = page.read_text(encoding="utf-8").replace("https://unpkg.com/iframe-worker/shim", f"{up}{SHIM}")
        page.write_text(re.sub(r":(?:meth|class|func|mod|data|attr):(?=<code>)", "", text), encoding="utf-8")


class Page(HTMLParser):
    """What one page refers to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links and anchors."""
        given = dict(attrs)
        self.anchors.update(filter(None, (given.get("id"), given.get("name") if tag == "a" else None)))
        for name, value in attrs:
            if value and (tag, name) in FETCHED and given.get("rel") != "canonical":
                self.fetched.append(value)
            elif value and (tag, name) == ("a", "href"):
                self.links.append(value)


def check(html: Path) -> Iterator[str]:
    """Yield every link that leads nowhere, and everything that a page would fetch from elsewhere."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(html.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(html)
        if name.name == "404.html":
            continue  # a server shows it at any address, so its links are absolute
        for target in [*page.links, *page.fetched]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.fetched and parts.scheme != "data":
                    yield f"{name}: fetches {target}"
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            if not file.is_file():
                yield f"{name}: {target} does not exist"
            elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].anchors | {"__top"}:
                yield f"{name}: {target} has no such anchor"


if __name__ == "__main__":
    sys.exit(main())
