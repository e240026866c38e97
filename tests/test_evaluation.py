"""The harness: the truth stays within its floors, wrong samplers do not; counterfactuals are exact."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from calls import call
from compvae import load, problems
from compvae.baselines import Independent
from compvae.batch import pad, unpad
from compvae.errors import CompVAEError, ConfigError
from compvae.evaluation import Evaluation, Judged, Truth, evaluate, evaluate_samplers, plan_for, problem_of
from compvae.evaluation.averages import average, compare
from compvae.evaluation.observed import Observation
from compvae.evaluation.plan import compositions
from compvae.measures import Measured, rel_ed, rel_ed_floor, rel_ed_splits
from compvae.model import Model
from compvae.noise import Noise
from compvae.parts import Multiset

SINES = problems.get("sines")


# -- floors ------------------------------------------------------------------------------------------------------


def test_splits_of_a_pool_are_relED_of_its_halves():
    pool = SINES.truth({"2": 1, "5": 1}, 60, 3)
    order = Noise(9, 5).uniform("split", 60).argsort(1).numpy()
    halves = [rel_ed(pool[np.sort(row[:30])], pool[np.sort(row[30:])]).value for row in order]
    np.testing.assert_allclose(rel_ed_splits(pool, 5, seed=9), halves, atol=1e-9)


def test_splits_have_the_quantile_of_fresh_pairs():
    parts, n = {"2": 1, "5": 1}, 100
    fresh = rel_ed_floor(lambda seed: SINES.truth(parts, n, 100 + seed), 200)
    split = np.quantile(rel_ed_splits(SINES.truth(parts, 2 * n, 7), 200), 0.95)
    assert split == pytest.approx(fresh, rel=0.5)


def test_splits_of_what_hardly_varies_are_undefined():
    assert np.isnan(rel_ed_splits(np.ones((8, 3)), 4)).all()


# -- rows --------------------------------------------------------------------------------------------------------


def judged(*values: float, se: float = 0.3) -> list[Judged]:
    return [Judged(Measured(value, se, 10)) for value in values]


def test_a_row_is_the_mean_over_the_compositions_where_it_is_defined():
    found = average(judged(1.0, math.nan, 3.0, 5.0))
    assert found is not None
    assert found.value == 3.0
    assert found.se == pytest.approx(0.3 / math.sqrt(3))
    assert average(judged(math.nan)) is None


def test_the_floor_of_a_mean_is_that_of_means():
    nulls = np.random.default_rng(0).normal(size=(16, 4000))
    found = average([Judged(Measured(0.0, 1.0, 10), null) for null in nulls])
    assert found is not None
    assert found.floor == pytest.approx(1.645 / 4, rel=0.1)  # a mean of 16 is 4 times narrower than one of them


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ((1, 2, 3), (2, 3, 4.1), "win"),
        ((2, 3, 4.1), (1, 2, 3), "loss"),
        ((1, 2, 3), (2, 1, 3), "tie"),
        ((1, 2, 3), (2, 3, 6), "tie"),  # 2.5 standard errors, where three cases ask for 4.3
    ],
)
def test_verdicts(ours, theirs, verdict):
    found = compare("flow", "relED", 4, judged(*ours), judged(*theirs))
    assert found is not None
    assert found.verdict == verdict
    assert found.value == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert found.n == 3


def test_compositions_where_either_is_undefined_are_not_compared():
    assert compare("flow", "relED", 4, judged(1, math.nan, 3, 4), judged(2, 3, math.nan, 5)) is None
    found = compare("flow", "relED", 4, judged(1, math.nan, 3, 4), judged(2, 3, 4, 5))
    assert found is not None
    assert found.n == 3


# -- compositions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sines", "colours", "households"])
def test_compositions_are_as_the_plan_wants_them(name):
    problem = problems.get(name)
    plan = plan_for(problem)
    for size in (plan.edited[0], plan.edited[-1]):
        found = compositions(problem, size, plan, 3, single=True)
        assert found == compositions(problem, size, plan, 3, single=True)
        assert found != compositions(problem, size, plan, 4, single=True)
        assert [parts.size for parts in found] == [size] * plan.compositions
        assert all(sum(n > 0 for n in parts.counts) >= plan.different for parts in found)
        assert not problem.schema.countable or all(1 in parts.counts for parts in found)
        assert len(set(found)) > 1


@pytest.mark.parametrize("name", ["colours", "households"])
def test_unpad_is_the_inverse_of_pad(name):
    problem = problems.get(name)
    drawn = problem.draw_parts(torch.tensor([3, 1, 5]), Noise(0, 3))
    again = pad(unpad(drawn, problem.schema))
    assert torch.equal(again.kind, drawn.kind)
    assert torch.equal(again.mask, drawn.mask)
    torch.testing.assert_close(again.features, drawn.features)


def test_plans_refuse_what_cannot_be_judged():
    with pytest.raises(ConfigError, match="n must be at least 10"):
        plan_for(SINES, n=9)
    with pytest.raises(ConfigError, match="colours is judged on wholes of at least 2 parts"):
        plan_for(problems.get("colours"), sizes=(1,))
    with pytest.raises(CompVAEError, match="compositions must be"):
        plan_for(SINES, compositions=0)


# -- the truth, and what is not ----------------------------------------------------------------------------------


class Doubled:
    """The truth with every part standing twice, halved: right shape, wrong composition."""

    def sample(self, parts: Multiset, n: int, seed: int, context: object = None) -> np.ndarray:
        twice = Multiset(parts.schema, tuple((part, 2 * count) for part, count in parts.runs))
        return SINES.truth(twice, n, seed) / 2


@pytest.fixture(scope="module")
def curves() -> Evaluation:
    plan = plan_for(SINES, quick=True, n=150, compositions=3, sizes=(1, 4))
    samplers = {
        "truth": Truth(SINES),
        "doubled": Doubled(),
        "alone": Independent(SINES, Truth(SINES)),
    }
    return evaluate_samplers(samplers, SINES, plan, seed=5)


def rows_of(result: Evaluation, of: str) -> dict[tuple[str, int | None], tuple[float, float | None]]:
    return {(row.name, row.K): (row.value, row.floor) for row in result.measures if row.of == of}


def test_the_truth_exceeds_its_floor_in_one_case_of_twenty():
    plan, n, over = plan_for(SINES, quick=True, compositions=3), 150, []
    for seed in range(30):
        for parts in compositions(SINES, 4, plan, seed):
            pool, x = SINES.truth(parts, 2 * n, 2 * seed), SINES.truth(parts, n, 2 * seed + 1)
            over.append(rel_ed(pool[:n], x).value > np.quantile(rel_ed_splits(pool, 100, seed), 0.95))
    assert 0 < sum(over) <= 10  # of 90; more has a probability below 1%


def test_the_truth_stays_within_its_floors(curves):
    """One value in twenty exceeds its 95% floor, and measures of one set of samples do so together: twice it is far."""
    rows = rows_of(curves, "truth")
    compared = ("relED", "sliced Wasserstein", "C2ST", "exceedance 0.9", "exceedance 0.99")
    ratios = [rows[name, size][0] / rows[name, size][1] for size in (1, 4) for name in compared]
    assert max(ratios) < 2, ratios
    assert sum(ratio > 1 for ratio in ratios) <= 3, ratios
    for size in (1, 4):
        for name in ("mean", "std", "skew"):
            value, floor = rows[f"moment {name}", size]
            assert value <= 1.6 * floor, (name, size)  # this floor is a root mean square, not a quantile
        for name in ("off-manifold", "period"):
            assert rows[name, size][0] < 1e-4


def test_wrong_samplers_are_flagged(curves):
    for of, size in (("doubled", 1), ("doubled", 4), ("alone", 4)):
        rows = rows_of(curves, of)
        for name in ("relED", "sliced Wasserstein"):
            value, floor = rows[name, size]
            assert value > floor, (of, name, size)
    rows = rows_of(curves, "alone")
    assert rows["relED", 4][0] > 5 * rows["relED", 4][1]
    assert rows["C2ST", 4][0] > rows["C2ST", 4][1]


def test_the_truth_wins_against_the_others(curves):
    verdicts = {(one.against, one.name, one.K): one.verdict for one in curves.comparisons}
    assert verdicts["alone", "relED", 4] == "win"
    assert verdicts["alone", "off-manifold", 4] == "win"


class Breaking(Truth):
    """The truth, but for one curve of one composition that is no number."""

    calls = 0

    def sample(self, parts: object, n: int, seed: int, context: object = None) -> np.ndarray:
        x = super().sample(parts, n, seed)
        self.calls += 1
        if self.calls == 2:
            x[3, 5] = np.nan
        return x


def test_samples_that_are_no_numbers_are_counted_and_end_nothing():
    plan = plan_for(SINES, quick=True, compositions=4, sizes=(2,))
    found = evaluate_samplers({"truth": Truth(SINES), "breaking": Breaking(SINES)}, SINES, plan, seed=0)
    rows = rows_of(found, "breaking")
    assert rows["not finite", 2][0] == pytest.approx(1 / plan.n)
    assert math.isfinite(rows["relED", 2][0])
    assert ("not finite", 2) not in rows_of(found, "truth")
    assert [one.n for one in found.comparisons if one.name == "relED"] == [3]


@pytest.mark.parametrize(("name", "size"), [("households", 5), ("colours", 3)])
def test_the_truth_of_other_problems_stays_within_its_floors(name, size):
    problem = problems.get(name, **({"size": 8} if name == "colours" else {}))
    result = evaluate_samplers({"truth": Truth(problem)}, problem, plan_for(problem, quick=True, sizes=(size,)), seed=3)
    rows = rows_of(result, "truth")
    for measure in ("relED", "C2ST"):
        value, floor = rows[measure, size]
        assert value <= floor, measure
    if name == "colours":
        assert rows["off-manifold", size][0] < 1e-3
        assert rows["glitches", size][0] == 0


def test_where_the_truth_hardly_varies_the_mean_is_judged():
    problem = problems.get("sines", C=1e-6)
    plan = plan_for(problem, quick=True, sizes=(2,))
    rows = rows_of(evaluate_samplers({"truth": Truth(problem)}, problem, plan), "truth")
    assert ("relED", 2) not in rows
    assert rows["RMSE of mean", 2][0] < 1e-6


# -- counterfactuals ---------------------------------------------------------------------------------------------


def curve(kinds: list[str], specifics: np.ndarray) -> np.ndarray:
    """The 1D problem by its formula.  specifics: (K, 2)."""
    time = np.arange(200) / 100
    inner = sum(a * np.cos(2 * np.pi * int(f) * time + k) for f, (a, k) in zip(kinds, specifics, strict=True))
    return np.asarray(len(kinds) * np.tanh(3 / len(kinds) * inner))


def test_counterfactuals_hold_what_stays_and_redraw_what_comes():
    parts = SINES.schema.parse([{"frequency": f} for f in ("7", "2", "7")])
    seen = Observation(SINES, parts, 4, seed=1)
    assert seen.chosen == 1
    for row in range(4):
        np.testing.assert_allclose(seen.x[row], curve(["7", "2", "7"], seen.specifics[row]), atol=2e-5)
        np.testing.assert_allclose(seen.without()[row], curve(["7", "7"], seen.specifics[row, [0, 2]]), atol=2e-5)
    new, fresh = [{"frequency": "5"}], SINES.specifics([{"frequency": "5"}], 3, 8)
    for instead, kept in ((False, [0, 1, 2]), (True, [0, 2])):
        kinds = [("7", "2", "7")[i] for i in kept] + ["5"]
        for row, x in enumerate(seen.first_with(new, 3, 8, instead)):
            np.testing.assert_allclose(
                x, curve(kinds, np.concatenate([seen.specifics[0, kept], fresh[row]])), atol=2e-5
            )


def test_counterfactuals_of_a_feeder_hold_the_day():
    problem = problems.get("households")
    seen = Observation(problem, problem.schema.parse({"flat": 2, "heat_pump": 1}), 3, seed=2)
    held = problem.whole({"flat": 2}, np.delete(seen.specifics, seen.chosen, 1), seen.factors)
    np.testing.assert_array_equal(seen.without(), held)
    again = seen.first_with([{"profile": "heat_pump"}], 5, 3, instead=True)
    assert again.shape == (5, 48)
    assert len(np.unique(again, axis=0)) == 5


# -- models and the command --------------------------------------------------------------------------------------

KEYS = {"of", "name", "K", "value", "se", "floor", "n", "low", "high"}


def test_a_model_is_judged_in_all_respects(whole: Path):
    model = load(whole)
    plan = plan_for(problem_of(model), quick=True)
    heard: list[tuple[str, int, int]] = []
    result = evaluate(model, plan, watch=lambda *news: heard.append(news))
    names = {row.name for row in result.measures}
    assert {"relED", "C2ST", "off-manifold", "edit remove", "edit add relED", "edit replace relED"} <= names
    assert {"recovered amplitude", "recovered phase", "bits in w", "bits in z", "order"} <= names
    assert all(0 <= done <= total for _, done, total in heard)
    again = evaluate(model, replace(plan, sizes=plan.sizes[:1], edited=()))
    assert all(row in result.measures for row in again.measures)  # whatever else is measured beside them


def test_an_interrupted_evaluation_keeps_what_it_has(whole: Path):
    model, kept = load(whole), Evaluation()

    def interrupt(what: str, done: int, total: int) -> None:
        if what.startswith("K = 4"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(model, plan_for(problem_of(model), quick=True), watch=interrupt, into=kept)
    assert {row.K for row in kept.measures} == {1}


def test_data_without_a_known_truth_cannot_be_judged(whole: Path):
    with pytest.raises(ConfigError, match="truth is not known"):
        problem_of(Model(load(whole).network))


def test_the_command_writes_one_document(whole: Path):
    against = ("--against", "gaussian,paper")
    plan = ("--quick", "--sizes", 2, "--compositions", 3)
    code, out, err = call("evaluate", whole, *plan, *against, "--json", "--quiet")
    assert code == 0, err
    document = json.loads(out, parse_constant=pytest.fail)  # no NaN, no Infinity
    assert set(document) == {"about", "measures", "comparisons", "training"}
    assert document["about"]["problem"] == "sines"
    assert all(set(row) == KEYS for row in document["measures"])
    assert (
        document["about"]["options"]
        == "--against gaussian,paper --minutes 4.0 --sizes 2 --compositions 3 --seed 0 --quick"
    )
    assert {row["of"] for row in document["measures"]} == {"model", "gaussian", "paper", "truth"}
    assert {row["of"] for row in document["measures"] if row["name"] == "bits in z"} == {"model", "paper"}
    assert all({"step", "w_bits", "z_bits"} <= set(line) for line in document["training"]["paper"])
    assert document["training"]["paper"]
    assert {one["against"] for one in document["comparisons"]} == {"gaussian", "paper"}
    assert {one["verdict"] for one in document["comparisons"]} <= {"win", "tie", "loss"}


@pytest.mark.parametrize(
    ("arguments", "complaint", "code"),
    [
        (["--against", "oracle"], "baseline 'oracle' is unknown", 2),
        (["--sizes", "1,two"], "--sizes takes whole numbers", 2),
        (["--sizes", "0"], "K must be a whole number", 2),
    ],
)
def test_the_command_says_what_was_wrong(whole: Path, arguments, complaint, code):
    found, _, err = call("evaluate", whole, "--quick", *arguments)
    assert found == code
    assert complaint in err
    assert err.count("\n") == 1


def test_a_model_that_is_not_there(tmp_path: Path):
    code, _, err = call("evaluate", tmp_path / "none")
    assert code == 2
    assert "neither a shipped model" in err
