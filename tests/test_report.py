"""The report: one page that stands alone, says what the rows say, and opens in a real browser without a request."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from calls import call
from compvae import problems
from compvae.api import load, shipped
from compvae.errors import CompVAEError, ConfigError, DataFileError, OutputError
from compvae.evaluation import Comparison, Evaluation, Row, evaluate, plan_for, read_evaluation
from compvae.evaluation.observed import Observation, shown_parts
from compvae.evaluation.properties import departures, order
from compvae.model import Model
from compvae.network import CompVAE, seeded_network
from compvae.presets import preset
from compvae.report import report, write_report
from compvae.report.claims import VERDICTS, claims, number, rounded
from compvae.report.facts import Subject, headlines, reproduction
from compvae.report.measures import shown_below, versus
from compvae.report.page import Other, successor_of
from compvae.storage import Provenance

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TINY = {"sines": {"timesteps": 24, "resolution": 12}, "colours": {"size": 8}, "households": {}}
HOSTILE = "<b>&\"small'</b>"
ROWS = [
    Row(name="relED", K=2, value=0.005, se=0.001, floor=0.002),
    Row(name="relED", K=100, value=0.2, se=0.01, floor=0.002),
    Row(of="independent", name="relED", K=2, value=0.3, se=0.01, floor=0.002),
    Row(name="edit remove", K=2, value=0.3, se=0.01),
]
LINES = [
    {"step": 10, "w_bits": 5.0, "z_bits": 0.0, "x": -300.0, "bound": -303.5, "seconds": 1.0},
    {"step": 20, "w_bits": 9.0, "z_bits": 0.0, "x": -200.0, "bound": -206.0, "rel_ed": {"2": 0.5}, "seconds": 2.0},
]


def untrained(name: str, directory: Path) -> Path:
    """A run with a model of first weights, as small as its problem can be."""
    problem = problems.get(name, **TINY[name])
    notes = {"preset": HOSTILE, "seed": "0", "steps": "20 of 20"}
    Model(seeded_network(preset(problem, "small"), 0), Provenance(name, TINY[name], notes)).save(directory / "model")
    (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return directory


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained("sines", tmp_path_factory.mktemp("sines"))


@pytest.fixture(scope="module")
def pages(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page for each problem; that of sines with rows that were measured."""
    found = {}
    for name in TINY:
        place = run if name == "sines" else untrained(name, tmp_path_factory.mktemp(name))
        subject = Subject.of(str(place))
        found[name] = place / "report.html"
        if name == "sines":
            write_report(str(place), found[name], quick=True)
        else:
            page = report(subject, Evaluation(measures=ROWS), 0, reproduction(subject, True, 0, None), quick=True)
            found[name].write_text(page)
    return found


class Page(HTMLParser):
    """Which elements there are; refuses those that are not closed, or closed in another order."""

    VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    @classmethod
    def read(cls, path: Path) -> Page:
        page = cls()
        page.feed(path.read_text())
        page.close()
        assert not page.stack
        return page

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.elements if tag in tags]


@pytest.mark.parametrize("name", list(TINY))
def test_a_page_stands_alone(pages: dict[str, Path], name: str) -> None:
    page = Page.read(pages[name])
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert not page.all("script", "link", "iframe", "object", "embed", "img")
    for _, attrs in page.elements:
        for key in ("src", "href", "xlink:href", "srcset", "action"):
            target = attrs.get(key)
            assert target is None or target.startswith("data:image/png;base64,") or target[1:] in ids, target
    assert not re.search(r"url\((?!#)|@import|https?://", pages[name].read_text())


@pytest.mark.parametrize("name", list(TINY))
def test_every_figure_is_there_and_says_what_it_shows(pages: dict[str, Path], name: str) -> None:
    page = Page.read(pages[name])
    drawn = {str(attrs["id"]).removeprefix("figure-") for attrs in page.all("figure")}
    expected = {"relED", "aggregation", "variance", "growing", "edit", "tail", "live", "training"}
    own = {
        "sines": {"impact", "recomposed", "beyond"},
        "households": {"fan", "peaks", "duration", "diversity", "change", "worst"},
    }
    without = {"live"} if name == "households" else set()  # an invertible model has no bits in its latents
    assert drawn == (expected | own.get(name, set())) - without
    assert len(page.all("svg")) == len(drawn) == len(page.all("figcaption"))
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in page.all("svg"))
    assert bool(page.all("image")) == (name == "colours")
    assert len(page.all("h1")) == len(page.all("main")) == 1


def test_what_a_file_says_is_escaped_and_what_was_measured_is_shown(pages: dict[str, Path]) -> None:
    text = pages["sines"].read_text()
    assert "<b>&" not in text
    assert "&lt;b&gt;&amp;" in text
    for measured in ("relED", "edit remove", "off-manifold", "period", "bits in w", "order"):
        assert f"<caption><b>{measured}</b> " in text
    assert "Measured with --quick" in text


def test_a_report_shows_what_an_evaluation_measures(run: Path, pages: dict[str, Path]) -> None:
    """The same rows, by the same code; and those of parts that are drawn alone."""
    subject = Subject.of(str(run))
    plan = replace(plan_for(subject.problem, quick=True, sizes=(1,)), edited=())
    rows, text = evaluate(subject.model, plan).measures, pages["sines"].read_text()
    assert {"relED", "C2ST", "off-manifold", "bits in w", "order"} <= {row.name for row in rows}
    assert all(part in text for row in rows for part in rounded(row))
    assert "<td>independent</td>" in text
    assert "of the sum of parts drawn alone against ours" in text


def test_two_models_stand_side_by_side(run: Path) -> None:
    """The same rules for both; by default beside a model of the paper's form alone."""
    subject, other = Subject.of(str(run)), [ROWS[3].model_copy(update={"value": 0.9}), *ROWS[:3]]
    page = report(subject, Evaluation(measures=ROWS), 0, [], other=Other("another", Evaluation(measures=other)))
    assert page.count('<th scope="col">another</th>') == 1
    for rows in (ROWS, other):
        assert all(one.ours in page for one in claims(rows, subject.problem))
    assert successor_of(subject) == ""
    notes = {"preset": "paper-narrow", "seed": "0", "steps": "20 of 20"}
    narrow = replace(subject, model=Model(subject.model.network, Provenance("sines", TINY["sines"], notes)))
    assert successor_of(narrow) == "sines"


def test_a_shipped_model_may_bring_its_training_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its directory has to be there: it is loaded and reported by its name."""
    monkeypatch.setattr("compvae.api.SHIPPED", tmp_path)
    untrained("sines", tmp_path / "run")
    (tmp_path / "run" / "model").rename(tmp_path / "sines-paper")
    (tmp_path / "run" / "metrics.jsonl").rename(tmp_path / "sines-paper" / "metrics.jsonl")
    assert shipped() == ["sines-paper"]
    assert load("sines-paper").provenance.problem == "sines"
    assert Subject.of("sines-paper").lines == LINES


def test_what_stands_beside_must_be_of_the_same_problem(run: Path, tmp_path: Path) -> None:
    rows, page = tmp_path / "rows.json", tmp_path / "page.html"
    rows.write_text(Evaluation(about={"problem": "sines"}, measures=ROWS).model_dump_json())
    with pytest.raises(
        ConfigError, match="households is a model of households, which cannot stand beside one of sines"
    ):
        write_report(str(run), page, quick=True, evaluation=rows, beside="households")
    with pytest.raises(ConfigError, match="needs its name; give --beside too"):
        write_report(str(run), page, quick=True, evaluation=rows, beside_evaluation=rows)


def test_order_and_departure_are_measured() -> None:
    problem = problems.get("sines", timesteps=60, resolution=30)
    assert order(Model(CompVAE.seeded(preset(problem, "small"), 0)), problem).found.value == 0.0
    values = [judged.found.value for judged in departures(problem).values()]
    assert values == sorted(values)
    hidden = problem.specifics(shown_parts(problem), 200, 0)
    alone = sum(problem.whole([part], hidden[:, [i]]) for i, part in enumerate(shown_parts(problem)))
    whole = problem.whole(shown_parts(problem), hidden)
    assert values[1] == pytest.approx(np.sqrt(np.mean((whole - alone) ** 2) / np.mean(whole**2)), rel=1e-4)


@pytest.mark.parametrize("name", list(TINY))
def test_what_is_shown_has_exact_answers(name: str) -> None:
    problem = problems.get(name, **TINY[name])
    seen = Observation(problem, shown_parts(problem), 2, seed=1)
    assert seen.single.all()
    np.testing.assert_array_equal(seen.only(range(len(seen.parts))), seen.x)
    assert np.abs(seen.only([0, 1, 2]) - seen.x).max() > 0


def test_the_model_stands_above_the_baselines_it_is_compared_with() -> None:
    one = {"value": -0.1, "se": 0.01, "n": 8, "verdict": "win"}
    flow, cvae = (Row(of=who, name="relED", K=2, value=0.1) for who in ("flow", "cvae"))
    skew = Row(of="flow", name="moment skew", K=2, value=0.3)
    compared = [Comparison(against=who, name="relED", K=2, **one) for who in ("flow", "cvae")]
    found = Evaluation(measures=[*ROWS, flow, cvae, skew], comparisons=compared)
    assert [(line.of, line.cells[2] and line.cells[2].verdict) for line in versus(found)] == [
        ("model", ""),
        ("flow", "win"),
        ("cvae", "win"),
    ]
    below = {table.name: table for table in shown_below(found)}
    assert below["moment skew"].lines == {"flow": [skew]}
    relative = below["relED"]
    assert relative.sizes == [2, 100]
    assert relative.lines == {"model": ROWS[:2], "independent": [ROWS[2], None]}
    assert relative.floors == [0.002, 0.002]
    assert versus(Evaluation()) == []


# -- claims: verdicts follow from rows --------------------------------------------------------------------------


def verdicts(*rows: Row) -> dict[str, str]:
    found = claims(rows, problems.get("sines"))
    assert all(claim.verdict in VERDICTS for claim in found)
    return {claim.claim.split(" (")[0]: claim.verdict for claim in found}


@pytest.mark.parametrize(
    ("value", "se", "expected"),
    [(0.05, 0.001, "partly"), (0.005, 0.001, "holds"), (0.5, 0.01, "does not hold"), (0.05, 0.03, "holds")],
)
def test_distances_give_verdicts_within_and_beyond_the_training_range(value: float, se: float, expected: str) -> None:
    found = verdicts(Row(name="relED", K=16, value=value, se=se, floor=0.002))
    assert found["One model serves any number of parts"] == expected
    assert found["It serves more parts than it was trained on"] == "not measured"
    found = verdicts(Row(name="relED", K=17, value=value, se=se, floor=0.002))
    assert found["It serves more parts than it was trained on"] == expected


@pytest.mark.parametrize(("value", "expected"), [(0.3, "holds"), (0.7, "partly"), (0.99, "does not hold")])
def test_edits_give_verdicts_by_the_worst(value: float, expected: str) -> None:
    rows = (Row(name="edit remove", K=2, value=0.1, se=0.01), Row(name="edit remove", K=4, value=value, se=0.05))
    assert verdicts(*rows)["Parts can be taken out of an observed whole"] == expected


def test_other_claims() -> None:
    ours = Row(name="relED", K=4, value=0.01, se=0.001)
    near, far = (Row(of="independent", name="relED", K=4, value=v, se=0.001) for v in (0.011, 0.3))
    whole = "The whole is not the sum of its parts, and the model knows it"
    assert verdicts(ours, far)[whole] == "holds"
    assert verdicts(ours, near)[whole] == "does not hold"
    labour = "w holds most of the information, z the rest"
    w = Row(name="bits in w", value=100.0, se=1.0)
    assert verdicts(w, Row(name="bits in z", value=10.0, se=1.0))[labour] == "holds"
    assert verdicts(w, Row(name="bits in z", value=99.0, se=1.0))[labour] == "does not hold"
    none = Row(name="bits in z", value=0.0, se=0.0)
    assert verdicts(w, none)[labour] == "does not apply"
    paper = [Row(of="paper", name=f"bits in {latent}", value=value, se=1.0) for latent, value in (("w", 9), ("z", 30))]
    assert verdicts(w, none, *paper)[labour] == "does not hold"  # of the paper's model, ours having no z
    assert verdicts(Row(name="order", K=4, value=1e-9))["The order of the parts does not matter"] == "does not hold"
    assert set(verdicts().values()) == {"not measured"}


@pytest.mark.parametrize(
    ("value", "se", "expected"),
    [(0.00322, 0.0007, "0.0032 ± 0.0014"), (81.23, 2.0, "81.2 ± 4.0"), (120.0, 55.0, "120 ± 110"), (0.5, None, "0.5")],
)
def test_a_number_has_the_digits_its_error_leaves(value: float, se: float | None, expected: str) -> None:
    assert number(Row(name="relED", value=value, se=se)).replace("\N{NO-BREAK SPACE}", " ") == expected


def test_headlines_are_the_worst() -> None:
    shown = headlines([*ROWS, Row(name="relED", K=16, value=0.001, se=0.001)], problems.get("sines"))
    assert [(one.value.replace("\N{NO-BREAK SPACE}", " ")) for one in shown] == [
        "0.0050 ± 0.0020",
        "0.200 ± 0.020",
        "0.300 ± 0.020",
    ]


# -- the command, and what goes wrong ---------------------------------------------------------------------------


def test_the_command_writes_a_page_from_measures(run: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    win = Comparison(against="flow", name="relED", K=2, value=-0.1, se=0.01, n=8, verdict="win")
    about = {"problem": "sines", "options": "--against flow --minutes 4"}
    found = Evaluation(about=about, measures=ROWS, comparisons=[win], training={"paper": LINES})
    rows.write_text(found.model_dump_json())
    out = tmp_path / "page.html"
    code, told, err = call("report", run / "model", "--evaluation", rows, "--out", out, "--json")
    assert code == 0, err
    assert json.loads(told) == {"report": str(out)}
    assert "figure-training" in out.read_text()  # the metrics beside the model's directory were found
    assert "figure-labour" in out.read_text()
    assert f"{run}/model --against flow --minutes 4 --json &gt; {rows}" in out.read_text()
    assert f"--evaluation {rows}" in out.read_text()
    assert "Against baselines" in out.read_text()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"measures": 3}', '{"measures": [{"name": "relED"}]}'])
def test_a_file_that_holds_no_measures_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(DataFileError, match=r"rows\.json"):
        read_evaluation(path)


def test_mistakes_are_one_sentence_and_leave_nothing(run: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="not a directory"):
        write_report(str(run), tmp_path / "nowhere" / "page.html")
    with pytest.raises(CompVAEError, match="neither a shipped model"):
        write_report(str(tmp_path / "nothing"), tmp_path / "page.html")
    own = tmp_path / "own"
    Model(CompVAE.seeded(preset(problems.get("sines"), "small"), 0)).save(own)
    with pytest.raises(CompVAEError, match="the directory of the run"):
        write_report(str(own), tmp_path / "page.html")
    rows = tmp_path / "rows.json"
    rows.write_text(Evaluation(about={"problem": "colours"}, measures=ROWS).model_dump_json())
    with pytest.raises(DataFileError, match="of a model of colours, not of sines"):
        write_report(str(run), tmp_path / "page.html", evaluation=rows)
    assert not list(tmp_path.glob("*.html"))


def test_commands_name_preset_seed_and_steps(tmp_path: Path) -> None:
    problem = problems.get("sines")
    notes = {"preset": "small", "seed": "7", "steps": "20 of 25"}
    subject = Subject(
        "a b", Model(CompVAE.seeded(preset(problem, "small"), 0), Provenance("sines", {}, notes)), problem, []
    )
    assert reproduction(subject, True, 3, None) == [
        "compvae train sines --preset small --steps 25 --seed 7 --out runs/again",
        "compvae report runs/again --seed 3 --quick --out report.html",
    ]


# -- a real browser ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (390, "dark")])
def test_a_browser_shows_every_image_and_asks_for_nothing(
    pages: dict[str, Path], chromium: Browser, width: int, scheme: Literal["light", "dark"]
) -> None:
    page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.set_default_timeout(120_000)
    told: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    for path in pages.values():
        page.goto(path.as_uri())
        sizes = page.eval_on_selector_all("svg", "all => all.map(e => [e.clientWidth, e.clientHeight])")
        assert len(sizes) >= 8
        assert all(w > 200 and h > 60 for w, h in sizes)
        decoded = page.evaluate(
            """async () => Promise.all([...document.querySelectorAll('image')].map(async e => {
                const i = new Image(); i.src = e.href.baseVal; await i.decode(); return i.naturalWidth }))"""
        )
        assert all(size > 0 for size in decoded)
        assert page.evaluate("document.documentElement.scrollWidth") <= width  # the page itself never scrolls aside
    page.close()
    assert not told
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]
