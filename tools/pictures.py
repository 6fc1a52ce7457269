"""Save every figure of a report as a PNG, through the system's Chromium.

.venv/bin/python tools/pictures.py REPORT_DIR PICTURES_DIR
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH = 900


def main(report: Path, out: Path) -> int:
    """Open the page, wait until its figures are drawn, and take them one by one."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("no chromium on this machine", file=sys.stderr)
        return 1
    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 700})
        page.goto((report / "index.html").resolve().as_uri())
        page.wait_for_function("() => window.Bokeh !== undefined && Bokeh.documents.every(d => d.is_idle)")
        for section in page.locator("section:has([data-root-id])").all():
            title = section.locator("h2").inner_text()
            path = out / f"{re.sub('[^a-z0-9]+', '-', title.lower()).strip('-')}.png"
            section.screenshot(path=path)
            print(path)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
