"""Groups of homes on the same day, against sums of the file's own readings."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch

from compvae.context import encode_context
from compvae.data.split import held_out
from compvae.errors import DataError
from compvae.noise import Noise
from compvae.problems.meters import MeterGroups
from compvae.problems.own import own_data
from meter_files import START, loads, name, write_all, write_long

HOMES, DAYS = 24, 20


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> MeterGroups:
    files = write_all(tmp_path_factory.mktemp("meters"), HOMES, DAYS)
    return own_data(*(str(files[key]) for key in ("meters", "homes", "days"))).open()


KW = loads(HOMES, DAYS)  # hourly: kWh of a reading and mean kW are the same number
DATES = [f"{START + timedelta(days=i):%Y-%m-%d}" for i in range(DAYS)]


def solve(x: np.ndarray, homes: list[int], days: list[int]) -> tuple[int, list[int]]:
    """The day and the homes whose sum is x: least squares on each day, the coefficients must come out 0 or 1."""
    for day in days:
        found, *_ = np.linalg.lstsq(KW[homes, day].T, x, rcond=None)
        near = np.round(found)
        if np.allclose(KW[homes, day].T @ near, x, atol=1e-3) and set(near.tolist()) <= {0.0, 1.0}:
            return day, [homes[i] for i in np.flatnonzero(near)]
    raise AssertionError("x is no sum of homes on one day")


def of(source: MeterGroups, held: bool) -> tuple[list[int], list[int]]:
    homes = [h for h in range(HOMES) if source.held_homes[source.days.meters.index(name(h))] == held]
    return homes, [d for d in range(DAYS) if source.held_days[d] == held]


@pytest.mark.parametrize("held", [False, True])
def test_a_whole_is_the_sum_of_different_homes_on_one_day_and_neighbours_share_the_day_not_the_homes(
    source: MeterGroups, held: bool
) -> None:
    homes, days = of(source, held)
    batch = source.draw_held_out(Noise(3, 64, 5)) if held else source.draw(8, Noise(3, 64, 5))
    assert batch.shared is not None
    together: dict[int, list[tuple[int, list[int]]]] = {}
    for x, counts, group in zip(batch.x.numpy(), batch.parts.counts.tolist(), batch.shared.group.tolist(), strict=True):
        day, used = solve(x, homes, days)
        assert counts == [sum(h % 2 == 1 for h in used), sum(h % 2 == 0 for h in used)]  # large, small
        together.setdefault(group, []).append((day, used))
    assert max(map(len, together.values())) > 1
    for members in together.values():
        assert len({day for day, _ in members}) == 1
        everyone = [home for _, used in members for home in used]
        if len(homes) >= 4:
            assert len(everyone) == len(set(everyone))


def test_a_row_depends_on_its_seed_and_number_alone(source: MeterGroups) -> None:
    all_rows, some = Noise(1, 32, 7), Noise(1, torch.arange(12, 20), 7)
    whole, part = source.draw(10, all_rows), source.draw(10, some)
    assert torch.equal(whole.x[12:20], part.x)
    assert torch.equal(whole.parts.counts[12:20], part.parts.counts)
    assert whole.context is not None
    assert part.context is not None
    assert torch.equal(whole.context[12:20], part.context)
    assert not torch.equal(whole.x, source.draw(10, Noise(2, 32, 7)).x)


def test_sizes_are_log_uniform_where_a_row_has_all_homes_of_its_day(source: MeterGroups) -> None:
    batch = source.draw(source.max_parts, Noise(0, 8000, 1))
    assert batch.shared is not None
    alone = batch.shared.members[batch.shared.group] == 1
    sizes = batch.parts.sizes[alone]
    top = source.max_parts
    expected = torch.tensor([np.log((k + 1) / k) / np.log(top + 1) for k in range(1, top + 1)])
    share = torch.bincount(sizes.long(), minlength=top + 1)[1:] / len(sizes)
    assert (share - expected).abs().max() < 4 * float((0.25 / len(sizes)) ** 0.5)


def test_mixtures_of_profiles_range_from_even_to_one_kind(source: MeterGroups) -> None:
    batch = source.draw(source.max_parts, Noise(0, 2000, 1))
    large = (batch.parts.counts[:, 0] / batch.parts.sizes)[batch.parts.sizes == 4]
    assert {0.0, 0.5, 1.0} <= set(large.tolist())
    assert abs(float(large.mean()) - 0.5) < 0.1


def test_context_is_that_of_the_day_hidden_half_of_the_time_and_unknown_where_it_is(source: MeterGroups) -> None:
    batch = source.draw(4, Noise(0, 400, 2))
    homes, days = of(source, False)
    assert batch.context is not None
    known = batch.context[:, 0] > 0
    assert 0.4 < float(known.float().mean()) < 0.6
    for x, code in zip(batch.x.numpy()[:40], batch.context[:40], strict=True):
        day, _ = solve(x, homes, days)
        kind = "weekend" if (START + timedelta(days=day)).weekday() > 4 else "weekday"
        given = {"temperature": 10 + day / 2 if code[0] else None, "day_type": kind if code[2] else None}
        assert day != 1 or not (code[0] or code[2])  # the second day has no context
        torch.testing.assert_close(code, encode_context(source.context, given))


def test_a_fifth_is_held_out_by_hash_of_each_profile(source: MeterGroups) -> None:
    assert source.held_days.sum() == round(DAYS / 5)
    by_profile = np.bincount(source.profiles.of[source.held_homes], minlength=2)
    assert by_profile.tolist() == [round(HOMES / 10)] * 2
    names = [f"n{i}" for i in range(50)]
    first, again, other = (held_out(names, "home", seed) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()
    more = held_out([*names, "late"], "home", 0)[:50]
    assert (first & ~more).sum() <= 1  # a name that comes later moves at most one of the others


def test_held_out_wholes_and_the_same_homes_each_on_its_own_day(source: MeterGroups) -> None:
    homes, days = of(source, True)
    wholes = source.held_out(20, 3, seed=5)
    apart = source.held_out(20, 3, seed=5, together=False)
    assert wholes.homes == apart.homes
    assert wholes.parts == apart.parts
    for x, used, date, parts, context in zip(
        wholes.x, wholes.homes, wholes.dates, wholes.parts, wholes.context, strict=True
    ):
        numbers = [int(meter[1:]) for meter in used]
        day = DATES.index(date)
        assert set(numbers) <= set(homes)
        assert day in days
        np.testing.assert_allclose(x, KW[numbers, day].sum(0), rtol=1e-5)
        assert parts == {"large": sum(n % 2 for n in numbers), "small": sum(n % 2 == 0 for n in numbers)}
        assert context is None if day == 1 else context["temperature"] == 10 + day / 2
    assert apart.context == [None] * 20
    other = sum(not np.allclose(a, b) for a, b in zip(apart.x, wholes.x, strict=True))
    assert other > 10
    for x, used in zip(apart.x, apart.homes, strict=True):  # each home on one of the held-out days
        numbers = [int(meter[1:]) for meter in used]
        choices = [KW[numbers[0], a] + KW[numbers[1], b] + KW[numbers[2], c] for a in days for b in days for c in days]
        assert min(np.abs(x - choice).max() for choice in choices) < 1e-4


def test_independent_days_lose_the_variance_that_homes_share(source: MeterGroups) -> None:
    ask = {"homes": "all", "days": "all", "seed": 1}
    together, apart = (source.held_out(400, 16, together=flag, **ask).x.sum(1) for flag in (True, False))
    assert apart.var() < 0.5 * together.var()
    assert abs(apart.mean() / together.mean() - 1) < 0.1


def test_more_homes_than_there_are_is_an_error(source: MeterGroups) -> None:
    with pytest.raises(DataError, match="no day has readings of 23 such homes"):
        source.held_out(5, 23)
    with pytest.raises(DataError, match="homes must be training, held_out or all"):
        source.held_out(5, 2, homes="some")


def test_bands_are_quantiles_of_the_training_homes_with_their_limits_recorded(tmp_path: Path) -> None:
    kwh = loads(HOMES, DAYS) * np.linspace(1, 3, HOMES)[:, None, None]
    source = own_data(str(write_long(tmp_path / "m.csv", kwh)), "auto:4").open()
    assert source.schema.categories == ("band1", "band2", "band3", "band4")
    limits = source.about()["band_limits_kwh_a_day"]
    training, days = of(source, False)
    daily = kwh[:, days].sum(2).mean(1)
    np.testing.assert_allclose(limits, np.quantile(daily[training], (0.25, 0.5, 0.75)), rtol=1e-4)
    bands = [sum(energy > limit for limit in limits) for energy in daily]
    assert source.profiles.of.tolist() == [bands[int(meter[1:])] for meter in source.days.meters]
    assert source.about()["split"]["held_out_homes"] == [name(h) for h in of(source, True)[0]]


def test_very_many_homes_are_drawn_through_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compvae.problems.pools.WINDOW", 8)
    files = write_all(tmp_path, HOMES, DAYS)
    source = own_data(str(files["meters"]), str(files["homes"])).open()
    homes, days = of(source, False)
    seen: set[int] = set()
    for x in source.draw(8, Noise(0, 200, 0)).x.numpy():
        seen.update(solve(x, homes, days)[1])
    assert seen == set(homes)
