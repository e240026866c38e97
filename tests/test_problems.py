"""The built-in problems against direct evaluations of their formulas, loop by loop."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compvae import problems
from compvae.batch import CountedParts, PaddedParts
from compvae.errors import ConfigError, DataError, PartsError
from compvae.noise import Noise

SINES, COLOURS, TINY = problems.get("sines"), problems.get("colours"), problems.get("colours", size=5)
PALETTE = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "black": (0, 0, 0), "white": (1, 1, 1)}

CURVES = st.lists(st.integers(1, 10), min_size=1, max_size=12)
SITE = st.fixed_dictionaries(
    {"colour": st.sampled_from(sorted(PALETTE)), "x": st.floats(-1, 1, width=32), "y": st.floats(-1, 1, width=32)}
)
SCENES = st.lists(SITE, min_size=1, max_size=6)
SEEDS = st.integers(0, 2**40)


def waves(frequencies: list[int]) -> list[dict[str, object]]:
    return [{"frequency": f} for f in frequencies]


def curve(frequencies, specifics, C=3.0, timesteps=200, resolution=100) -> np.ndarray:
    """x(t) = K tanh(C/K sum_i a_i cos(2 pi l_i t / resolution + k_i)), one t and one part after the other."""
    x = np.zeros(timesteps)
    for t in range(timesteps):
        total = 0.0
        for frequency, (amplitude, phase) in zip(frequencies, specifics.tolist(), strict=True):  # in float64
            total += amplitude * math.cos(2 * math.pi * frequency * t / resolution + phase)
        x[t] = len(frequencies) * math.tanh(C / len(frequencies) * total)
    return x


def image(sites, specifics, size: int) -> np.ndarray:
    """Softmax of -sharpness times squared distance, colour mix, gamma; one pixel after the other."""
    x = np.zeros((3, size, size))
    for row in range(size):
        for column in range(size):
            across, down = -1 + 2 * column / (size - 1), -1 + 2 * row / (size - 1)
            logits = [
                -float(sharpness) * ((across - site["x"]) ** 2 + (down - site["y"]) ** 2)
                for site, (sharpness,) in zip(sites, specifics, strict=True)
            ]
            weights = [math.exp(logit - max(logits)) for logit in logits]
            for channel in range(3):
                mix = sum(w * PALETTE[site["colour"]][channel] for w, site in zip(weights, sites, strict=True))
                x[channel, row, column] = min(1.0, (mix / sum(weights)) ** (1 / 2.4))
    return x


def drawn_sizes(problem, max_parts: int, rows: int, min_parts: int = 1) -> list[float]:
    return problem.draw(max_parts, Noise(0, rows), min_parts).parts.sizes.tolist()


# -- sines -------------------------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=60)
@given(frequencies=CURVES, seed=SEEDS, n=st.integers(1, 5))
def test_curves_have_their_shape_their_period_and_their_bound(frequencies, seed, n):
    x = SINES.truth(waves(frequencies), n, seed)
    assert x.shape == (n, 200)
    assert x.dtype == np.float32
    np.testing.assert_allclose(x[:, 100:], x[:, :100], atol=2e-5 * len(frequencies))
    assert np.abs(x).max() <= len(frequencies)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(frequencies=CURVES, seed=SEEDS)
def test_curves_are_the_formula_evaluated_at_their_specifics(frequencies, seed):
    parts = waves(frequencies)
    specifics = SINES.specifics(parts, 2, seed)
    assert specifics.shape == (2, len(frequencies), 2)
    expected = np.array([curve(frequencies, row) for row in specifics])
    np.testing.assert_allclose(SINES.whole(parts, specifics), expected, atol=1e-4)
    assert SINES.truth(parts, 2, seed).tobytes() == SINES.whole(parts, specifics).tobytes()


@settings(derandomize=True, deadline=None, max_examples=30)
@given(frequencies=CURVES, seed=SEEDS, data=st.data())
def test_the_order_of_waves_does_not_change_a_byte(frequencies, seed, data):
    shuffled = data.draw(st.permutations(frequencies))
    counts = {str(f): frequencies.count(f) for f in shuffled}
    expected = SINES.truth(waves(frequencies), 3, seed).tobytes()
    assert SINES.truth(waves(shuffled), 3, seed).tobytes() == expected
    assert SINES.truth(counts, 3, seed).tobytes() == expected


@pytest.mark.parametrize("problem", [SINES, TINY], ids=["sines", "colours"])
def test_the_number_of_samples_does_not_change_a_row(problem):
    parts = (
        {"3": 2, "7": 1}
        if problem is SINES
        else [{"colour": "red", "x": 0, "y": 0.5}, {"colour": "blue", "x": 0, "y": 0}]
    )
    many = problem.truth(parts, 300, seed=5)
    for n in (1, 10, 257):
        assert problem.truth(parts, n, seed=5).tobytes() == many[:n].tobytes()
    assert len({row.tobytes() for row in many}) == 300


def test_other_seeds_give_other_curves():
    assert not np.array_equal(SINES.truth({"3": 1}, 5, seed=0), SINES.truth({"3": 1}, 5, seed=1))
    assert SINES.truth({"3": 1}, 5).tobytes() == SINES.truth({"3": 1}, 5, seed=0).tobytes()


def test_specifics_follow_the_parts_into_the_order_of_the_caller():
    parts = waves([7, 3, 10, 3, 1])
    specifics = SINES.specifics(parts, 4)
    order = [4, 1, 3, 0, 2]
    moved = waves([1, 3, 3, 7, 10])
    assert np.array_equal(SINES.specifics(moved, 4), specifics[:, order])
    assert SINES.whole(moved, specifics[:, order]).tobytes() == SINES.whole(parts, specifics).tobytes()


@pytest.mark.parametrize(
    "chosen",
    [{"C": 0.5}, {"timesteps": 37}, {"resolution": 64}, {"timesteps": 50, "resolution": 25, "C": 10.0}],
    ids=str,
)
def test_curves_respect_their_settings(chosen):
    problem = problems.get("sines", **chosen)
    frequencies = [2, 2, 9]
    specifics = problem.specifics(waves(frequencies), 3)
    expected = np.array([curve(frequencies, row, **chosen) for row in specifics])
    assert problem.shape == (chosen.get("timesteps", 200),)
    np.testing.assert_allclose(problem.whole(waves(frequencies), specifics), expected, atol=1e-4)


@pytest.mark.parametrize("phase_std", [0.8, math.pi / 2, 0.1])
def test_phases_have_their_standard_deviation_and_amplitudes_theirs(phase_std):
    amplitude, phase = problems.get("sines", phase_std=phase_std).specifics({"3": 5}, 2000).reshape(-1, 2).T
    n = amplitude.size
    for values, mean, std in ((amplitude, 1.0, 0.3), (phase, 0.0, phase_std)):
        assert abs(values.mean() - mean) < 4.5 * std / math.sqrt(n)
        assert abs(values.std() - std) < 4.5 * std / math.sqrt(2 * n)
        assert abs((((values - mean) / std) ** 3).mean()) < 4.5 * math.sqrt(15 / n)
    assert abs(np.corrcoef(amplitude, phase)[0, 1]) < 4.5 / math.sqrt(n)


def test_without_phase_noise_every_wave_starts_at_its_crest():
    problem = problems.get("sines", phase_std=0)
    assert not problem.specifics({"3": 1, "5": 1}, 50)[:, :, 1].any()


def test_the_specifics_of_two_parts_of_a_whole_are_independent():
    specifics = SINES.specifics({"3": 2}, 20_000)
    for s in range(2):
        assert abs(np.corrcoef(specifics[:, 0, s], specifics[:, 1, s])[0, 1]) < 4.5 / math.sqrt(20_000)


def test_all_ten_frequencies_are_drawn_equally_often():
    counts = SINES.draw(16, Noise(0, 2000)).parts.counts.sum(0).numpy()
    expected = counts.sum() / 10
    assert counts.shape == (10,)
    assert ((counts - expected) ** 2 / expected).sum() < 9 + 4.5 * math.sqrt(18)


def test_drawn_curves_are_counted_and_have_finite_values_within_their_bound():
    batch = SINES.draw(16, Noise(1, 300))
    assert isinstance(batch.parts, CountedParts)
    assert batch.x.shape == (300, 200)
    assert bool((batch.x.abs() <= batch.parts.sizes[:, None].float()).all())


def test_a_drawn_curve_does_not_depend_on_its_neighbours():
    rows = torch.arange(100, 140)
    together, alone = SINES.draw(16, Noise(1, rows)), SINES.draw(16, Noise(1, rows[7:9]))
    assert torch.equal(together.parts.counts[7:9], alone.parts.counts)
    torch.testing.assert_close(together.x[7:9], alone.x, rtol=0, atol=1e-4)


# -- counterfactuals ---------------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=30)
@given(frequencies=st.lists(st.integers(1, 10), min_size=2, max_size=8), seed=SEEDS, data=st.data())
def test_leaving_out_a_wave_gives_the_exact_curve_of_the_rest(frequencies, seed, data):
    gone = data.draw(st.integers(0, len(frequencies) - 1))
    rest = [f for i, f in enumerate(frequencies) if i != gone]
    held = np.delete(SINES.specifics(waves(frequencies), 2, seed), gone, axis=1)
    expected = np.array([curve(rest, row) for row in held])
    np.testing.assert_allclose(SINES.whole(waves(rest), held), expected, atol=1e-4)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(sites=st.lists(SITE, min_size=2, max_size=5), seed=SEEDS, data=st.data())
def test_leaving_out_a_site_gives_the_exact_image_of_the_rest(sites, seed, data):
    gone = data.draw(st.integers(0, len(sites) - 1))
    rest = [site for i, site in enumerate(sites) if i != gone]
    held = np.delete(TINY.specifics(sites, 2, seed), gone, axis=1)
    expected = np.array([image(rest, row, 5) for row in held])
    np.testing.assert_allclose(TINY.whole(rest, held).astype(np.float64) ** 2.4, expected**2.4, atol=1e-5)


# -- colours -----------------------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=40)
@given(sites=SCENES, seed=SEEDS)
def test_images_are_the_formula_evaluated_at_their_specifics(sites, seed):
    specifics = TINY.specifics(sites, 2, seed)
    assert specifics.shape == (2, len(sites), 1)
    x = TINY.whole(sites, specifics)
    expected = np.array([image(sites, row, 5) for row in specifics])
    # In front of the gamma, whose slope is infinite at 0, float32 is good to 1e-5.
    np.testing.assert_allclose(x.astype(np.float64) ** 2.4, expected**2.4, atol=1e-5)
    assert TINY.truth(sites, 2, seed).tobytes() == x.tobytes()


@settings(derandomize=True, deadline=None, max_examples=30)
@given(sites=SCENES, seed=SEEDS)
def test_images_have_their_shape_and_lie_between_0_and_1(sites, seed):
    x = COLOURS.truth(sites, 2, seed)
    assert x.shape == (2, 3, 32, 32)
    assert x.dtype == np.float32
    assert 0 <= x.min() <= x.max() <= 1


@pytest.mark.parametrize("colour", sorted(PALETTE))
def test_one_site_gives_a_constant_image_of_its_colour(colour):
    x = COLOURS.truth([{"colour": colour, "x": 0.3, "y": -0.7}], 4)
    np.testing.assert_allclose(x, np.broadcast_to(np.array(PALETTE[colour])[:, None, None], x.shape), atol=1e-6)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(sites=SCENES, colour=st.sampled_from(sorted(PALETTE)), seed=SEEDS)
def test_sites_of_one_colour_give_a_constant_image(sites, colour, seed):
    x = COLOURS.truth([{**site, "colour": colour} for site in sites], 2, seed)
    np.testing.assert_allclose(x, np.broadcast_to(np.array(PALETTE[colour])[:, None, None], x.shape), atol=1e-6)


def test_x_counts_columns_to_the_right():
    left_red = [{"colour": "red", "x": -0.9, "y": 0}, {"colour": "blue", "x": 0.9, "y": 0}]
    red, _, blue = COLOURS.truth(left_red, 1)[0]
    assert red[:, :8].min() > 0.99 > 0.1 > red[:, -8:].max()
    assert blue[:, -8:].min() > 0.99 > 0.1 > blue[:, :8].max()


def test_y_counts_rows_downward():
    top_red = [{"colour": "red", "x": 0, "y": -0.9}, {"colour": "blue", "x": 0, "y": 0.9}]
    red, _, blue = COLOURS.truth(top_red, 1)[0]
    assert red[:8].min() > 0.99 > 0.1 > red[-8:].max()
    assert blue[-8:].min() > 0.99 > 0.1 > blue[:8].max()


@settings(derandomize=True, deadline=None, max_examples=30)
@given(sites=SCENES, seed=SEEDS, data=st.data())
def test_the_order_of_sites_does_not_change_a_byte(sites, seed, data):
    shuffled = data.draw(st.permutations(sites))
    assert TINY.truth(shuffled, 2, seed).tobytes() == TINY.truth(sites, 2, seed).tobytes()


def test_sharpness_is_uniform_between_5_and_10():
    site = {"colour": "red", "x": 0, "y": 0}
    sharpness = np.sort(COLOURS.specifics([{**site, "count": 4}], 5000).ravel())
    assert 5 <= sharpness[0] < 5.01
    assert 9.99 < sharpness[-1] <= 10
    exact = (sharpness - 5) / 5
    gap = np.abs(np.arange(1, len(exact) + 1) / len(exact) - exact).max()
    assert gap < 1.95 / math.sqrt(len(exact))


def test_drawn_sites_lie_within_nine_tenths_and_have_all_colours():
    parts = COLOURS.draw(8, Noise(0, 1500)).parts
    assert isinstance(parts, PaddedParts)
    places = parts.features[parts.mask]
    assert 0.89 < float(places.abs().max()) <= 0.9
    assert float(places.min()) < -0.89
    n = len(places)
    assert bool((places.mean(0).abs() < 4.5 * 0.9 / math.sqrt(3 * n)).all())
    assert bool(((places**2).mean(0) - 0.27).abs().max() < 4.5 * 0.81 * math.sqrt(4 / 45 / n))
    counts = parts.counts.sum(0)
    assert float(((counts - n / 5) ** 2 / (n / 5)).sum()) < 4 + 4.5 * math.sqrt(8)


def test_a_drawn_image_is_the_image_of_its_parts():
    noise = Noise(4, 20)
    batch = TINY.draw(8, noise)
    specifics = TINY.draw_specifics(batch.parts, noise)
    for row in range(20):
        k = int(batch.parts.sizes[row])
        sites = [
            {"colour": list(PALETTE)[kind], "x": x, "y": y}
            for kind, (x, y) in zip(
                batch.parts.kind[row, :k].tolist(), batch.parts.features[row, :k].tolist(), strict=True
            )
        ]
        expected = image(sites, specifics[row, :k].tolist(), 5)
        np.testing.assert_allclose(batch.x[row].double().numpy() ** 2.4, expected**2.4, atol=1e-5)


# -- drawing and refusing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", [SINES, TINY], ids=["sines", "colours"])
@pytest.mark.parametrize(("low", "high"), [(1, 1), (1, 8), (3, 5)])
def test_drawn_sizes_are_uniform_on_their_range(problem, low, high):
    sizes = drawn_sizes(problem, high, 4000, low)
    expected = 4000 / (high - low + 1)
    assert sorted(set(sizes)) == list(range(low, high + 1))
    chi_square = sum((sizes.count(k) - expected) ** 2 / expected for k in range(low, high + 1))
    assert chi_square <= (high - low) + 4.5 * math.sqrt(2 * (high - low))


def test_the_problems_are_found_by_name():
    assert set(problems.PROBLEMS) >= {"sines", "colours"}
    assert SINES.name == "sines"
    assert COLOURS.shape == (3, 32, 32)
    assert SINES.schema.categories == tuple(str(f) for f in range(1, 11))
    assert [a.name for a in COLOURS.schema.attributes] == ["colour", "x", "y"]


@pytest.mark.parametrize("name", ["sine", "", "Sines", None, 3, ["sines"]])
def test_an_unknown_problem_is_refused_with_the_known_ones(name):
    with pytest.raises(ConfigError, match=r"is unknown, the problems are .*sines.*colours") as caught:
        problems.get(name)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("sines", {"phase_std": -0.1}),
        ("sines", {"phase_std": math.nan}),
        ("sines", {"phase_std": math.inf}),
        ("sines", {"C": 0}),
        ("sines", {"C": "much"}),
        ("sines", {"timesteps": 0}),
        ("sines", {"timesteps": 2.5}),
        ("sines", {"resolution": None}),
        ("sines", {"resolution": 10**9}),
        ("sines", {"size": 32}),
        ("colours", {"size": 1}),
        ("colours", {"size": 10_000}),
        ("colours", {"phase_std": 0.8}),
    ],
    ids=str,
)
def test_bad_settings_are_refused_and_named(name, chosen):
    with pytest.raises(ConfigError) as caught:
        problems.get(name, **chosen)
    for word in (name, *chosen):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_covariates_for_a_problem_without_any_are_refused():
    with pytest.raises(PartsError, match="problem sines has no covariates"):
        SINES.truth({"3": 1}, 5, context={"temperature": 3})
    assert SINES.truth({"3": 1}, 5, context={}).shape == (5, 200)


@pytest.mark.parametrize("n", [0, -1, 2.5, "3", None, math.nan, [3]])
def test_a_number_of_samples_that_is_no_number_of_samples_is_refused(n):
    for call in (SINES.truth, SINES.specifics):
        with pytest.raises(DataError, match="n must be") as caught:
            call({"3": 1}, n)
        assert repr(n) in str(caught.value)


@pytest.mark.parametrize("seed", [None, "x", math.nan, [1]])
def test_a_seed_that_is_no_integer_is_refused(seed):
    with pytest.raises(DataError, match="seed"):
        SINES.truth({"3": 1}, 2, seed=seed)


@pytest.mark.parametrize("shape", [(4, 3, 1), (4, 2, 2), (3, 2), (4, 3, 2, 1), (0,), ()])
def test_specifics_of_the_wrong_shape_are_refused(shape):
    with pytest.raises(DataError, match=r"specifics must have shape \(n, 3, 2\)"):
        SINES.whole({"3": 2, "7": 1}, np.ones(shape))


@pytest.mark.parametrize(
    "specifics", [None, "ab", np.full((1, 1, 2), math.nan), np.full((1, 1, 2), math.inf), np.full((1, 1, 2), "a")]
)
def test_specifics_that_are_no_finite_numbers_are_refused(specifics):
    with pytest.raises(DataError, match="specifics"):
        SINES.whole({"3": 1}, specifics)


def test_compositions_are_checked_before_anything_is_drawn():
    for call in (lambda parts: SINES.truth(parts, 2), lambda parts: SINES.whole(parts, np.ones((1, 1, 2)))):
        with pytest.raises(PartsError, match="'11' is unknown"):
            call({"11": 1})


def test_a_composition_too_large_for_exact_samples_is_refused():
    with pytest.raises(PartsError, match="cannot be listed one by one"):
        SINES.truth({"3": 10**8}, 1)
