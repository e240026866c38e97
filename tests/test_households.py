"""The feeder of households against direct evaluations, half-hour by half-hour, and against what is known of homes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compvae import problems
from compvae.errors import DataError, PartsError
from compvae.problems.households.profiles import PROFILES
from feeder_formula import Home, feeder

FEEDER = problems.get("households")
NAMES = tuple(PROFILES)
MIXED = dict.fromkeys(NAMES, 2)
COMPOSITIONS = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3), min_size=1, max_size=4)
SEEDS = st.integers(0, 2**40)
MILD, NO_MATCH, DULL, WORKDAY = 9.0, 0.0, 1.0, 0.0
PLAIN_DAY = {"temperature": MILD, "cloud": DULL, "match": NO_MATCH, "day_type": WORKDAY}
# kWh of a day and home, mean over days; where they come from stands in docs/households.md
ENERGY = {
    "flat": (4.5, 7.0),
    "family": (9.5, 12.5),
    "retired": (7.0, 9.5),
    "home_office": (8.5, 11.0),
    "heat_pump": (18.0, 25.0),
    "electric_car": (13.0, 17.0),
    "night_worker": (6.0, 8.0),
    "solar": (0.5, 4.0),
}


def day(**changes: float) -> dict[str, float]:
    return {**PLAIN_DAY, **changes}


def listed(parts: dict[str, int]) -> list[str]:
    return [name for name in NAMES for _ in range(parts.get(name, 0))]


# -- the whole is its formula ------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    parts=COMPOSITIONS,
    seed=SEEDS,
    temperature=st.floats(-15, 35, width=32),
    cloud=st.floats(0, 1, width=32),
    match=st.sampled_from([0.0, 1.0]),
    day_type=st.sampled_from([0.0, 1.0]),
)
def test_a_feeder_is_the_formula_evaluated_at_its_homes_and_its_day(parts, seed, temperature, cloud, match, day_type):
    specifics = FEEDER.specifics(parts, 2, seed)
    factors = {"temperature": temperature, "cloud": cloud, "match": match, "day_type": day_type}
    order = [name for name in parts for _ in range(parts[name])]
    expected = [feeder(order, row, **factors) for row in specifics]
    np.testing.assert_allclose(FEEDER.whole(parts, specifics, factors), expected, rtol=1e-4, atol=2e-4)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(parts=COMPOSITIONS, seed=SEEDS)
def test_the_truth_is_the_whole_of_its_specifics_and_its_days(parts, seed):
    x = FEEDER.truth(parts, 5, seed)
    again = FEEDER.whole(parts, FEEDER.specifics(parts, 5, seed), FEEDER.factors(5, seed))
    assert x.shape == (5, 48)
    assert x.dtype == np.float32
    np.testing.assert_allclose(x, again, rtol=1e-5, atol=1e-5)


def test_the_pulses_of_a_late_evening_go_on_in_the_morning():
    specifics = FEEDER.specifics({"electric_car": 1}, 400)
    chance, start, shift = (FEEDER.specific_names.index(n) for n in ("extra_chance", "extra_start", "shift"))
    specifics[:, :, [start, shift]] = 23.5 - 19.2, 0.0  # the car is plugged in at half past eleven, for 0.8 h or more
    x = FEEDER.whole({"electric_car": 1}, specifics, day())
    charging = specifics[:, 0, chance] < 0.6
    assert x[charging, 47].min() > 7.0
    assert x[charging, 0].min() > 0.6 * 7.0
    assert x[~charging].max(1).mean() < 4.0


# -- order, number, chunks ---------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=15)
@given(parts=COMPOSITIONS, seed=SEEDS, data=st.data())
def test_the_order_of_homes_does_not_change_a_byte(parts, seed, data):
    shuffled = data.draw(st.permutations(listed(parts)))
    homes = [{"profile": name} for name in shuffled]
    assert FEEDER.truth(homes, 3, seed).tobytes() == FEEDER.truth(parts, 3, seed).tobytes()


@pytest.mark.parametrize("parts", [{"flat": 1}, MIXED, {"flat": 300, "solar": 100}], ids=["1", "16", "400"])
def test_the_number_of_samples_does_not_change_a_row(parts):
    many = FEEDER.truth(parts, 300, seed=5)
    for n in (1, 10, 257):
        assert FEEDER.truth(parts, n, seed=5).tobytes() == many[:n].tobytes()
        for name, values in FEEDER.factors(n, seed=5).items():
            assert np.array_equal(values, FEEDER.factors(300, seed=5)[name][:n])


def test_homes_added_up_in_chunks_are_the_homes_listed_one_by_one():
    parts = {"flat": 30_000, "heat_pump": 10_000}  # more than are held at once
    x = FEEDER.truth(parts, 1, seed=3)
    again = FEEDER.whole(parts, FEEDER.specifics(parts, 1, seed=3), FEEDER.factors(1, seed=3))
    np.testing.assert_allclose(x, again, rtol=1e-6)


def test_a_quarter_of_a_million_homes_have_the_mean_of_a_thousand():
    held = FEEDER.factors(1, seed=2)
    large = FEEDER.truth({"flat": 200_000, "solar": 50_000}, 1, factors=held)[0] / 250_000
    small = FEEDER.truth({"flat": 800, "solar": 200}, 40, seed=9, factors={k: v[0] for k, v in held.items()}) / 1000
    assert np.abs(small.mean(0) - large).max() < 5 * (small.std(0) / math.sqrt(40)).max()


# -- homes as they are known -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_daily_energy_is_what_such_homes_use(name):
    energy = FEEDER.truth({name: 50}, 400, seed=1).sum(1) / 2 / 50
    low, high = ENERGY[name]
    assert low < energy.mean() < high


@pytest.mark.parametrize("name", NAMES)
def test_loads_are_positive_but_for_those_who_export(name):
    x = FEEDER.truth({name: 1}, 2000, seed=2)
    assert (x.min() < -0.5) if name == "solar" else (x.min() > 0.02)
    assert x.max() < 16  # below what a service fuse of 80 A lets through at 230 V, losses aside


def test_panels_give_nothing_at_night():
    x = FEEDER.truth({"solar": 1}, 1000, seed=2)
    assert x[:, :12].min() > 0
    assert x[:, 36:].min() > 0


@pytest.mark.parametrize("name", ["flat", "family", "heat_pump", "electric_car"])
def test_a_single_home_is_spiky_and_many_are_smooth(name):
    def peak_to_mean(x: np.ndarray) -> float:
        return float((x.max(1) / x.mean(1)).mean())

    one, many = FEEDER.truth({name: 1}, 300), FEEDER.truth({name: 300}, 30)
    assert peak_to_mean(one) > 1.4 * peak_to_mean(many)


def test_standby_a_morning_peak_and_a_higher_evening_peak():
    x = FEEDER.truth({"family": 500}, 4, factors=day())[:, :].mean(0) / 500
    night, morning, noon, evening = x[4:10].mean(), x[12:17].max(), x[20:24].mean(), x[34:42].max()
    assert 0.1 < night < 0.25
    assert night < noon < morning < evening


# -- what homes share --------------------------------------------------------------------------------------------


def on(name: str, count: int = 400, **changes: float) -> np.ndarray:
    """The mean home of a profile on one day, the same homes whatever the day, (48,)."""
    return FEEDER.truth({name: count}, 1, factors=day(**changes))[0] / count


@pytest.mark.parametrize("name", NAMES)
def test_the_cold_is_felt_by_all_and_most_by_heat_pumps(name):
    mild, cold, freezing = (on(name, temperature=t).sum() / 2 for t in (12.0, 3.0, -6.0))
    assert mild < cold < freezing
    if name == "heat_pump":
        assert freezing - mild > 25  # kWh
    else:
        assert freezing - mild < 3


@pytest.mark.parametrize("name", NAMES)
def test_clouds_are_felt_by_panels_alone(name):
    clear, dull = on(name, cloud=0.0), on(name, cloud=1.0)
    if name == "solar":
        yields = 0.6 * 12 / math.pi * math.sqrt(math.pi) * math.gamma(1.25) / math.gamma(1.75)  # kWh/kWp, a clear day
        assert abs((dull - clear).sum() / 2 - 3 * 0.75 * yields) < 0.4  # 3 kWp; losses move it a little
    else:
        assert np.array_equal(clear, dull)


@pytest.mark.parametrize("name", NAMES)
def test_a_match_raises_the_evening_and_most_at_half_time(name):
    more = on(name, match=1.0) - on(name)
    watching = PROFILES[name].watching
    np.testing.assert_allclose(more[:40], 0, atol=1e-6)
    np.testing.assert_allclose(more[44:], 0, atol=1e-6)
    assert more[41] > more[40] > 0
    # 0.1 kW for two hours and two kettles of 2.6 kW for 0.03 h, and the losses on top of them
    assert 0.8 * watching * 0.356 < more.sum() / 2 < 1.35 * watching * 0.356


def test_a_weekend_changes_the_morning_of_those_who_work():
    workday, weekend = on("flat"), on("flat", day_type=1.0)
    assert workday[13:15].mean() > weekend[13:15].mean() + 0.1
    assert weekend[17:20].mean() > workday[17:20].mean() + 0.1


def test_losses_make_the_whole_more_than_the_sum_of_its_parts():
    specifics = FEEDER.specifics(MIXED, 50)
    x = FEEDER.whole(MIXED, specifics, day(cloud=0.0))
    loads = [
        sum(Home(n, h).load(**day(cloud=0.0)) for n, h in zip(listed(MIXED), row, strict=True)) for row in specifics
    ]
    losses = x - np.array(loads)
    assert losses.min() > -1e-3
    assert 0.005 < losses.sum() / np.sum(loads) < 0.05


def test_what_homes_share_makes_the_variance_grow_like_the_square_of_their_number():
    variance = {}
    for count in (1, 10, 125):
        x = FEEDER.truth(dict.fromkeys(NAMES, count), 500, seed=4) / (8 * count)
        independent = sum(FEEDER.truth({name: 1}, 1500, seed=7).var(0) for name in NAMES) / (64 * count)
        variance[8 * count] = x.var(0).mean(), independent.mean()
    # within a feeder of one home of each profile independence is nearly right, in one of a thousand it is not at all
    assert 0.7 < variance[8][0] / variance[8][1] < 1.4
    assert variance[1000][0] / variance[1000][1] > 10
    assert variance[1000][0] > 0.5 * variance[80][0]
    # given the day, homes are independent: Var(x/K) falls like 1/K
    held = [(FEEDER.truth(dict.fromkeys(NAMES, c), 500, factors=day()) / (8 * c)).var(0).mean() for c in (2, 50)]
    assert 20 < held[0] / held[1] < 31


# -- days and context --------------------------------------------------------------------------------------------


def test_days_have_their_distribution():
    n = 20_000
    days = FEEDER.factors(n, seed=11)
    assert list(days) == ["temperature", "cloud", "match", "day_type"]
    se = 1 / math.sqrt(n)
    assert abs(days["temperature"].mean() - 9) < 4.5 * 5.5 * se
    assert abs(days["temperature"].std() - 5.5) < 4.5 * 5.5 * se
    assert abs(days["cloud"].mean() - 0.75) < 4.5 * 0.2 * se
    assert abs(days["match"].mean() - 0.2) < 4.5 * 0.4 * se
    assert abs(days["day_type"].mean() - 2 / 7) < 4.5 * 0.46 * se
    assert np.abs(np.corrcoef(np.stack(list(days.values()))) - np.eye(4)).max() < 4.5 * se
    assert set(days["match"]) == set(days["day_type"]) == {0, 1}


def test_a_known_covariate_is_held_and_leaves_the_others_as_they_were():
    free = FEEDER.factors(50, seed=3)
    cold = FEEDER.factors(50, seed=3, context={"temperature": -5})
    sunday = FEEDER.factors(50, seed=3, context={"day_type": "weekend", "temperature": None})
    assert (cold["temperature"] == -5).all()
    assert (sunday["day_type"] == 1).all()
    assert np.array_equal(sunday["temperature"], free["temperature"])
    for name in ("cloud", "match"):
        assert np.array_equal(cold[name], free[name])
    x = FEEDER.truth(MIXED, 50, seed=3, context={"temperature": -5})
    assert np.array_equal(x, FEEDER.truth(MIXED, 50, seed=3, factors=cold))


def test_context_of_all_covariates_mixes_to_the_truth():
    """P(x) = sum over day types of P(day type) P(x | day type), seen in the mean curve."""
    n, parts = 3000, {"flat": 3, "night_worker": 2}
    mixed = FEEDER.truth(parts, n, seed=1)
    workday, weekend = (FEEDER.truth(parts, n, seed=2, context={"day_type": d}) for d in ("workday", "weekend"))
    expected = 5 / 7 * workday.mean(0) + 2 / 7 * weekend.mean(0)
    assert np.abs(mixed.mean(0) - expected).max() < 5 * mixed.std(0).max() * math.sqrt(2 / n)


def test_a_counterfactual_holds_the_day_and_the_untouched_homes():
    """10 of 40 flats get heat pumps, on the same day."""
    before, after = {"flat": 40, "family": 5}, [*["flat"] * 30, *["family"] * 5, *["heat_pump"] * 10]
    days = FEEDER.factors(1, seed=8, context={"temperature": -2})
    homes = np.repeat(FEEDER.specifics(before, 1, seed=8), 20, axis=0)
    new = FEEDER.specifics({"heat_pump": 10}, 20, seed=9)
    mixed = np.concatenate([homes[:, :30], homes[:, 40:], new], axis=1)
    x = FEEDER.whole([{"profile": name} for name in after], mixed, {k: v[0] for k, v in days.items()})
    expected = [feeder(after, row, **{k: float(v[0]) for k, v in days.items()}) for row in mixed]
    np.testing.assert_allclose(x, expected, rtol=1e-4, atol=1e-3)
    fresh = FEEDER.truth({"flat": 30, "family": 5, "heat_pump": 10}, 200, seed=10)
    assert x.std(0).mean() < 0.5 * fresh.std(0).mean()


# -- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("context", "match"),
    [
        ({"temperature": 80}, r"temperature is 80\.0, it must be in \[-15, 35\]"),
        ({"temperature": math.nan}, "temperature"),
        ({"day_type": "holiday"}, "'holiday' is unknown, it must be one of workday, weekend"),
        ({"cloud": 0.5}, "unknown covariate 'cloud', the covariates are day_type, temperature"),
        (["temperature"], "must be a mapping"),
    ],
    ids=str,
)
def test_bad_context_is_refused(context, match):
    with pytest.raises(PartsError, match=match):
        FEEDER.truth({"flat": 1}, 2, context=context)


@pytest.mark.parametrize(
    ("factors", "match"),
    [
        ({}, r"factors of households \(temperature, cloud, match, day_type\)"),
        (None, "must be a mapping"),
        ({**PLAIN_DAY, "wind": 1.0}, "must be a mapping with the factors"),
        (day(temperature=80.0), r"factor temperature must be in \[-15, 35\], got 80"),
        (day(match=0.5), r"factor match must be 0\.\.1, got 0\.5"),
        (day(cloud=math.nan), "factor cloud holds NaN"),
        ({**PLAIN_DAY, "cloud": np.zeros(3)}, r"factor cloud must be a number or have shape \(2,\), got \(3,\)"),
    ],
    ids=str,
)
def test_bad_days_are_refused(factors, match):
    with pytest.raises(DataError, match=match):
        FEEDER.whole({"flat": 1}, FEEDER.specifics({"flat": 1}, 2), factors)
    if factors is not None:
        with pytest.raises(DataError, match=match):
            FEEDER.truth({"flat": 1}, 2, factors=factors)


def test_a_day_and_a_context_at_once_are_refused():
    with pytest.raises(DataError, match="context or factors, not both"):
        FEEDER.truth({"flat": 1}, 2, context={"temperature": 3}, factors=day())


def test_curves_share_nothing():
    sines = problems.get("sines")
    assert sines.factors(3) == {}
    assert sines.context == sines.shared == ()
    with pytest.raises(DataError, match=r"factors of sines \(none\)"):
        sines.truth({"3": 1}, 2, factors=day())
