"""benchmarks/households.py, homes.py and village.py run from end to end on small untrained models; their statistics."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from compvae import problems
from compvae.model import Model
from compvae.network import seeded_network
from compvae.presets import preset
from compvae.storage import Provenance
from compvae.train.runs import train_run
from meter_files import write_all

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmarks as modules, as they see each other when run."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def untrained() -> Model:
    """The feeder's own configuration with its first weights."""
    problem = problems.get("households")
    return Model(seeded_network(preset(problem, "small"), 0), Provenance("households"))


@pytest.mark.usefixtures("scripts")
def test_every_section_gives_finite_rows() -> None:
    from households import SECTIONS, judge
    from households_totals import Effort

    effort = Effort(draws=200, n=40, compositions=1, days=2, wholes=160, sizes=(1, 5))
    rows = list(judge(untrained(), list(SECTIONS), effort))
    assert {row.section for row in rows} == set(SECTIONS)
    assert all(math.isfinite(row.value) for row in rows)
    asked = {row.name for row in rows if row.met is not None}
    assert {"relED", "P95 peak, ratio, worst", "variance, ratio, worst", "R^2 of temperature from z"} <= asked


@pytest.mark.usefixtures("scripts")
def test_exact_days_judged_as_if_they_were_a_model_pass() -> None:
    from households_totals import compared, exact, independent

    problem, parts = problems.get("households"), {"heat_pump": 30}
    alone = {"heat_pump": exact(problem, {"heat_pump": 1}, 2000, 3)}
    true, same = exact(problem, parts, 2000, 1), exact(problem, parts, 2000, 2)
    for ratio, se, beside in compared(true, same, independent(alone, parts, 2000, 4)).values():
        assert abs(ratio - 1) < 4 * se
        assert abs(ratio - 1) < abs(beside - 1)  # thirty heat pumps share the cold, which independent ones do not


@pytest.mark.usefixtures("scripts")
def test_a_counterfactual_holds_the_day_and_redraws_who_goes() -> None:
    from households_day import THEN, counterfactuals

    problem = problems.get("households")
    x, after = counterfactuals(problem, 3, 400)
    day = {name: np.broadcast_to(value, 400) for name, value in problem.factors(1, seed=6003).items()}
    held, fresh = problem.truth(THEN, 400, seed=1, factors=day), problem.truth(THEN, 400, seed=1)
    assert (after.mean(0) - x).sum() > 0  # heat pumps draw more than flats
    assert after.var(0).sum() < held.var(0).sum() < fresh.var(0).sum()


@pytest.mark.usefixtures("scripts")
def test_the_error_by_blocks_is_that_of_the_mean() -> None:
    from judged import blocks

    values = np.random.default_rng(0).normal(size=4000)
    found, se = blocks(lambda a: float(a.mean()), values, count=100)
    assert found == pytest.approx(values.mean())
    assert se == pytest.approx(values.std() / math.sqrt(4000), rel=0.25)


def test_real_homes_are_judged_on_what_was_held_out(tmp_path: Path) -> None:
    write_all(tmp_path / "data", homes=12, days=15)
    files = {"problem": "meters.csv", "profiles": "homes.csv", "context": "days.csv"}
    train_run(
        {key: str(tmp_path / "data" / name) for key, name in files.items()} | {"preset": "sums", "steps": 4},
        tmp_path / "run",
    )
    singles = tmp_path / "singles.npz"
    run("peers/export.py", tmp_path / "run", "--out", singles)
    options = ("--groups", 12, "--draws", 40, "--resamples", 10, "--sizes", 1, 3, "--faraday", singles)
    found = json.loads(run("homes.py", tmp_path / "run", *options, "--json"))
    rivals = {"model, context known", "independent", "Faraday, independent"}
    assert {one["of"] for one in found["measures"]} == {"real", "model"} | rivals
    assert {one["against"] for one in found["comparisons"]} == rivals
    assert all(one["low"] <= one["high"] for one in found["measures"])
    assert "(0 inside)" in run("homes.py", tmp_path / "run", *options)


def test_a_million_homes_are_drawn_as_ten_are(tmp_path: Path) -> None:
    untrained().save(tmp_path / "model")
    found = json.loads(run("village.py", tmp_path / "model", "-n", 20, "--repeats", 1))
    assert set(found["seconds"]) == {"10", "134", "1000000"}
    assert found["million_over_ten"] > 0


def run(script: str, *arguments: object) -> str:
    """What a benchmark prints."""
    command = [sys.executable, str(BENCHMARKS / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
