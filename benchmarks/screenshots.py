"""The screenshots of README: docs/figures/playground-*.png.

    python benchmarks/screenshots.py

Needs /usr/bin/chromium.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from server import ours, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parent.parent
PORT = 8975
DESK, PHONE = (1120, 800), (390, 800)


def wait_drawn(page: Page, action: Callable[[], object]) -> None:
    """Do something, and wait for the picture that follows."""
    before = page.get_attribute("body", "data-drawn")
    action()
    while page.get_attribute("body", "data-drawn") == before:
        page.wait_for_timeout(30)


def opened(browser: Browser, size: tuple[int, int], scheme: Literal["light", "dark"]) -> Page:
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.set_default_timeout(60_000)
    page.goto(f"http://127.0.0.1:{PORT}/")
    page.wait_for_selector("body[data-drawn]")
    return page


def compose(page: Page) -> None:
    for _ in range(2):
        wait_drawn(page, lambda: page.click("[aria-label='one 2 more']"))


def edit(page: Page) -> None:
    wait_drawn(page, lambda: page.click("text=Edit a whole"))
    wait_drawn(page, lambda: page.select_option("#example", index=2))
    page.click("#recover")
    page.wait_for_selector(".part-card")
    wait_drawn(page, lambda: page.click(".part-card button >> nth=0"))


def colours(page: Page) -> None:
    wait_drawn(page, lambda: page.select_option("#model", "colours"))
    page.check("#palette input >> nth=2")
    wait_drawn(page, lambda: page.click(".stage canvas", position={"x": 130, "y": 90}))


SHOTS: dict[str, tuple[Callable[[Page], None], tuple[int, int], Literal["light", "dark"]]] = {
    "compose": (compose, DESK, "light"),
    "edit": (edit, DESK, "light"),
    "colours": (colours, DESK, "dark"),
    "phone": (compose, PHONE, "dark"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "figures")
    out = parser.parse_args().out
    from playwright.sync_api import sync_playwright

    with serving(PORT, ours(PORT)), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        for name, (act, size, scheme) in SHOTS.items():
            page = opened(browser, size, scheme)
            act(page)
            page.evaluate("scrollTo(0, 0)")
            path = out / f"playground-{name}.png"
            page.screenshot(path=path)
            print(path, path.stat().st_size)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
