"""Tails of known distributions: probabilities, their reported errors and what is drawn, against closed forms.

Everything here works on white noise itself, x(u) = u; models come in test_tails_models.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from compvae.errors import CompVAEError, DataError, TailError
from compvae.noise import Noise
from compvae.tails import EVENTS, METHODS, Goal, TailSample, tail
from compvae.tails.pareto import pareto_shape, tail_shape

SEEDS = range(20)
METHODS_EXACT = ("rejection", "subset")


class White:
    """x(u) = u, in D coordinates."""

    height = 256

    def __init__(self, size: int) -> None:
        self.shape = (size,)

    def white(self, noise: Noise) -> torch.Tensor:
        return noise.normal("u", *self.shape)

    def __call__(self, u: torch.Tensor) -> torch.Tensor:
        assert u.shape == (self.height, *self.shape)
        return u


def along(x: np.ndarray) -> np.ndarray:
    """a.u with |a| = 1: standard normal."""
    a = np.array([0.48, 0.64, 0.0, 0.36, 0.48])
    return np.asarray(x @ a)


def either_side(x: np.ndarray) -> np.ndarray:
    return np.abs(x[:, 0])


def mostly_one_side(x: np.ndarray) -> np.ndarray:
    return np.maximum(x[:, 0], -0.9 * x[:, 0])


def above(event: Callable[[np.ndarray], np.ndarray] | str, t: float, **options: object) -> TailSample:
    return tail(White(5), event, Goal.of(None, t), **options)  # type: ignore[arg-type]


def top(event: Callable[[np.ndarray], np.ndarray] | str, q: float, **options: object) -> TailSample:
    return tail(White(5), event, Goal.of(q, None), **options)  # type: ignore[arg-type]


def highest_of_five(p: float) -> float:
    """t with P(max of 5 normals >= t) = p."""
    return float(stats.norm.isf(-math.expm1(math.log1p(-p) / 5)))


CASES = [
    ("rejection", along, stats.norm.isf(1e-2), 1e-2),
    ("rejection", along, stats.norm.isf(0.7), 0.7),
    ("rejection", "peak", highest_of_five(1e-2), 1e-2),
    ("subset", along, stats.norm.isf(0.3), 0.3),
    ("subset", along, stats.norm.isf(1e-2), 1e-2),
    ("subset", along, stats.norm.isf(1e-3), 1e-3),
    ("subset", along, stats.norm.isf(1e-5), 1e-5),
    ("subset", "peak", highest_of_five(1e-3), 1e-3),
    ("subset", either_side, stats.norm.isf(0.5e-3), 1e-3),
    ("importance", along, stats.norm.isf(1e-2), 1e-2),
    ("importance", along, stats.norm.isf(1e-3), 1e-3),
    ("importance", along, stats.norm.isf(1e-5), 1e-5),
]


@pytest.mark.parametrize(("method", "event", "t", "p"), CASES)
def test_probabilities_are_right_and_so_are_their_reported_deviations(
    method: str, event: Callable[[np.ndarray], np.ndarray], t: float, p: float
) -> None:
    found = [above(event, t, n=20, seed=seed, method=method) for seed in SEEDS]
    estimate, cv = (np.array([getattr(f, name) for f in found]) for name in ("probability", "cv"))
    assert abs(estimate.mean() / p - 1) < 0.1
    assert (np.abs(estimate - p) <= 3 * cv * estimate).sum() >= 18
    # 20 estimates know their own spread to 16%
    assert 0.6 < estimate.std(ddof=1) / p / cv.mean() < 1.6
    assert all(f.method == method and f.threshold == t and f.threshold_interval is None for f in found)


@pytest.mark.parametrize("t", [3.0, 4.0])
@pytest.mark.parametrize("event", [either_side, mostly_one_side])
def test_weighted_draws_find_both_sides_of_a_tail(event: Callable[[np.ndarray], np.ndarray], t: float) -> None:
    p = stats.norm.sf(t) + (stats.norm.sf(t) if event is either_side else stats.norm.sf(t / 0.9))
    for seed in range(5):
        found = above(event, t, seed=seed, method="importance")
        assert abs(found.probability - p) < 3 * found.cv * found.probability


@pytest.mark.parametrize(("t", "seen"), [(3.0, "are worth"), (4.0, r"are worth [01] .* Pareto k of -")])
def test_a_proposal_that_misses_a_side_is_refused(t: float, seen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One shift alone misses the lesser side.  At 4 no draw falls there, and the weights by themselves look well."""
    monkeypatch.setattr("compvae.tails.proposal.SHIFTS", (1,))
    for seed in range(5):
        with pytest.raises(TailError, match=seen):
            above(mostly_one_side, t, seed=seed, method="importance")


@pytest.mark.parametrize(
    ("method", "p"), [("rejection", 1e-2), ("subset", 1e-2), ("subset", 1e-4), ("importance", 1e-4)]
)
def test_what_is_drawn_has_the_distribution_of_the_tail(method: str, p: float) -> None:
    """Along the event a truncated normal, across it and in the idle coordinate a standard normal."""
    t, across = stats.norm.isf(p), np.array([0.8, -0.6, 0.0, 0.0, 0.0])
    found = [above(along, t, n=300, seed=seed, method=method) for seed in range(8)]
    x, weights = np.concatenate([f.x for f in found]), np.concatenate([f.weights for f in found]) / 8
    ess = sum(f.ess for f in found)
    assert (along(x) >= t - 1e-6).all()
    for values, cdf in (
        (along(x), lambda y: 1 - stats.norm.sf(y) / stats.norm.sf(t)),
        (x @ across, stats.norm.cdf),
        (x[:, 2], stats.norm.cdf),
    ):
        order = np.argsort(values)
        distance = np.abs(np.cumsum(weights[order]) - cdf(values[order])).max()
        assert distance < 1.95 / math.sqrt(ess)  # Kolmogorov's 0.1% point


def test_the_wholes_of_two_separate_tails_come_from_both() -> None:
    x = above(either_side, 3.0, n=400, method="subset").x[:, 0]
    assert 0.3 < (x > 0).mean() < 0.7


@pytest.mark.parametrize(
    ("method", "q"), [("rejection", 0.3), ("rejection", 0.99), ("subset", 0.995), ("subset", 0.9999)]
)
def test_the_threshold_of_a_quantile_has_the_uncertainty_it_reports(method: str, q: float) -> None:
    found = [top(along, q, n=5, seed=seed, method=method) for seed in SEEDS]
    true, thresholds = stats.norm.ppf(q), np.array([f.threshold for f in found])
    intervals = np.array([f.threshold_interval for f in found])
    assert all(f.probability == pytest.approx(1 - q) for f in found)
    assert ((intervals[:, 0] <= true) & (true <= intervals[:, 1])).sum() >= 16  # 95% each
    assert ((intervals[:, 0] <= thresholds) & (thresholds <= intervals[:, 1])).all()
    cv = np.array([f.cv for f in found])
    assert (np.abs(stats.norm.sf(thresholds) / (1 - q) - 1) <= 3 * cv).sum() >= 18


def test_importance_reports_the_probability_at_the_threshold_it_was_given_by_subset_simulation() -> None:
    found = top(along, 0.999, method="importance")
    assert found.threshold == top(along, 0.999, method="subset").threshold
    assert abs(found.probability / stats.norm.sf(found.threshold) - 1) < 3 * found.cv


def test_the_method_is_chosen_by_the_probability() -> None:
    assert top(along, 0.99, n=1).method == "rejection"
    assert top(along, 0.991, n=1).method == "subset"
    assert above(along, 1.0, n=1).method == "rejection"
    assert above(along, 4.0, n=1).method == "subset"


@pytest.mark.parametrize(("method", "many"), [("rejection", 700), ("subset", 2000), ("importance", 3000)])
def test_fewer_wholes_are_the_first_of_more_and_a_seed_gives_the_same_bytes(method: str, many: int) -> None:
    more, few = (above(along, 2.4, n=n, seed=3, method=method) for n in (many, 7))
    assert more.x.shape == (many, 5)
    assert more.x.dtype == np.float32
    assert np.array_equal(more.x[:7], few.x)
    again = above(along, 2.4, n=many, seed=3, method=method)
    assert again.x.tobytes() == more.x.tobytes()
    assert again.weights.tobytes() == more.weights.tobytes()
    assert (again.probability, again.cv, again.draws) == (more.probability, more.cv, more.draws)
    assert not np.array_equal(above(along, 2.4, n=7, seed=4, method=method).x, few.x)


@pytest.mark.parametrize("method", METHODS)
def test_weights_are_normalised_and_the_effective_number_is_theirs(method: str) -> None:
    found = above(along, 3.0, n=150, method=method) if method != "rejection" else above(along, 1.0, n=150)
    assert found.weights.dtype == np.float64
    assert found.weights.sum() == pytest.approx(1)
    kish = 1 / (found.weights**2).sum()
    assert found.ess == pytest.approx(kish) if method != "subset" else 10 < found.ess < 150
    assert (found.ancestors is None) == (method == "rejection")
    assert (found.pareto_k is None) == (method != "importance")


def test_weights_give_expectations_over_the_tail() -> None:
    found = above(along, 3.0, n=5000, method="importance")
    mean = float(found.weights @ along(found.x))
    exact = stats.norm.pdf(3) / stats.norm.sf(3)
    assert abs(mean - exact) < 4 * 0.3 / math.sqrt(found.ess)


@pytest.mark.parametrize("method", METHODS_EXACT)
def test_a_threshold_below_everything_is_certain(method: str) -> None:
    found = above(along, -1e9, n=10, method=method)
    assert found.probability == 1
    assert found.cv < 0.01


def test_an_event_with_one_value_has_no_quantile_and_nothing_above_it() -> None:
    def constant(x: np.ndarray) -> np.ndarray:
        return np.full(len(x), 2.5)

    assert above(constant, 2.5, n=3).probability == 1
    for q in (0.9, 0.999):
        with pytest.raises(TailError, match=r"exactly 2.5 (so often|in 100%)"):
            top(constant, q)
    with pytest.raises(TailError, match=r"exactly 2.5 in 100% of the draws"):
        above(constant, 2.6)


def test_an_event_with_few_values_works_by_threshold_and_is_refused_by_quantile() -> None:
    def sides(x: np.ndarray) -> np.ndarray:
        return (x > 0).sum(1)

    assert above(sides, 5, n=10).probability == pytest.approx(1 / 32, rel=0.25)
    with pytest.raises(TailError, match=r"no threshold of the event has probability 0\.1:"):
        top(sides, 0.9)
    with pytest.raises(TailError, match="exactly 5 in 100% of the draws"):
        above(sides, 5.5)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: above(along, 7.0, method="rejection"), r"never reached 7 in 1,040,000 .* is below 3e-06 \(95%\)"),
    (lambda: above(along, 4.0, method="rejection"), r"only \d+ of 1,040,000 draws reached 4 .* where 200 are needed"),
    (lambda: top(along, 1 - 1e-5, method="rejection"), r"needs 2e\+07 draws .* use method='subset'"),
    (lambda: above(along, 1e9, method="subset"), r"did not reach 1e\+09 in 10 levels: .* highest value seen is"),
    (lambda: top(along, 1 - 1e-13, method="subset"), r"did not reach a probability of 1e-13 in 10 levels"),
])  # fmt: skip
def test_what_cannot_be_estimated_is_refused_with_what_was_seen(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TailError, match=message):
        call()


def test_an_estimate_from_few_lineages_is_refused() -> None:
    """A score without any neighbourhood: a chain cannot move to a state as good, so a level descends from few."""

    def rough(x: np.ndarray) -> np.ndarray:
        return (1e3 * x.sum(1, dtype=np.float64)) % 1

    with pytest.raises(TailError, match=r"relative deviation of \d\.\d\d from \d+ independent ancestors"):
        above(rough, 1 - 1e-4, method="subset")


def boom(x: np.ndarray) -> np.ndarray:
    raise KeyError("volts")


def in_place(x: np.ndarray) -> np.ndarray:
    x *= 2
    return x.max(1)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: Goal.of(None, None), "one of them; neither came"),
    (lambda: Goal.of(0.9, 1.0), "one of them; both came"),
    (lambda: Goal.of(0.0, None), "between 0 and 1"),
    (lambda: Goal.of(1.0, None), "between 0 and 1"),
    (lambda: Goal.of(math.nan, None), "quantile must be a finite number, got nan"),
    (lambda: Goal.of("0.9", None), "quantile must be a finite number, got '0.9'"),
    (lambda: Goal.of(None, math.inf), "threshold must be a finite number"),
    (lambda: Goal.of(None, True), "threshold must be a finite number"),
    (lambda: above(along, 1, n=0), "n must be a whole number of at least 1, got 0"),
    (lambda: above(along, 1, n=10**15), "does not fit into memory"),
    (lambda: above(along, 1, seed="x"), "seed must be an integer"),
    (lambda: above(along, 1, method="magic"), "one of auto, rejection, subset, importance, got 'magic'"),
    (lambda: above("height", 1), "event 'height' is unknown, it must be one of peak, energy, ramp"),
    (lambda: above(3, 1), "or a function of x, got int"),
    (lambda: above(boom, 1), "event 'boom' raised KeyError: 'volts'"),
    (lambda: above(in_place, 1), "event 'in_place' raised ValueError: .*read-only"),
    (lambda: above(lambda x: x, 1), r"returned shape \(256, 5\) where \(256,\) was expected"),
    (lambda: above(lambda x: x.max(), 1), r"returned shape \(\) where"),
    (lambda: above(lambda x: ["a"] * len(x), 1), "must return numbers, got list"),
    (lambda: above(lambda x: np.where(x[:, 0] > 3, np.nan, 0), 1, method="rejection"), "returned nan for"),
    (lambda: above(lambda x: 1 / np.zeros(len(x)), 1), "returned inf for 256 of 256"),
    (lambda: tail(White(1), "ramp", Goal.of(0.9, None)), "one place only"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_bad_calls_say_what_came_and_what_is_allowed(call: Callable[[], object], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        call()
    assert isinstance(caught.value, CompVAEError)


def test_the_built_in_events() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3, 2, 5)).astype(np.float32)
    for row, whole in enumerate(x):
        assert EVENTS["peak"](x)[row] == max(whole.ravel().tolist())
        assert EVENTS["energy"](x)[row] == pytest.approx(math.fsum(whole.ravel().tolist()), rel=1e-6)
        steps = [abs(b - a) for line in whole.reshape(6, 5).tolist() for a, b in pairwise(line)]
        assert EVENTS["ramp"](x)[row] == pytest.approx(max(steps), rel=1e-6)


@pytest.mark.parametrize("k", [-0.4, 0.0, 0.3, 0.7, 1.2])
def test_the_pareto_shape_is_that_of_the_sample(k: float) -> None:
    draws = [stats.genpareto.rvs(k, scale=3.0, size=1000, random_state=seed) for seed in range(20)]
    ours = np.array([pareto_shape(sample) for sample in draws])
    assert abs(ours.mean() - k) < 0.03
    likelihood = stats.genpareto.fit(draws[0], floc=0)[0]
    assert ours[0] == pytest.approx(likelihood, abs=0.05)


@given(st.floats(0.01, 100), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_the_pareto_shape_does_not_depend_on_the_unit(unit: float, seed: int) -> None:
    sample = stats.genpareto.rvs(0.4, size=200, random_state=seed)
    assert pareto_shape(unit * sample) == pytest.approx(pareto_shape(sample), abs=1e-6)


def test_the_shape_of_weights_is_that_of_their_largest() -> None:
    heavy = stats.pareto.rvs(1 / 0.9, size=20_000, random_state=0)  # Pareto weights: k = 0.9
    assert tail_shape(heavy) == pytest.approx(0.9, abs=0.2)
    assert tail_shape(np.ones(1000)) == 0
    assert tail_shape(np.random.default_rng(0).uniform(size=5000)) < -0.5
