"""benchmarks/gallery/table.py and benchmarks/london.py on samplers whose answers are known."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from compvae import problems
from compvae.measures import energy_score

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The benchmarks as modules, the gallery known by its names; both forgotten afterwards."""

    def forget() -> None:
        for name in [name for name in sys.modules if name.split(".")[0] in ("gallery", "london", "gallery_landed")]:
            monkeypatch.delitem(sys.modules, name)

    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(problems, "PROBLEMS", problems.PROBLEMS.copy())
    forget()
    import gallery  # noqa: F401

    yield
    forget()


@pytest.mark.parametrize("name", ["chords", "dice", "spectra"])
def test_the_truth_judged_as_if_it_were_a_model_passes(name: str) -> None:
    from gallery.table import Effort, exact, judge, sizes_of

    problem = problems.get(name)
    found = judge(problem, exact(problem), None, Effort(2, 300, 5, (3, 200), 40, 40))
    assert list(found["relED"]) == sizes_of(problem)
    assert all(abs(row["value"]) < 0.03 for row in found["relED"].values())
    assert all(0.6 < ratio < 1.6 for ratio in found["largest"].values())
    assert found["energy"]["difference"]["value"] == 0  # the same draws as those it is compared with


def test_a_sampler_that_is_off_is_seen_by_every_measure() -> None:
    from gallery.table import Effort, judge

    problem = problems.get("chords")

    def wide(parts: object, n: int, seed: int) -> np.ndarray:
        x = problem.truth(parts, n, seed)
        return np.asarray(x.mean(0) + 3 * (x - x.mean(0)))

    found = judge(problem, wide, None, Effort(2, 300, 5, (3, 200), 60, 40))
    assert all(row["value"] > 0.1 for row in found["relED"].values())
    assert max(found["largest"].values()) > 1.4
    assert found["energy"]["difference"]["value"] > 4 * found["energy"]["difference"]["se"]


def test_what_is_not_finite_is_infinitely_far() -> None:
    from gallery.table import Effort, judge

    problem = problems.get("dice")
    found = judge(problem, lambda parts, n, seed: np.full((n, 10), np.nan), None, Effort(2, 20, 5, (2, 5), 5, 5))
    assert all(row["value"] == np.inf for row in found["relED"].values())
    assert found["energy"]["value"] == np.inf


def test_edit_ratios_of_an_exact_editor_and_of_one_that_forgets() -> None:
    from gallery.table import Effort, edits

    problem, effort = problems.get("chords"), Effort(edited=40)
    Parts = Sequence[list[dict[str, object]]]

    def forgets(x: np.ndarray, parts: Parts, gone: Parts) -> np.ndarray:
        left = [[part for part in row if part not in away] for row, away in zip(parts, gone, strict=True)]
        return np.concatenate([problem.truth(row, 1, 77 + i) for i, row in enumerate(left)])

    def knows(x: np.ndarray, parts: Parts, gone: Parts) -> np.ndarray:
        alone = [problem.specifics(row, 1, 10_000 + i)[:, :1] for i, row in enumerate(parts)]  # as the table draws them
        return x - np.concatenate([problem.whole(row[:1], hidden) for row, hidden in zip(parts, alone, strict=True)])

    assert edits(problem, knows, 3, effort)["value"] < 1e-5
    assert edits(problem, forgets, 3, effort)["value"] == pytest.approx(1.0, abs=0.25)


def test_a_dataset_is_read_back(tmp_path: Path) -> None:
    from compvae.problems.own import own_data
    from gallery.dataset import write_dataset

    for name, settings in (("heat", {}), ("spectra", {"together": True})):
        source = own_data(str(write_dataset(problems.get(name, **settings), tmp_path / name, 60))).open()
        assert source.shape == problems.get(name).shape
        assert source.rows_together == (4 if settings else 1)
        assert source.schema.n_features == (0 if settings else 1)


# -- london ----------------------------------------------------------------------------------------------------------


def test_folds_are_balanced_and_depend_on_names_alone() -> None:
    from london import folds_of

    homes = {f"m{i}": "a" if i % 3 else "b" for i in range(99)}
    found = folds_of(homes)
    assert found == folds_of(dict(reversed(homes.items())))
    assert sorted(np.bincount(list(found.values()))) == [24, 25, 25, 25]
    for profile in "ab":
        share = np.bincount([found[home] for home in homes if homes[home] == profile])
        assert share.max() - share.min() <= 1


def test_groups_are_sums_of_different_homes_on_one_day() -> None:
    from london import Homes

    kw = np.zeros((6, 4, 2), np.float32)
    kw[:] = 10.0 ** np.arange(6)[:, None, None] * np.arange(1, 5)[None, :, None]  # digits tell homes and days
    kw[3:, 2] = np.nan
    homes = Homes(kw, np.array([0, 0, 0, 1, 1, 1]), ("a", "b"))
    groups = homes.groups(200, 4, np.random.default_rng(0))
    assert 2 not in groups.day
    digits = (groups.x[:, 0] / (groups.day + 1)).round().astype(int)
    for row, number in zip(groups.counts, digits, strict=True):
        text = f"{number:06d}"
        assert set(text) <= {"0", "1"}
        assert (text[3:].count("1"), text[:3].count("1")) == tuple(row)
        assert row.sum() == 4


def test_scores_are_energy_scores_and_sums_of_the_truth_pass() -> None:
    from london import BEFORE, INDEPENDENT, KNOWN, MODEL, Draws, Effort, Fold, Homes, independent, judge, table

    random = np.random.default_rng(0)
    kw = random.gamma(2.0, 0.3, (30, 50, 6)).astype(np.float32)  # independent homes and days
    homes = Homes(kw, np.arange(30) % 2, ("a", "b"))
    draws = Draws(independent(homes), homes.names, 50)
    groups = homes.groups(5, 3, random)
    judged = draws.judged(groups)
    drawn = judged.draws[judged.which]
    assert judged.score.mean() == pytest.approx(energy_score(drawn, groups.x).value, rel=1e-5)
    names = (MODEL, MODEL + KNOWN, INDEPENDENT, BEFORE, BEFORE + KNOWN)
    by = {name: Draws(independent(homes), homes.names, 50) for name in names}
    by[BEFORE] = Draws(lambda parts, n, told: 2 * independent(homes)(parts, n, told), homes.names, 50)
    found = judge([Fold(homes, [None] * 50, by)], 3, Effort(200, 50, 20))
    for measure, close in (("P95 peak", 0.1), ("variance", 0.15)):
        assert found[MODEL][f"{measure}, ratio"] == pytest.approx(1.0, abs=close)
        assert 0 < found[MODEL][f"{measure}, ratio, se"] < 0.2
    assert found[MODEL]["less independent"] == 0
    assert found[MODEL]["below zero"] == 0
    assert found[MODEL]["less before"] < -4 * found[MODEL]["less before, se"] < 0
    assert table({3: found}).count("\n") == 7


def test_earlier_numbers_are_compared_where_they_are_of_the_same_groups(tmp_path: Path) -> None:
    import json

    from london import INDEPENDENT, KNOWN, MODEL, beside_numbers

    def scores(model: float, independent: float) -> dict[str, dict[str, float]]:
        by = {MODEL: model, MODEL + KNOWN: model + 1, INDEPENDENT: independent}
        return {name: {"energy score": value} for name, value in by.items()}

    path = tmp_path / "earlier.json"
    path.write_text(json.dumps({"found": {5: scores(6.0, 7.0)}}))
    assert beside_numbers({5: scores(5.5, 7.0)}, path) == {"5": {MODEL: -0.5, MODEL + KNOWN: -0.5}}
    with pytest.raises(SystemExit, match="other groups"):
        beside_numbers({5: scores(5.5, 7.1)}, path)


def test_a_run_forecasts_many_compositions_at_once_as_it_samples_each(tmp_path: Path) -> None:
    import torch

    from compvae.model import Model
    from compvae.network import seeded_network
    from compvae.parts import Categorical, PartsSchema
    from compvae.transport.config import TransportConfig
    from compvae.transport.network import Transport
    from london import loaded

    schema = PartsSchema(attributes=(Categorical(name="kind", categories=("a", "b")),))
    day = Categorical(name="day", categories=("cold", "warm"))
    network = seeded_network(TransportConfig(parts=schema, context=(day,), shape=(3,), rank=1, factors=0), 0)
    assert isinstance(network, Transport)
    levels = torch.tensor([[1.0, 2.0, 3.0], [30.0, 20.0, 10.0]])
    network.base.means[:2, 0] = levels
    network.base.means[:2, 1] = 100 * levels  # on cold days
    model = Model(network)
    model.save(tmp_path / "model")
    forecast = loaded(tmp_path / "model")
    parts = {"b": np.array([0, 3]), "a": np.array([2, 1])}
    cold = {"day": "cold"}
    for contexts, told in ((None, None), ([cold, cold], cold)):
        drawn = forecast(parts, 400, contexts)
        assert drawn.shape == (2, 400, 3)
        for row, asked in zip(drawn, ({"a": 2}, {"a": 1, "b": 3}), strict=True):
            assert row.mean(0) == pytest.approx(model.sample(asked, 400, 5, told).mean(0), abs=0.6)
