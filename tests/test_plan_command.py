"""compvae plan and its page: what it prints is what the package gives; units stand on every axis; exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from calls import call
from compvae.figures import loads
from compvae.model import Model
from compvae.planning import Question, make_plan
from compvae.report.loads import default_question, load_exhibits, plan_exhibits
from compvae.storage import Provenance
from models import CONFIGS, NOTES, build, invertible

FLAGS = ("--parts", "a:4,c:1", "-n", 60)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in kW that takes the weather, an image model, and an observed day."""
    found = tmp_path_factory.mktemp("plans")
    network = invertible(context=True)
    Model(network, Provenance(notes={"x is": "kW, mean of 240 minutes"})).save(found / "loads")
    Model(network).save(found / "plain")
    Model(build(CONFIGS["newton, placed"])).save(found / "images")
    np.savez(found / "day.npz", x=Model(network).sample({"a": 4, "c": 1}, 1, seed=5))
    np.savez(found / "two.npz", x=Model(network).sample({"a": 4, "c": 1}, 2, seed=5))
    return found


def test_the_table_and_the_json_say_the_same(place: Path) -> None:
    weather = ("--context", "temperature=-5")
    code, said, _ = call("plan", place / "loads", *FLAGS, *weather, "--rating", 1e6)
    assert code == 0
    code, document, _ = call("plan", place / "loads", *FLAGS, *weather, "--rating", 1e6, "--json")
    found = json.loads(document)
    assert code == 0
    x = Model.load(place / "loads").sample({"a": 4, "c": 1}, 60, context={"temperature": -5})
    p95 = found["peaks"]["quantiles"][1]
    assert p95["value"] == pytest.approx(np.quantile(x.max(1), 0.95), rel=1e-5)
    assert f"{p95['value']:.4g}" in said
    assert found["energy"]["value"] == pytest.approx(4 * x.sum(1, dtype=float).mean(), rel=1e-5)
    assert found["exceedance"]["value"] is None
    assert "the tail sampler refused: " in said
    assert (found["unit"], found["step"], found["context"]) == ("kW", 4.0, {"temperature": -5.0})


def test_the_page_stands_alone(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.html"
    change = ("--replace", "a:2", "--by", "b:2", "--data", place / "day.npz")
    code, said, told = call("plan", place / "loads", *FLAGS, *change, "--out", out)
    assert code == 0, told
    assert "change of P95" in said
    page = out.read_text()
    assert page.count("<svg") == page.count("<figure") == 7
    assert not re.findall(r"(?:src|href)=[\"']https?://", page)
    for label in ("load (kW)", "hour of the day", "number of homes", "probability of exceeding it", "daily peak (kW)"):
        assert label in page
    assert "compvae plan" in page
    assert [path.name for path in tmp_path.iterdir()] == ["plan.html"]


def test_a_model_without_a_unit_is_planned_in_x(place: Path) -> None:
    code, said, _ = call("plan", place / "plain", *FLAGS)
    assert code == 0
    assert "kW" not in said
    assert "P95 peak a part" in said


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--replace", "a:1"), 2, "--by"),
        (("--data", "day.npz"), 2, "--replace"),
        (("--out", "plan.pdf"), 2, ".html"),
        (("--replace", "a:9", "--by", "b:1"), 2, "there are 4"),
        (("--replace", "a:1", "--by", "b:1", "--data", "two.npz"), 3, "2 wholes"),
        (("--context", "colour=red"), 2, "colour"),
    ],
)
def test_mistakes_are_told_in_one_line(
    flags: tuple[str, ...], code: int, words: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    got, said, told = call("plan", place / "loads", *FLAGS, *flags)
    assert (got, said) == (code, "")
    assert words in told
    assert told.count("\n") == 1


def test_images_have_no_plan(place: Path) -> None:
    code, _, told = call("plan", place / "images", "--parts", '[{"colour": "red", "x": 0, "y": 0}]')
    assert code == 2
    assert "curves" in told


def test_figures_show_what_they_are_given() -> None:
    model = Model(invertible(), Provenance("households"))
    plan = make_plan(model, Question(NOTES.parse({"a": 4, "c": 1}), rating=3.0, n=80))
    (axis,) = loads.day_fan(plan.scale, plan.fan, 3.0).axes
    median = axis.lines[0]
    np.testing.assert_allclose(median.get_ydata(orig=False)[:-1], np.quantile(plan.x, 0.5, axis=0), rtol=1e-6)
    assert axis.lines[1].get_ydata(orig=False)[0] == 3.0
    shades = [patch.get_facecolor()[3] for patch in axis.get_legend().get_patches()]
    assert len(shades) == len(set(shades)) == len(plan.fan.levels) // 2  # a reader can tell the bands apart
    (axis,) = loads.diversity_curve(plan.scale, plan.diversity).axes
    assert axis.get_ylabel() == "P95 peak (kW a home)"
    np.testing.assert_allclose(axis.lines[0].get_ydata(orig=False), [one.demand.value for one in plan.diversity])
    (axis,) = loads.duration_curve(plan.scale, plan.duration).axes
    assert axis.get_xlabel() == "reached for at least (hours a day)"
    np.testing.assert_allclose(axis.lines[0].get_ydata(orig=False), plan.duration.values[1])
    for one in plan_exhibits(plan):
        assert all(axis.get_xlabel() and (axis.get_ylabel() or one.name == "change") for axis in one.figure.axes)


def test_a_report_shows_loads_of_load_models_alone() -> None:
    network = invertible()
    assert list(load_exhibits(Model(network))) == []
    model = Model(network, Provenance("households"))
    asked = default_question(model, n=60)
    assert asked.parts.counts == (5, 5, 5)
    assert asked.replace is not None
    assert asked.replace.counts == (5, 0, 0)
    names = [one.name for one in plan_exhibits(make_plan(model, asked))]
    assert names == ["fan", "peaks", "duration", "diversity", "change", "worst"]
