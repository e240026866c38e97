"""Noise as a function of its coordinates: independence of padding, chunks and order, and exact distributions."""

import hashlib
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compvae.noise import Noise, Still

INT64 = st.integers(-(2**63), 2**63 - 1)
SEEDS = st.integers(-(2**70), 2**70)
KINDS = ("uniform", "normal", "integers")
MASK = 2**64 - 1


def draw(noise: Noise, kind: str, name: str, *shape: int) -> torch.Tensor:
    if kind == "integers":
        return noise.integers(name, -7, 1000, *shape)
    return getattr(noise, kind)(name, *shape)


def splitmix(seed: int, fold: tuple[int, ...], name: str, row: int, position: int) -> int:
    """64 bits by plain Python integers, after Steele, Lea & Flood 2014."""
    key = repr((seed, fold, name)).encode()
    z = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")
    z = (z + row * 0x9E3779B97F4A7C15 + position * 0xD1B54A32D192ED03) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def box_muller(bits: int, second: bool) -> float:
    radius = math.sqrt(-2 * math.log(((bits >> 32) + 0.5) / 2**32))
    angle = 2 * math.pi * (bits & 0xFFFFFFFF) / 2**32
    return radius * (math.sin(angle) if second else math.cos(angle))


def normal_cdf(x: float) -> float:
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def ks_distance(sample: np.ndarray, cdf) -> float:
    """Largest gap between the empirical and the exact distribution function."""
    n = sample.size
    exact = np.array([cdf(float(value)) for value in np.sort(sample.ravel())])
    above, below = np.arange(1, n + 1) / n - exact, exact - np.arange(n) / n
    return float(max(above.max(), below.max()))


def chi_square(observed: list[int], total: int) -> float:
    expected = total / len(observed)
    return sum((count - expected) ** 2 / expected for count in observed)


def chi_square_limit(cells: int) -> float:
    """Mean plus 4.5 standard deviations of chi-square with cells - 1 degrees of freedom."""
    return (cells - 1) + 4.5 * math.sqrt(2 * (cells - 1))


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(np.corrcoef(a.double().numpy().ravel(), b.double().numpy().ravel())[0, 1])


# -- each number depends on its own coordinates alone ------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=60)
@given(seed=SEEDS, fold=st.lists(INT64, max_size=3).map(tuple), row=INT64, name=st.text(max_size=8))
def test_numbers_are_the_splitmix64_hash_of_their_coordinates(seed, fold, row, name):
    noise = Noise(seed, torch.tensor([row]), *fold)
    bits = [splitmix(seed, fold, name, row, position) for position in range(6)]
    uniform = [((b >> 41) + 0.5) / 2**23 for b in bits]
    normal = [box_muller(bits[i // 2], second=i % 2 == 1) for i in range(6)]
    assert noise.uniform(name, 6)[0].tolist() == uniform
    np.testing.assert_allclose(noise.normal(name, 6, dtype=torch.float64)[0].numpy(), normal, atol=1e-12)
    np.testing.assert_allclose(noise.normal(name, 6)[0].numpy(), normal, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@settings(derandomize=True, deadline=None, max_examples=40)
@given(seed=SEEDS, rows=st.lists(INT64, min_size=1, max_size=12), data=st.data())
def test_a_row_keeps_its_numbers_whatever_rows_stand_beside_it(kind, seed, rows, data):
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=12))
    together = draw(Noise(seed, torch.tensor(rows)), kind, "w", 3, 2)
    among_others = draw(Noise(seed, torch.tensor([rows[i] for i in chosen])), kind, "w", 3, 2)
    assert torch.equal(among_others, together[chosen])


@pytest.mark.parametrize("kind", KINDS)
@settings(derandomize=True, deadline=None, max_examples=40)
@given(seed=SEEDS, width=st.integers(0, 9), growth=st.integers(0, 9), last=st.integers(1, 5))
def test_a_position_keeps_its_numbers_when_the_padding_grows(kind, seed, width, growth, last):
    noise = Noise(seed, 4)
    short, long = (draw(noise, kind, "w", size, last) for size in (width, width + growth))
    assert short.shape == (4, width, last)
    assert torch.equal(short, long[:, :width])


def test_numbers_do_not_depend_on_the_order_of_calls():
    one, other = Noise(3, 5), Noise(3, 5)
    forward = {(kind, name): draw(one, kind, name, 4) for kind in KINDS for name in ("w", "z", "x")}
    for kind, name in reversed(list(forward)):
        assert torch.equal(draw(other, kind, name, 4), forward[kind, name])
        assert torch.equal(draw(other, kind, name, 4), forward[kind, name])


def test_an_integer_for_rows_means_rows_from_zero():
    noise = Noise(1, 6)
    assert len(noise) == 6
    assert torch.equal(noise.normal("w", 2), Noise(1, torch.arange(6)).normal("w", 2))


def test_at_takes_the_noise_of_some_rows_by_position_or_by_mask():
    noise = Noise(8, torch.tensor([50, 7, -3, 12]), 4)
    full = noise.normal("w", 3)
    assert torch.equal(noise.at(torch.tensor([2, 0])).normal("w", 3), full[[2, 0]])
    assert torch.equal(noise.at(torch.tensor([False, True, False, True])).normal("w", 3), full[[1, 3]])


def test_common_noise_is_one_row_and_does_not_depend_on_the_rows():
    one = Noise(8, torch.tensor([50, 7, -3]), 4).common().normal("w", 3)
    other = Noise(8, 11, 4).common().normal("w", 3)
    assert one.shape == (1, 3)
    assert torch.equal(one, other)
    assert not torch.equal(one, Noise(9, 11, 4).common().normal("w", 3))


def test_fold_appends_its_key_and_the_order_of_keys_matters():
    noise = Noise(8, 5)
    assert torch.equal(noise.fold(3).fold(4).normal("w", 2), Noise(8, 5, 3, 4).normal("w", 2))
    variants = [noise, noise.fold(0), noise.fold(34), noise.fold(3).fold(4), noise.fold(4).fold(3)]
    drawn = {tuple(v.normal("w", 2).flatten().tolist()) for v in variants}
    assert len(drawn) == len(variants)


def test_still_noise_is_0_for_other_rows_folds_and_devices_too():
    still = Still(4)
    elsewhere = (still.at(torch.arange(2)), still.of_rows(torch.tensor([7])), still.fold(3), still.common())
    for noise in (still, *elsewhere, still.to(torch.device("cpu"))):
        assert not noise.normal("w", 3).any()
        assert noise.normal("w", 3).shape == (len(noise), 3)


def test_noise_of_other_rows_is_theirs_with_the_same_seed_and_fold():
    rows = torch.tensor([5, 2])
    assert torch.equal(Noise(3, 9, 4, 1).of_rows(rows).normal("w", 2), Noise(3, rows, 4, 1).normal("w", 2))


def test_coordinates_never_share_a_number():
    seeds, folds, names, rows, positions = (0, 1, 2), ((), (0,), (1,), (0, 0)), ("w", "z", "w/0"), 40, 25
    drawn = [
        number
        for seed in seeds
        for fold in folds
        for name in names
        for number in Noise(seed, rows, *fold).normal(name, positions, dtype=torch.float64).flatten().tolist()
    ]
    assert len(set(drawn)) == len(drawn) == 36 * rows * positions


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param((0, (), "w"), (0, (), "z"), id="names"),
        pytest.param((0, (), "specifics"), (0, (), "specific"), id="names that nearly agree"),
        pytest.param((0, (), "w"), (1, (), "w"), id="seeds"),
        pytest.param((5, (), "w"), (-5, (), "w"), id="seeds of opposite sign"),
        pytest.param((0, (1,), "w"), (0, (2,), "w"), id="folds"),
        pytest.param((0, (), "w"), (0, (0,), "w"), id="with and without a fold"),
        pytest.param((0, (1,), "w"), (1, (0,), "w"), id="seed and fold exchanged"),
    ],
)
@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_different_names_seeds_and_folds_are_uncorrelated(kind, one, other):
    a, b = (draw(Noise(seed, 400, *fold), kind, name, 100) for seed, fold, name in (one, other))
    limit = 4.5 / math.sqrt(a.numel())
    assert abs(correlation(a, b)) < limit
    assert abs(correlation((a - a.mean()) ** 2, (b - b.mean()) ** 2)) < limit


@pytest.mark.parametrize("lag", [1, 2, 3, 64])
@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_different_rows_and_positions_are_uncorrelated(kind, lag):
    x = draw(Noise(0, 400), kind, "w", 200)
    x = x - x.mean()
    for a, b in ((x[lag:], x[:-lag]), (x[:, lag:], x[:, :-lag]), (x[lag:, lag:], x[:-lag, :-lag])):
        assert abs(correlation(a, b)) < 4.5 / math.sqrt(a.numel())
        assert abs(correlation(a**2, b**2)) < 4.5 / math.sqrt(a.numel())


# -- distributions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_numbers_lie_strictly_between_0_and_1(dtype):
    u = Noise(0, 1000).uniform("u", 1000, dtype=dtype)
    assert u.dtype == dtype
    assert 0 < float(u.min()) < 1e-5
    assert 1 - 1e-5 < float(u.max()) < 1


def test_uniform_numbers_follow_the_uniform_distribution():
    u = Noise(1, 200).uniform("u", 200).numpy()
    assert ks_distance(u, lambda x: x) < 1.95 / math.sqrt(u.size)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normal_numbers_follow_the_normal_distribution(dtype):
    x = Noise(2, 200).normal("n", 201, dtype=dtype).numpy()
    assert x.dtype == (np.float32 if dtype == torch.float32 else np.float64)
    assert ks_distance(x, normal_cdf) < 1.95 / math.sqrt(x.size)


def test_normal_numbers_have_the_moments_of_the_normal_distribution():
    x = Noise(3, 500).normal("n", 800, dtype=torch.float64).numpy()
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        assert abs((x**power).mean() - moment) < 4.5 * math.sqrt(variance / x.size), power


def test_normal_tails_have_their_exact_probability():
    x = Noise(4, 1000).normal("n", 1000).numpy()
    assert np.isfinite(x).all()
    for bound in (2.0, 3.0, 4.0):
        for tail in (x > bound, x < -bound):
            p = 1 - normal_cdf(bound)
            assert abs(tail.mean() - p) < 4.5 * math.sqrt(p / x.size)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(seed=SEEDS, low=st.integers(-(10**6), 10**6), width=st.integers(0, 10**6))
def test_integers_stay_in_their_range(seed, low, width):
    x = Noise(seed, 3).integers("i", low, low + width, 7)
    assert x.shape == (3, 7)
    assert x.dtype == torch.int64
    assert low <= int(x.min()) <= int(x.max()) <= low + width


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 16), (-3, 6), (0, 99)])
def test_integers_cover_their_range_uniformly_both_ends_included(low, high):
    x = Noise(5, 400).integers("i", low, high, 100).flatten().tolist()
    counts = Counter(x)
    assert sorted(counts) == list(range(low, high + 1))
    assert chi_square(list(counts.values()), len(x)) < chi_square_limit(high - low + 1)


def test_integers_without_a_shape_are_one_for_each_row():
    assert Noise(5, 400).integers("sizes", 1, 16).shape == (400,)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(seed=SEEDS, size=st.integers(0, 300))
def test_a_permutation_holds_each_position_once(seed, size):
    assert sorted(Noise(seed, 3).permutation("p", size).tolist()) == list(range(size))


def test_a_permutation_is_shared_by_all_rows_and_differs_between_names_and_folds():
    noise = Noise(6, torch.tensor([4, 5]))
    assert torch.equal(noise.permutation("p", 50), Noise(6, 900).permutation("p", 50))
    assert not torch.equal(noise.permutation("p", 50), noise.permutation("q", 50))
    assert not torch.equal(noise.permutation("p", 50), noise.fold(1).permutation("p", 50))


def test_all_permutations_are_equally_likely():
    noise = Noise(7, 1)
    counts = Counter(tuple(noise.fold(step).permutation("p", 3).tolist()) for step in range(6000))
    assert len(counts) == 6
    assert chi_square(list(counts.values()), 6000) < chi_square_limit(6)
