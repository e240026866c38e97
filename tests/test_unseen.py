"""Own data judged on what was held out: known forecasts get known answers; the command and its refusals."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import compvae
from calls import call
from compvae.evaluation import Effort, Evaluation, Row, evaluate_own
from compvae.evaluation.unseen import settings_of
from compvae.measures.resampling import interval, resampled, weighted_quantile, weighted_variance, weights_of
from compvae.problems.meters import MeterGroups
from compvae.problems.source import Wholes
from compvae.train.runs import data_of, train_run
from dataset_files import write_kinds, write_places
from meter_files import write_all

QUICK = Effort(40, 60, 100)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("meters")
    files = write_all(directory, homes=15, days=60)
    paths = {"problem": files["meters"], "profiles": files["homes"], "context": files["days"]}
    train_run(
        {**{key: str(path) for key, path in paths.items()}, "preset": "sums", "steps": 4, "threads": 1},
        directory / "run",
    )
    return directory / "run"


def table(found: Evaluation, name: str, of: str) -> dict[int | None, Row]:
    return {row.K: row for row in found.measures if (row.name, row.of) == (name, of)}


def others(source: MeterGroups, together: bool) -> object:
    """Other groups of the same homes' profiles on other held-out days: as good a forecast as can be, or independent."""

    def forecast(real: Wholes, m: int, seed: int) -> np.ndarray:
        size = sum(real.parts[0].values())
        drawn = source.held_out(20 * m, size, seed + 1, "all", together=together)
        kinds = np.array([[parts[name] for name in source.profiles.names] for parts in drawn.parts])
        found = []
        for parts in real.parts:
            alike = np.flatnonzero((kinds == [parts[name] for name in source.profiles.names]).all(1))
            found.append(drawn.x[np.resize(alike, m)])
        return np.stack(found)

    return forecast


def test_real_groups_as_a_forecast_are_right_and_groups_apart_are_too_narrow(run: Path) -> None:
    source = data_of(run)[-1]
    assert isinstance(source, MeterGroups)
    rivals = {"same": others(source, True), "apart": others(source, False)}
    found = evaluate_own(compvae.load(run), source, Effort(150, 100, 200, (1, 10)), rivals=rivals)  # type: ignore[arg-type]
    for name, perfect in (("coverage of 90%", 0.9), ("P95 peak, ratio", 1.0), ("variance, ratio", 1.0)):
        for row in table(found, name, "same").values():
            assert row.value == pytest.approx(perfect, abs=0.12), (name, row)
    assert table(found, "PIT of the peak", "same")[10].value < 0.2
    assert table(found, "variance, ratio", "apart")[10].high < 0.9  # ten homes share the weather
    alone = table(found, "variance, ratio", "apart")[1]
    assert alone.low < 1 < alone.high  # one home shares nothing with itself
    assert table(found, "energy score", "same")[10].value < table(found, "energy score", "apart")[10].value
    real, same = table(found, "P95 peak a part", "real"), table(found, "P95 peak a part", "same")
    assert same[10].value == pytest.approx(real[10].value, rel=0.1)


def test_differences_are_paired_and_nobody_beats_itself(run: Path) -> None:
    source = data_of(run)[-1]
    model = compvae.load(run)
    itself = {
        "itself": lambda real, m, seed: np.stack([model.sample(p, m, seed + i) for i, p in enumerate(real.parts)])
    }
    found = evaluate_own(model, source, QUICK, rivals=itself)
    same = [one for one in found.comparisons if one.against == "itself"]
    assert same
    assert {(one.value, one.low, one.high, one.verdict) for one in same} == {(0.0, 0.0, 0.0, "tie")}
    assert {one.verdict for one in found.comparisons if one.against == "independent"} <= {"win", "tie", "loss"}


def test_settings_hold_only_what_was_held_out(run: Path) -> None:
    source = data_of(run)[-1]
    assert isinstance(source, MeterGroups)
    split = source.about()["split"]
    settings = list(settings_of(source, QUICK))
    assert {(one.size, one.kind) for one in settings} == {
        (1, ""), (2, ""), (3, ""), (5, ""), (10, ""), (15, ""), (1, ", unseen homes"), (3, ", unseen homes"),
    }  # fmt: skip
    for one in settings:
        assert set(one.real.dates) <= set(split["held_out_days"])
        if one.kind:
            assert {home for homes in one.real.homes for home in homes} <= set(split["held_out_homes"])


@pytest.mark.parametrize("write", [write_kinds, write_places])
def test_tables_are_judged_on_held_out_wholes(write, tmp_path: Path) -> None:
    train_run(
        {"problem": str(write(tmp_path / "data", 150)), "preset": "small", "steps": 4, "threads": 1}, tmp_path / "run"
    )
    code, out, err = call("evaluate", tmp_path / "run", "--quick", "--json", "--quiet")
    assert code == 0, err
    rows = json.loads(out)["measures"]
    assert {row["of"] for row in rows} == ({"model", "model, context known"} if write is write_kinds else {"model"})
    assert {row["n"] for row in rows if row["K"] is None} == {30}  # a fifth of 150
    assert all(math.isfinite(row["value"]) and row["low"] <= row["high"] for row in rows)


def test_the_command_shows_rows_with_intervals(run: Path) -> None:
    arguments = ("--quick", "--quiet", "--sizes", "1,5", "-n", 30, "--compositions", 10)
    code, out, err = call("evaluate", run, *arguments)
    assert code == 0, err
    assert "95% interval" in out
    assert "against independent on energy score at K = 5" in out
    assert call("evaluate", run / "model", *arguments)[1] == out  # the model inside its run
    code, _, err = call("evaluate", run, "--against", "flow")
    assert (code, "built-in problems" in err) == (2, True)
    code, _, err = call("evaluate", run, "-n", 12)
    assert (code, "at least 20" in err) == (2, True)


def test_weights_of_resampled_homes_and_days() -> None:
    random = np.random.default_rng(1)
    days, homes = [str(i % 50) for i in range(500)], [[str(i)] for i in range(500)]
    weights = weights_of(days, homes, 400, seed=2)
    assert (weights[0] == 1).all()
    assert weights.mean() == pytest.approx(1, abs=0.02)
    common = random.normal(size=50)[[int(day) for day in days]]  # what wholes of one day share
    value, low, high, se = interval(resampled(lambda w: float(w @ common / w.sum()), weights))
    assert (high - low) / 3.92 == pytest.approx(common.std() / math.sqrt(50), rel=0.3)  # 50 days, not 500 wholes
    assert se == pytest.approx((high - low) / 3.92, rel=0.2)
    assert low < value < high
    alone = weights_of(days, [[] for _ in days], 400, seed=2)  # nothing but days
    assert (alone[1:, :50] == alone[1:, 50:100]).all()
    x = random.normal(size=(500, 3, 4))
    assert weighted_variance(x)(np.ones(500)) == pytest.approx(x.reshape(-1, 4).var(0).sum())
    twice = np.array([2.0] * 250 + [0.0] * 250)
    expected = np.sort(x[:250, :, 0].ravel())[int(0.9 * 750)]
    assert weighted_quantile(x[:, :, 0], 0.9)(twice) == pytest.approx(expected, abs=0.02)


def test_a_report_of_own_meters_says_what_was_read_held_out_and_measured(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    code, _, err = call("report", run, "--quick", "--out", page)
    assert code == 0, err
    text = page.read_text()
    for words in (
        "A model of 15 meters", "not known", "unseen homes", "coverage of 90%", "P95 peak (kW a home)", "load (kW)",
        "SHA-256", "homes held out", "compvae train", "Daily peaks", "PIT", "variance / real (ratio)", "in kW; lower",
    ):  # fmt: skip
        assert words in text, words
    assert "relED" not in text.split("<h2>The model</h2>")[0].split("<h2>On what was held out</h2>")[1]
    assert not re.search(r"(src|href)=\"(?!#)", text)  # nothing is fetched


def test_a_report_takes_an_evaluation_of_the_same_data_alone(run: Path, tmp_path: Path) -> None:
    document = json.loads(call("evaluate", run, "--quick", "--sizes", "1,3", "--json", "--quiet")[1])
    path, page = tmp_path / "found.json", tmp_path / "report.html"
    path.write_text(json.dumps(document))
    code, _, err = call("report", run, "--evaluation", path, "--out", page)
    assert code == 0, err
    assert "Measured with --quick" in page.read_text()
    path.write_text(json.dumps({**document, "about": {"problem": "sines"}}))
    code, _, err = call("report", run, "--evaluation", path, "--out", page)
    assert (code, "not of meters" in err) == (3, True)
    path.write_text(json.dumps({"measures": []}))
    code, _, err = call("report", run, "--evaluation", path, "--out", page)
    assert (code, "no measure of held-out wholes" in err) == (3, True)


@pytest.mark.parametrize("write", [write_kinds, write_places])
def test_a_report_of_tables(write, tmp_path: Path) -> None:
    train_run(
        {"problem": str(write(tmp_path / "data", 150)), "preset": "small", "steps": 4, "threads": 1}, tmp_path / "run"
    )
    code, _, err = call("report", tmp_path / "run", "--quick", "--out", tmp_path / "report.html")
    assert code == 0, err
    text = (tmp_path / "report.html").read_text()
    assert "all K" in text
    assert "kW" not in text
