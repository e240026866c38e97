"""Measures that compare samples, on cases with known answers: closed forms, brute force, scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from compvae.errors import DataError
from compvae.measures import (
    Measured,
    c2st,
    energy_score,
    floor_of,
    ks_distance,
    ks_uniform,
    mean_of,
    measured_edit_ratio,
    measured_period_violation,
    moment_errors,
    paired,
    rel_ed,
    sliced_wasserstein,
)


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def normals(seed: int, *shape: int) -> np.ndarray:
    return rng(seed).normal(size=shape)


def honest(results: list[Measured], low: float = 0.8, high: float = 1.25) -> None:
    """The reported errors are those seen over repetitions."""
    seen = np.std([result.value for result in results], ddof=1)
    assert low * seen < np.mean([result.se for result in results]) < high * seen


# -- errors of the measures themselves ---------------------------------------------------------------------------


def test_a_mean_has_the_error_of_a_mean():
    assert mean_of(np.array([1.0, 2.0, 6.0])) == Measured(3.0, math.sqrt(7 / 3), 3)
    assert math.isnan(mean_of(np.array([1.0])).se)


def test_paired_differences_cancel_what_the_cases_share():
    cases = 10 * normals(0, 40)
    ours, theirs = cases + 0.1 * normals(1, 40), cases + 0.2 + 0.1 * normals(2, 40)
    found = paired(ours, theirs)
    assert found.value == pytest.approx(-0.2, abs=4 * found.se)
    assert found.value < -2 * found.se  # a win, though the cases vary by 10
    with pytest.raises(DataError, match="same shape"):
        paired(ours, theirs[:-1])


@pytest.mark.parametrize(("shift", "scale"), [(1.0, 1.0), (0.0, 2.0)])
def test_the_error_of_rel_ed_is_that_of_repetitions(shift, scale):
    honest([rel_ed(normals(2 * s, 150, 3), shift + scale * normals(2 * s + 1, 120, 3)).measured() for s in range(150)])


def test_the_error_of_rel_ed_is_not_too_small_for_equal_distributions():
    honest([rel_ed(normals(2 * s, 100, 3), normals(2 * s + 1, 100, 3)).measured() for s in range(200)], 1.0, 2.0)


def test_the_jackknife_of_rel_ed_leaves_out_one_sample_at_a_time():
    x, y = normals(0, 7, 2), 0.5 + normals(1, 5, 2)
    total = 0.0
    for sample, others in ((x, lambda rest: rel_ed(rest, y)), (y, lambda rest: rel_ed(x, rest))):
        left = np.array([others(np.delete(sample, i, 0)).value for i in range(len(sample))])
        total += (len(sample) - 1) / len(sample) * ((left - left.mean()) ** 2).sum()
    assert rel_ed(x, y).se == pytest.approx(math.sqrt(total), rel=1e-9)


def test_the_floor_takes_any_measure():
    gap = floor_of(lambda a, b: abs(float(a.mean() - b.mean())), lambda seed: normals(seed, 100), pairs=400)
    assert gap == pytest.approx(1.96 * math.sqrt(2 / 100), rel=0.15)


def test_the_error_of_an_edit_ratio_is_that_of_repetitions():
    def ratio(seed: int) -> Measured:
        exact, size = normals(3 * seed, 60, 8), rng(seed).uniform(0.5, 1.5, (60, 1))
        edited = exact + 0.3 * size * normals(3 * seed + 1, 60, 8)
        return measured_edit_ratio(edited, exact, exact + size * normals(3 * seed + 2, 60, 8))

    honest([ratio(seed) for seed in range(200)])
    assert np.mean([ratio(seed).value for seed in range(20)]) == pytest.approx(0.3, abs=0.01)


def test_the_error_of_a_period_violation_is_that_of_repetitions():
    def violation(seed: int) -> Measured:
        x = np.tile(normals(2 * seed, 50, 10), 2)
        return measured_period_violation(x + 0.1 * normals(2 * seed + 1, 50, 20), 10)

    results = [violation(seed) for seed in range(200)]
    honest(results)
    # differences of the noise have variance 2 (.1)^2, x has 1 + (.1)^2
    assert np.mean([r.value for r in results]) == pytest.approx(math.sqrt(0.02 / 1.01), rel=0.02)


# -- energy score and sliced Wasserstein -------------------------------------------------------------------------


def test_the_energy_score_is_what_double_loops_give():
    forecast, observed = normals(0, 3, 5, 2, 2), normals(1, 3, 2, 2)
    scores = []
    for draws, x in zip(forecast, observed, strict=True):
        near = np.mean([np.linalg.norm(y - x) for y in draws])
        spread = np.mean([np.linalg.norm(a - b) for i, a in enumerate(draws) for j, b in enumerate(draws) if i != j])
        scores.append(near - spread / 2)
    found = energy_score(forecast, observed)
    assert found.value == pytest.approx(np.mean(scores), rel=1e-9)
    assert found.se == pytest.approx(np.std(scores, ddof=1) / math.sqrt(3), rel=1e-9)


def test_the_energy_score_of_gaussians_agrees_with_the_closed_form():
    # In one dimension it is the CRPS; of N(0, s) for x ~ N(0, 1): E|Y - x| - E|Y - Y'|/2, all half-normal means.
    for scale in (0.5, 1.0, 2.0):
        found = energy_score(scale * normals(1, 1500, 20, 1), normals(2, 1500, 1))
        exact = math.sqrt(2 / math.pi) * (math.sqrt(1 + scale**2) - scale / math.sqrt(2))
        assert abs(found.value - exact) < 3 * found.se
        assert found.se < 0.02


@pytest.mark.parametrize(
    ("forecast", "observed", "words"),
    [
        ((4, 5, 3), (4, 2), "forecast must be"),
        ((4, 5, 3), (3, 3), "forecast must be"),
        ((4,), (4,), "forecast must be"),
        ((4, 1, 3), (4, 3), "takes 2 to"),
        ((1, 12_000, 1), (1, 1), "takes 2 to 11585"),
    ],
)
def test_forecasts_that_cannot_be_scored_are_refused(forecast, observed, words):
    with pytest.raises(DataError, match=words):
        energy_score(np.zeros(forecast), np.zeros(observed))


def test_sliced_wasserstein_of_a_shift_is_its_length_over_the_root_of_the_dimension():
    x, shift = normals(0, 200, 5), np.array([1.0, -2.0, 0.0, 0.5, 0.0])
    found = sliced_wasserstein(x, x + shift, projections=4000)
    assert abs(found.value - np.linalg.norm(shift) / math.sqrt(5)) < 3 * found.se
    assert found.se < 0.02


def test_sliced_wasserstein_in_one_dimension_is_the_distance_of_quantiles():
    x, y = normals(0, 300), 0.5 + 2 * normals(1, 300)
    exact = math.sqrt(np.mean((np.sort(x) - np.sort(y)) ** 2))
    assert sliced_wasserstein(x, y).value == pytest.approx(exact, rel=1e-9)


def test_sliced_wasserstein_is_a_function_of_its_seed():
    x, y = normals(0, 50, 2, 3), normals(1, 60, 2, 3)
    assert sliced_wasserstein(x, y, seed=1) == sliced_wasserstein(x, y, seed=1)
    assert sliced_wasserstein(x, y, seed=1) != sliced_wasserstein(x, y, seed=2)
    assert sliced_wasserstein(x, x).value == 0
    with pytest.raises(DataError, match="projections"):
        sliced_wasserstein(x, y, projections=0)


def test_the_error_of_sliced_wasserstein_is_that_of_other_directions():
    x, y = normals(0, 100, 4), normals(1, 100, 4) + np.array([1.0, 0, 0, 0])
    honest([sliced_wasserstein(x, y, projections=100, seed=seed) for seed in range(100)])


# -- moments -----------------------------------------------------------------------------------------------------


def test_moment_errors_are_what_is_computed_by_hand():
    truth = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 6.0], [6.0, 6.0]])  # variances 5 and 9
    model = truth * np.array([2.0, 1.0]) + np.array([0.0, 1.0])  # means 6, 4 instead of 3, 3; std doubled in the first
    found = moment_errors(truth, model)
    assert found.mean.value == pytest.approx(math.sqrt((9 + 1) / 14), rel=1e-12)
    assert found.std.value == pytest.approx(math.sqrt(5 / 14), rel=1e-12)
    assert found.skew.value == pytest.approx(0, abs=1e-12)


def test_the_skew_error_is_that_of_known_distributions_weighted_by_variance():
    n = 40_000
    truth = np.stack([rng(0).normal(size=n), np.full(n, 0.7)], 1)  # the second never varies: it must not count
    model = np.stack([rng(1).exponential(size=n) - 1, np.full(n, 0.7)], 1)
    found = moment_errors(truth, model)
    assert found.skew.value == pytest.approx(stats.skew(model[:, 0]) - stats.skew(truth[:, 0]), rel=1e-6)
    assert abs(found.skew.value - 2) < 4 * found.skew.se
    assert found.mean.value < 0.02
    assert found.std.value < 0.03


def test_moment_errors_and_floors_are_those_of_repetitions():
    def pair(seed: int, shift: float, scale: float) -> tuple[np.ndarray, np.ndarray]:
        return rng(2 * seed).gamma(4, size=(300, 6)), shift + scale * rng(2 * seed + 1).gamma(4, size=(200, 6))

    off = [moment_errors(*pair(seed, 0.8, 1.3)) for seed in range(150)]
    honest([found.mean for found in off])
    honest([found.std for found in off], 0.75)
    equal = [moment_errors(*pair(seed, 0.0, 1.0)) for seed in range(150)]
    for name in ("mean", "std", "skew"):
        values = np.array([getattr(found, name).value for found in equal])
        floor = np.mean([getattr(found, name).floor for found in equal])
        assert floor == pytest.approx(math.sqrt((values**2).mean()), rel=0.15), name


def test_moments_of_a_truth_that_does_not_vary_are_not_defined():
    found = moment_errors(np.ones((5, 3)), normals(0, 5, 3))
    assert math.isnan(found.mean.value)
    assert math.isnan(found.skew.value)


# -- C2ST --------------------------------------------------------------------------------------------------------


def test_equal_samples_cannot_be_told_apart():
    results = [c2st(normals(2 * s, 100, 3), normals(2 * s + 1, 100, 3), seed=s) for s in range(4)]
    assert sum(r.accuracy.value > r.accuracy.floor for r in results) <= 1  # 5% of cases or fewer
    assert sum(r.auc.value > r.auc.floor for r in results) <= 1
    for result in results:
        assert abs(result.accuracy.value - 0.5) < 3 * result.accuracy.se
        assert abs(result.auc.value - 0.5) < 3 * result.auc.se


def test_shifted_gaussians_are_told_apart_as_well_as_anyone_could():
    # Best accuracy for N(0, 1) against N(d, 1) is Phi(d / 2), best AUC is Phi(d / sqrt(2)).
    result = c2st(normals(0, 800, 2), normals(1, 800, 2) + np.array([1.5, 0.0]))
    best, best_auc = stats.norm.cdf(0.75), stats.norm.cdf(1.5 / math.sqrt(2))
    assert best - 4 * result.accuracy.se < result.accuracy.value < best + 3 * result.accuracy.se
    assert best_auc - 4 * result.auc.se < result.auc.value < best_auc + 3 * result.auc.se


@pytest.mark.parametrize("what", ["variance", "correlation", "ring"])
def test_differences_beyond_the_mean_are_told(what):
    x, y, angle = normals(0, 500, 2), normals(1, 500, 2), rng(2).uniform(0, 2 * math.pi, 500)
    other = {
        "variance": 2 * y,
        "correlation": np.stack([y[:, 0], 0.9 * y[:, 0] + math.sqrt(1 - 0.81) * y[:, 1]], 1),
        "ring": math.sqrt(2) * np.stack([np.cos(angle), np.sin(angle)], 1),  # same mean and covariance
    }[what]
    accuracy = c2st(x, other).accuracy
    assert accuracy.value > 0.5 + 5 * accuracy.se


def test_c2st_is_a_function_of_its_seed_and_exact_where_nothing_overlaps():
    x, y = normals(0, 60, 2), normals(1, 60, 2)
    assert c2st(x, y, seed=-(10**20)) == c2st(x, y, seed=-(10**20))
    apart = c2st(x, y + 100)
    assert apart.accuracy.value == apart.auc.value == 1
    assert 0 < apart.accuracy.se < 0.03


def test_samples_all_alike_count_as_undecided():
    assert c2st(np.ones((20, 1)), np.ones((20, 1))).accuracy.value == 0.5


@pytest.mark.parametrize(
    ("truth", "model", "folds", "words"),
    [
        ((20, 2), (19, 2), 5, "same shape"),
        ((20, 2), (20, 3), 5, "same shape"),
        ((9, 2), (9, 2), 5, "truth needs at least 10 samples"),
        ((20, 2), (20, 2), 1, "folds must be at least 2"),
    ],
)
def test_what_a_classifier_cannot_be_judged_on_is_refused(truth, model, folds, words):
    with pytest.raises(DataError, match=words):
        c2st(np.zeros(truth), np.zeros(model), folds=folds)


# -- Kolmogorov-Smirnov ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 200])
def test_the_ks_distance_is_scipys(n):
    values = normals(n, n)
    found = ks_distance(values, stats.norm.cdf)
    assert found.value == pytest.approx(stats.kstest(values, "norm").statistic, rel=1e-12)
    assert stats.kstwo.sf(found.floor, n) == pytest.approx(0.05, rel=1e-6)


def test_the_ks_distance_to_a_uniform_range():
    values = rng(1).uniform(5, 10, 500)
    assert ks_uniform(values, 5, 10).value < ks_uniform(values, 5, 10).floor
    wide = ks_uniform(rng(0).uniform(4, 11, 5000), 5, 10)
    assert wide.value == pytest.approx(1 / 7, abs=4 * 0.007)  # a seventh lies below 5
    with pytest.raises(DataError, match=r"numbers \(n,\)"):
        ks_uniform(np.zeros((3, 2)))
