"""What planners look at, against closed forms and plain counting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from compvae.errors import ConfigError, DataError, PartsError
from compvae.model import Model
from compvae.planning import (
    Question,
    after_diversity,
    by_counting,
    chance_of_exceeding,
    daily_energy,
    daily_peaks,
    duration,
    effect,
    fan,
    make_plan,
    on_fresh_days,
    on_observed_day,
    peaks,
    quantile,
    quantile_change,
    replaced,
    rows,
    scale_of,
    scaled,
    wilson,
)
from compvae.storage import Provenance
from models import CONFIGS, NOTES, build, invertible

RANDOM = np.random.default_rng(7)
MIX = NOTES.parse({"a": 4, "c": 1})


@pytest.fixture(scope="module")
def model() -> Model:
    """A model of curves of six places with a shared factor."""
    return Model(invertible(), Provenance("households"))


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_the_error_of_a_quantile_is_that_of_the_closed_form(level: float) -> None:
    n = 40_000
    found = quantile(RANDOM.exponential(size=n), level)
    exact = math.sqrt(level * (1 - level) / n) / (1 - level)  # the density of an exponential at its quantile is 1 - q
    assert found.se == pytest.approx(exact, rel=0.25)
    assert abs(found.value + math.log(1 - level)) < 4 * exact


def test_the_error_of_a_quantile_is_the_one_that_is_seen() -> None:
    found = [quantile(RANDOM.normal(size=2000), 0.95) for _ in range(400)]
    assert np.mean([one.se for one in found]) == pytest.approx(np.std([one.value for one in found]), rel=0.12)


def test_the_change_of_a_quantile_knows_that_days_are_paired() -> None:
    before, other = RANDOM.normal(size=(2, 20_000))
    assert quantile_change(before, before + 3, 0.95).value == pytest.approx(3)
    assert quantile_change(before, before + 3, 0.95).se == pytest.approx(0, abs=1e-9)
    apart = quantile_change(before, other, 0.95)
    assert apart.se == pytest.approx(math.hypot(quantile(before, 0.95).se, quantile(other, 0.95).se), rel=0.05)
    with pytest.raises(DataError, match="same days"):
        quantile_change(before, other[:-1], 0.95)


def test_fan_duration_peaks_and_energy_of_days_that_are_known() -> None:
    base = np.array([3.0, 1.0, 2.0, 5.0])
    x = np.stack([day * RANDOM.permutation(base) for day in np.arange(1, 102)])
    found = duration(x, hours=6.0)
    assert found.hours.tolist() == [6, 12, 18, 24]
    assert found.values[1].tolist() == [51 * 5, 51 * 3, 51 * 2, 51]  # the median day is the 51st
    assert found.values[2, 0] == pytest.approx(5 * 96)
    assert np.array_equal(fan(x, (0.25, 0.5)).values, np.quantile(x, [0.25, 0.5], axis=0))
    assert daily_peaks(x).tolist() == [5.0 * day for day in range(1, 102)]
    assert peaks(x).quantiles[0].value == 5 * 51
    assert daily_energy(x, 6.0).value == pytest.approx(6 * 11 * 51)
    for bad in (np.ones(4), np.full((3, 4), np.nan)):
        with pytest.raises(DataError):
            fan(bad)


@pytest.mark.parametrize(("hits", "n"), [(0, 20), (1, 50), (25, 50), (50, 50), (3, 10_000)])
def test_wilson_agrees_with_scipy(hits: int, n: int) -> None:
    expected = binomtest(hits, n).proportion_ci(method="wilson")
    assert wilson(hits, n) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_wilson_covers_what_it_says() -> None:
    hits = RANDOM.binomial(200, 0.03, size=2000)
    covered = np.mean([low <= 0.03 <= high for low, high in (wilson(int(k), 200) for k in hits)])
    assert 0.93 < covered < 0.98


def test_a_chance_is_counted_where_days_are_enough_and_sampled_where_they_are_rare(model: Model) -> None:
    drawn = daily_peaks(model.sample(MIX, 40_000, seed=1))
    often, rare = float(np.quantile(drawn, 0.9)), float(np.quantile(drawn, 0.998))
    few = drawn[:1000]
    counted = chance_of_exceeding(model, MIX, often, few)
    assert counted == by_counting(few, often)
    assert counted.value == pytest.approx(np.mean(few > often))
    sampled = chance_of_exceeding(model, MIX, rare, few)
    assert sampled.method == "subset"
    assert sampled.value is not None
    assert sampled.low < 0.002 * 1.3
    assert sampled.high > 0.002 / 1.3  # brute force itself is known to 11%
    assert sampled.low < sampled.value < sampled.high


def test_a_chance_nobody_can_know_is_a_bound_with_a_reason(model: Model) -> None:
    found = chance_of_exceeding(model, MIX, 1e9, np.zeros(500))
    assert found.value is None
    assert (found.low, found.high) == wilson(0, 500)
    assert found.note


def test_a_mix_is_scaled_by_largest_remainders() -> None:
    mix = NOTES.parse({"a": 40, "b": 12, "c": 1})
    assert scaled(mix, 53).counts == (40, 12, 1)
    assert scaled(mix, 10).counts == (8, 2, 0)
    assert scaled(mix, 5300).counts == (4000, 1200, 100)
    for homes in range(1, 60):
        found = scaled(mix, homes)
        assert found.size == homes
        assert all(abs(n - exact * homes / 53) < 1 for n, exact in zip(found.counts, (40, 12, 1), strict=True))


def test_diversity_is_the_quantile_of_the_peak_over_the_number_of_homes(model: Model) -> None:
    found = after_diversity(model, MIX, n=300, seed=3, sizes=(1, 2, 5, 50))
    assert [one.homes for one in found] == [5, 50]  # one or two homes have no place for a c
    x = model.sample({"a": 40, "c": 10}, 300, seed=3)
    assert found[1].demand.value == pytest.approx(np.quantile(x.max(1), 0.95) / 50, rel=1e-5)


def test_parts_are_replaced_on_the_same_days(model: Model) -> None:
    one, two = NOTES.parse({"a": 2}), NOTES.parse({"b": 3})
    assert replaced(MIX, one, two).counts == (2, 3, 1)
    with pytest.raises(PartsError, match="there are 4"):
        replaced(MIX, NOTES.parse({"a": 5}), two)
    change = on_fresh_days(model, MIX, one, two, n=500, seed=2)
    assert np.array_equal(change.before, model.sample(MIX, 500, seed=2))
    assert np.array_equal(change.after, model.sample({"a": 2, "b": 3, "c": 1}, 500, seed=2))
    found = effect(change, hours=4.0)
    gap = 4.0 * (change.after.astype(float) - change.before).sum(1)
    assert found.energy.value == pytest.approx(gap.mean())
    assert found.energy.se == pytest.approx(gap.std(ddof=1) / math.sqrt(500))
    p95 = [np.quantile(x.max(1), 0.95) for x in (change.after, change.before)]
    assert found.peaks[0.95].value == pytest.approx(p95[0] - p95[1], abs=1e-5)


def test_nothing_replaced_by_the_same_changes_nothing_on_fresh_days(model: Model) -> None:
    one = NOTES.parse({"a": 1})
    change = on_fresh_days(model, MIX, one, one, n=50)
    assert np.array_equal(change.before, change.after)


def test_an_observed_day_is_changed_by_the_models_own_edit(model: Model) -> None:
    x, one, two = model.sample(MIX, 1, seed=9)[0], NOTES.parse({"a": 1}), NOTES.parse({"b": 1})
    change = on_observed_day(model, x, MIX, one, two, n=30, seed=4)
    assert np.array_equal(change.after, model.infer(x, MIX).replace(one, two).decode(30, 4, noise=True))
    assert all(np.array_equal(row, x) for row in change.before)
    assert change.parts.counts == (3, 1, 1)


def test_a_model_says_what_its_x_is_measured_in(model: Model) -> None:
    load = scale_of(model)
    assert (load.unit, load.step, load.parts, load.is_load) == ("kW", 4.0, "homes", True)
    own = scale_of(Model(model.network, Provenance(notes={"x is": "kW, mean of 240 minutes, from midnight on"})))
    assert own == load
    plain = scale_of(Model(model.network))
    assert (plain.unit, plain.step, plain.across, plain.is_load) == ("x", 1.0, "place along x", False)
    with pytest.raises(ConfigError, match="curves"):
        scale_of(Model(build(CONFIGS["newton, placed"])))


def test_a_plan_answers_everything_from_one_set_of_draws(model: Model) -> None:
    one, two = NOTES.parse({"a": 2}), NOTES.parse({"b": 2})
    observed = model.sample(MIX, 1, seed=9)[0]
    drawn = model.sample(MIX, 200, seed=0)
    rating = float(np.quantile(daily_peaks(drawn), 0.5))
    plan = make_plan(model, Question(MIX, None, rating, one, two, observed, n=200))
    assert np.array_equal(plan.x, drawn)
    assert plan.chance == by_counting(daily_peaks(drawn), rating)
    assert plan.fresh is not None
    assert plan.observed is not None
    assert plan.observed.change.after.shape == (200, 6)
    assert not isinstance(plan.worst, str)
    assert (daily_peaks(plan.worst.x) >= plan.worst.threshold).all()
    groups = list(dict.fromkeys(row.group for row in rows(plan)))
    assert groups == ["now", "after, on fresh days", "after, on the observed day", "P95 peak a home", "worst days"]


def test_a_question_that_makes_no_sense_is_refused() -> None:
    for options, said in (
        ({"replace": MIX}, "both"),
        ({"observed": np.zeros(6)}, "to be changed"),
        ({"n": 5}, "at least 20"),
    ):
        with pytest.raises(DataError, match=said):
            Question(MIX, **options)  # type: ignore[arg-type]
