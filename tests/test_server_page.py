"""The playground in a real browser: every control, on a desk and on a phone, with nothing but this host."""

from __future__ import annotations

import io
import json
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

import compvae
from calls import call
from compvae.server.catalogue import Catalogue
from compvae.server.hosts import Door
from compvae.server.limits import Limits
from serving import Running, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESK, PHONE = (1200, 850), (390, 844)
SECONDS = 60


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.of(["sines", "colours", "households"], Limits())


@pytest.fixture(scope="module")
def server(catalogue: Catalogue) -> Iterator[Running]:
    with running(catalogue, Limits(seconds=SECONDS)) as served:
        yield served


class Visitor:
    """A page, and all that must not happen on it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url, self.wrong = page, url, list[str]()
        page.set_default_timeout(1000 * SECONDS)
        page.on("console", lambda message: self.wrong.append(message.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url, "blob:", "data:")):
            self.wrong.append(url)

    @property
    def drawn(self) -> int:
        """How many pictures were drawn so far."""
        return int(self.page.get_attribute("body", "data-drawn") or 0)

    def open(self, fragment: str = "") -> None:
        self.page.goto("about:blank")
        self.after(lambda: self.page.goto(f"{self.url}/{fragment}"), fresh=True)

    def after(self, action: Callable[[], object], fresh: bool = False) -> None:
        """Do something, and wait for the picture that follows."""
        before = 0 if fresh else self.drawn
        action()
        until = time.monotonic() + SECONDS
        while self.drawn <= before:
            assert time.monotonic() < until, self.page.inner_text("#error") or self.page.inner_text("#status")
            self.page.wait_for_timeout(20)
        assert not self.page.is_visible("#error"), self.page.inner_text("#error")

    def click(self, selector: str) -> None:
        self.after(lambda: self.page.click(selector))

    def file(self, selector: str) -> bytes:
        with self.page.expect_download() as download:
            self.page.click(selector)
        return Path(download.value.path()).read_bytes()

    def python(self) -> dict[str, object]:
        """What the Python lines of the page leave behind."""
        names: dict[str, object] = {}
        exec(self.page.inner_text("#python"), names)
        return names

    def picture(self) -> str:
        """What is drawn, wherever on the page it stands: a screenshot would hang on fractions of a pixel."""
        return str(self.page.locator("#plot canvas").first.evaluate("canvas => canvas.toDataURL()"))

    def count(self, selector: str) -> int:
        return self.page.locator(selector).count()


@pytest.fixture(params=[DESK, PHONE], ids=["desk", "phone"])
def visitor(request: pytest.FixtureRequest, server: Running, chromium: Browser) -> Iterator[Visitor]:
    width, height = request.param
    scheme: Literal["light", "dark"] = "light" if width > 800 else "dark"
    page = chromium.new_page(viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=width < 800)
    visitor = Visitor(page, server.url)
    yield visitor
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # the page itself never scrolls aside
    page.close()
    assert not visitor.wrong


def test_curves_are_composed_with_steppers(visitor: Visitor) -> None:
    page = visitor.page
    visitor.open()
    assert page.input_value("#model") == "sines"
    page.fill("#count-2", "2")
    visitor.after(lambda: page.press("#count-2", "Enter"))
    visitor.click("[aria-label='one 5 more']")
    for name in ("4", "7", "10"):
        if page.is_enabled(f"[aria-label='one {name} less']"):
            visitor.click(f"[aria-label='one {name} less']")
    assert page.inner_text("#size") == "K = 3"
    assert "between" in str(page.get_attribute("#plot", "aria-label"))
    shown = np.load(io.BytesIO(visitor.file("[data-file=npz]")))["x"]
    model = compvae.load("sines")
    assert np.array_equal(shown, model.compose({"3": 2, "5": 1}).decode(32, seed=0))
    assert np.array_equal(visitor.python()["x"], shown)
    before = visitor.picture()
    visitor.click("#new-draw")
    assert visitor.picture() != before
    visitor.after(lambda: page.select_option("#view", "draws"))
    visitor.after(lambda: page.check("#noise"))
    seed = int(page.input_value("#seed"))
    table = visitor.file("[data-file=csv]").decode().splitlines()
    noisy = model.compose({"3": 2, "5": 1}).decode(32, seed, noise=True)
    assert np.array_equal(np.array(table[1].split(","), np.float32), noisy[0])
    assert visitor.file("[data-file=png]").startswith(b"\x89PNG")


def test_the_shell_line_does_the_same(visitor: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    visitor.open()
    visitor.after(lambda: visitor.page.select_option("#model", "colours"))
    line = shlex.split(visitor.page.inner_text("#shell"))
    assert call(*line[1:])[0] == 0
    assert np.array_equal(np.load("x.npz")["x"], np.load(io.BytesIO(visitor.file("[data-file=npz]")))["x"])
    assert np.array_equal(visitor.python()["x"], np.load("x.npz")["x"])


def test_a_link_brings_the_state_back(visitor: Visitor) -> None:
    page = visitor.page
    visitor.open()
    visitor.click("[aria-label='one 8 more']")
    visitor.click("#new-draw")
    page.wait_for_timeout(500)  # the address follows a little later
    link, python, picture = page.url, page.inner_text("#python"), visitor.picture()
    visitor.open(link.partition("#")[2].join(["#", ""]))
    assert page.inner_text("#python") == python
    assert visitor.picture() == picture
    for broken in (
        "#%7B%22model%22%3A%22nobody%22%7D",
        "#%E0%A4%A",
        "#%7B%22model%22%3A%22sines%22%2C%22parts%22%3A%5B3%5D%7D",
    ):
        visitor.open(broken)


def test_sites_are_put_dragged_and_removed(visitor: Visitor) -> None:
    page = visitor.page
    visitor.open()
    visitor.after(lambda: page.select_option("#model", "colours"))
    there = visitor.count(".site")
    page.check("#palette input >> nth=2")
    box = page.locator(".stage").bounding_box()
    assert box
    visitor.after(lambda: page.click(".stage canvas", position={"x": box["width"] * 0.5, "y": box["height"] * 0.5}))
    assert visitor.count(".site") == there + 1
    new = page.locator(".site").last
    assert str(new.get_attribute("aria-label")).startswith("blue at x 0")
    box = page.locator(".stage").bounding_box()
    assert box
    new.scroll_into_view_if_needed()
    box = page.locator(".stage").bounding_box()
    assert box

    def drag() -> None:
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + box["height"] * 0.25, steps=4)
        page.mouse.up()

    visitor.after(drag)
    page.wait_for_timeout(500)
    moved = new.get_attribute("aria-label")
    page.mouse.move(box["x"] + box["width"] * 0.75 + 6, box["y"] + box["height"] * 0.25 - 6)
    page.mouse.down()
    page.mouse.up()
    assert new.get_attribute("aria-label") == moved  # a mere click, off its middle, moves nothing
    parts, keys = _state(page)["parts"], [part["key"] for part in _state(page)["parts"]]
    assert parts[-1]["place"] == pytest.approx({"x": 0.5, "y": -0.5}, abs=0.02)
    dicts = [{**part["kind"], **part["place"]} for part in parts]
    expected = compvae.load("colours").compose(dicts, keys=keys).decode(8)
    visitor.after(lambda: new.press("ArrowLeft"))
    visitor.after(lambda: new.press("ArrowRight"))
    assert np.array_equal(np.load(io.BytesIO(visitor.file("[data-file=npz]")))["x"], expected)
    visitor.after(lambda: new.press("Delete"))
    visitor.click("#add-part")
    visitor.click(".site-row button >> nth=0")
    assert visitor.count(".site") == there
    assert visitor.count(".thumbs figure") == 8


def test_homes_have_counts_and_a_context(visitor: Visitor) -> None:
    page = visitor.page
    visitor.open()
    visitor.after(lambda: page.select_option("#model", "households"))
    visitor.click("[aria-label='one heat pump more']")
    unknown = visitor.picture()
    visitor.after(lambda: page.check("#context-temperature-known"))
    visitor.after(lambda: page.fill("#context-temperature", "-5"))
    visitor.after(lambda: page.select_option("#context-day_type", "weekend"))
    assert visitor.picture() != unknown
    assert '"temperature": -5' in page.inner_text("#python")
    shown = np.load(io.BytesIO(visitor.file("[data-file=npz]")))
    assert json.loads(str(shown["context"])) == {"temperature": -5, "day_type": "weekend"}
    assert np.array_equal(visitor.python()["x"], shown["x"])
    visitor.after(lambda: page.select_option("#context-day_type", ""))
    assert "day_type" not in page.inner_text("#python")


@pytest.mark.parametrize("name", ["sines", "colours"])
def test_an_observed_whole_is_recovered_and_edited(
    visitor: Visitor, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = visitor.page
    monkeypatch.chdir(tmp_path)
    visitor.open()
    visitor.after(lambda: page.select_option("#model", name))
    visitor.click("text=Edit a whole")
    page.click("#recover")
    page.wait_for_selector(".part-card")
    assert "Recovered to within" in page.inner_text("#told")
    cards = visitor.count(".part-card")
    visitor.click(".part-card button >> nth=0")
    assert page.inner_text("#size") == f"K = {cards - 1}"
    assert "Distance to the exact counterfactual" in page.inner_text("#told")
    names = visitor.python()
    edited = np.load(io.BytesIO(visitor.file("[data-file=npz]")))["x"]
    assert np.array_equal(names["draws"], edited)
    Path("observed.npz").write_bytes(visitor.file("#observed-file"))
    assert np.array_equal(names["x"], np.load("observed.npz")["x"][0])
    assert call(*shlex.split(page.inner_text("#shell"), comments=True)[1:])[0] == 0
    assert np.array_equal(np.load("y.npz")["x"], edited)
    visitor.click("#add-part" if name == "colours" else "[aria-label='one 5 more']")
    assert "drawn afresh" in page.inner_text("#told")
    visitor.click("#undo")
    visitor.click("#reset")
    assert page.inner_text("#size") == f"K = {cards}"
    visitor.click("#redraw-truth")
    visitor.after(lambda: page.select_option("#example", index=1))


def test_extremes_come_with_their_probability(visitor: Visitor) -> None:
    page = visitor.page
    visitor.open()
    visitor.click("text=Extremes")
    assert "= 0.10 ±" in page.inner_text("#told")
    visitor.after(lambda: page.select_option("#event", "energy"))
    visitor.after(lambda: page.fill("#quantile", "1.5"))
    assert "the highest 3.2% of the energy" in page.inner_text("#quantile-text")
    assert "P(energy ≥" in page.inner_text("#told")


def test_images_are_extreme_in_their_light(visitor: Visitor) -> None:
    """Nearly every image has a pixel of full brightness: no quantile of the peak can be had."""
    page = visitor.page
    visitor.open()
    visitor.after(lambda: page.select_option("#model", "colours"))
    page.click("text=Extremes")
    assert page.input_value("#event") == "energy"
    assert page.get_attribute("#quantile", "aria-valuetext") == "the highest 10% of the energy"


def test_everything_is_within_reach_of_a_keyboard_and_has_a_name(server: Running, chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": DESK[0], "height": DESK[1]})
    visitor = Visitor(page, server.url)
    visitor.open()
    visitor.after(lambda: page.focus("[aria-label='one 2 more']") or page.keyboard.press("Enter"))
    assert page.evaluate("document.activeElement.ariaLabel") == "one 2 more"  # the focus stays where it was
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('button, select, input, canvas[role]')].filter(e =>
            e.offsetParent && !(e.ariaLabel || e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)
        ).map(e => e.outerHTML)"""
    )
    assert not nameless
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.ariaLabel"))
    assert {"new-draw", "seed", "view", "noise", "link", "one 10 more", "count-9", "model"} <= reached
    page.close()
    assert not visitor.wrong


def test_a_server_with_a_token_asks_for_it(catalogue: Catalogue, chromium: Browser) -> None:
    with running(catalogue, door=Door(token="open sesame")) as guarded:
        page = chromium.new_context().new_page()
        visitor = Visitor(page, guarded.url)
        visitor.open("#token=open%20sesame")
        assert "sesame" not in page.url
        assert not visitor.wrong
        stranger = chromium.new_context().new_page()
        stranger.goto(guarded.url)
        stranger.fill("#token", "open sesame")
        stranger.press("#token", "Enter")
        stranger.wait_for_selector("#plot canvas")
        page.close()
        stranger.close()


def _state(page: Page) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = page.evaluate("JSON.parse(decodeURIComponent(location.hash.slice(1)))")
    return found
