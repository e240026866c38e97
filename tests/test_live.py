"""Wholes whose latents belong to parts: the distribution of sampling, and nothing moves but what was changed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import compvae
from compvae.composing.live import LIVE_TILE, can_join, draw_joined
from compvae.composing.walks import FIRST, PartNoise
from compvae.errors import PartsError
from compvae.model import Model
from compvae.noise import Noise
from compvae.parts import Categorical, PartsSchema
from models import CONFIGS, build

KINDS = PartsSchema(attributes=(Categorical(name="kind", categories=("a", "b")),))
SITES = [{"colour": "red", "x": 0.2, "y": -0.5}, {"colour": "red", "x": -0.4, "y": 0.1}]


def walk(count: int, rows: int = 4000) -> np.ndarray:
    """B(n), (rows,), of the first kind, beside one part of another kind."""
    source = PartNoise(Noise(3, rows), KINDS.parse({"a": count, "b": 1}), None, by_kind=True)
    return (source.normal("w", 2, 1, dtype=torch.float64)[:, 0, 0] * count**0.5).numpy()


@pytest.mark.parametrize("count", [1, 2, FIRST - 1, FIRST, FIRST + 1, 200, 1000, 10**6])
def test_a_walk_has_independent_steps_of_variance_one(count: int) -> None:
    here, step = walk(count), walk(count + 1) - walk(count)
    assert np.var(here) / count == pytest.approx(1.0, abs=0.1)
    assert np.var(step) == pytest.approx(1.0, abs=0.1)
    assert abs(np.corrcoef(here, step)[0, 1]) < 0.06


def test_far_steps_of_a_walk_are_independent() -> None:
    at = [walk(n) for n in (0 + 1, 100, 300, 5000)]
    correlation = np.corrcoef([at[1] - at[0], at[2] - at[1], at[3] - at[2]])
    assert np.abs(correlation - np.eye(3)).max() < 0.06


@pytest.mark.parametrize("name", list(CONFIGS))
def test_latents_stay_with_their_parts_and_the_distribution_is_that_of_sampling(name: str) -> None:
    model = Model(build(CONFIGS[name]))
    sites = bool(model.parts.continuous)
    parts = (
        [{"colour": "red", "x": 0.5, "y": 0.0}, {"colour": "green", "x": -0.5, "y": 0.1}] if sites else {"a": 2, "b": 1}
    )
    drawn, sampled = model.compose(parts).decode(2000, seed=1), model.sample(parts, 2000, seed=1, noise=False)
    error = 5 * sampled.std(0) * (2 / 2000) ** 0.5 + 1e-6
    assert (np.abs(drawn.mean(0) - sampled.mean(0)) < error).all()
    # the error of a variance depends on the fourth moment: pixels near their bounds have heavy tails
    squares, others = (drawn - drawn.mean(0)) ** 2, (sampled - sampled.mean(0)) ** 2
    error = 5 * np.hypot(squares.std(0), others.std(0)) / 2000**0.5 + 1e-6
    assert (np.abs(squares.mean(0) - others.mean(0)) < error).all()
    assert np.array_equal(model.compose(parts).decode(3, seed=1), drawn[:3])


def test_one_more_part_adds_its_own_curve_and_leaves_the_others() -> None:
    """By the link of sines: atanh(x / K) K is linear in the parts, so the difference has the new frequency alone."""
    model = compvae.load("sines")
    before, after = (model.compose(parts).decode(8, seed=2) for parts in ({"3": 2}, {"3": 3}))
    linear = [np.arctanh(np.clip(x / k, -0.999, 0.999)) * k for x, k in ((before, 2), (after, 3))]
    spectrum = np.abs(np.fft.rfft(linear[1] - linear[0]))[:, 1:40]
    fresh = model.sample({"3": 3}, 8, seed=2, noise=False)
    assert (spectrum.argmax(1) == 5).all()  # two periods of 100 in 200 points: frequency 3 stands at 6
    assert np.abs(after - fresh).max() > 0.1
    removed = model.compose({"3": 2}).decode(8, seed=2)
    assert np.array_equal(removed, before)


def test_a_site_keeps_its_latent_by_its_key() -> None:
    model = compvae.load("colours")
    both = model.compose(SITES, keys=[4, 7]).decode(4)
    assert np.array_equal(model.compose(SITES[::-1], keys=[7, 4]).decode(4), both)
    assert not np.array_equal(model.compose(SITES, keys=[7, 4]).decode(4), both)
    for keys in ([1], [1, 1], [-1, 2], [1, 10**6]):
        with pytest.raises(PartsError, match="keys must"):
            model.compose(SITES, keys=keys)


def test_a_part_drawn_by_kind_keeps_its_latent_by_its_key() -> None:
    """Of `households`, whose parts are drawn kind by kind: keys name the homes."""
    model = compvae.load("households")
    feeder = {"flat": 2, "heat_pump": 1}
    three = model.compose(feeder, keys=[5, 9, 2]).decode(4)
    assert np.array_equal(model.compose(feeder, keys=[9, 5, 2]).decode(4), three)  # the same flats
    swapped = [{"profile": "heat_pump"}, {"profile": "flat"}, {"profile": "flat"}]
    assert np.array_equal(model.compose(swapped, keys=[2, 9, 5]).decode(4), three)
    assert not np.array_equal(model.compose(feeder, keys=[5, 8, 2]).decode(4), three)
    pieces = [model.compose(feeder, keys=[5, 9, 2]).piece(0), model.compose({"flat": 3}).piece(0)]
    assert np.array_equal(draw_joined(model.network, pieces, noise=False)[0][:4], three)
    for keys in ([1], [1, 1, 2], [-1, 2, 3], [1, 2, 10**6], ["a", "b", "c"], [0.5, 1, 2], [True, 2, 3], "123", 7):
        with pytest.raises(PartsError, match="keys must"):
            model.compose(feeder, keys=keys)  # type: ignore[arg-type]


def test_taking_away_the_part_of_a_key_takes_away_what_it_did() -> None:
    """sum(a, b, c) - sum(a, c) is what b does, whichever parts stand beside it."""
    numbers = [
        PartNoise(Noise(3, 50), KINDS.parse({"a": len(keys)}), keys, by_kind=True)
        .normal("w", 2, 3, dtype=torch.float64)[:, 0]
        .mul(len(keys) ** 0.5)
        for keys in ([4, 70, 8], [4, 8], [1, 70], [1])
    ]
    torch.testing.assert_close(numbers[0] - numbers[1], numbers[2] - numbers[3])
    assert (numbers[0] - numbers[1]).std() > 0.5


@pytest.mark.parametrize("keys", [[4, 70, 8], [0, 1, 2]])
def test_keys_leave_the_distribution_as_it_is(keys: list[int]) -> None:
    model = compvae.load("households")
    feeder = {"flat": 2, "heat_pump": 1}
    drawn, sampled = model.compose(feeder, keys=keys).decode(2000, seed=1), model.sample(feeder, 2000, noise=False)
    error = 5 * sampled.std(0) * (2 / 2000) ** 0.5
    assert (np.abs(drawn.mean(0) - sampled.mean(0)) < error).all()
    np.testing.assert_allclose(drawn.std(0), sampled.std(0), rtol=0.2)


def test_rows_that_are_run_together_are_those_run_alone() -> None:
    model = compvae.load("sines")
    assert can_join(model.network)
    assert not can_join(compvae.load("colours").network)
    given = [{"3": 2, "7": 1}, {"1": 70}, {"9": 1}, {"10": 4, "2": 3}]
    pieces = [model.compose(parts).piece(seed) for seed, parts in enumerate(given)]
    for noise in (False, True):
        together = draw_joined(model.network, pieces, noise)
        for seed, (parts, x) in enumerate(zip(given, together, strict=True)):
            assert np.array_equal(x, model.compose(parts).decode(LIVE_TILE, seed, noise))
    sampled = draw_joined(model.network, [model.compose(given[1]).piece(5, by_part=False)], noise=True)[0]
    assert np.array_equal(sampled, model.sample(given[1], LIVE_TILE, 5))
