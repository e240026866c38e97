"""Tails of models: white noise in, the rows of `sample` out; every decoder and method; context, order of parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from compvae.composing.generation import Tile
from compvae.config import ModelConfig
from compvae.errors import CompVAEError, DataError, PartsError
from compvae.model import Model
from compvae.noise import Noise
from compvae.tails import METHODS, TailSample, Whitened
from models import CONFIGS, WEATHER, build, invertible

NOTES = {"a": 2, "c": 1}
SITES = [{"colour": "red", "x": 0.2, "y": -0.5}, {"colour": "green", "x": -0.7, "y": 0.1}]
KINDS = {
    "linked": Model(build(CONFIGS["collapsed, linked, blocks"])),
    "invertible": Model(invertible()),
    "paper, z below": Model(build(CONFIGS["graph, paper, z below"])),
    "placed": Model(build(CONFIGS["newton, placed"])),
}
LINKED = KINDS["linked"]


def parts_of(model: Model) -> object:
    return NOTES if model.parts.countable else SITES


def whitened(model: Model, parts: object, noise: bool = True) -> Whitened:
    return Whitened(Tile(model.network, model.parts.parse(parts)), noise)


def same(a: TailSample, b: TailSample) -> bool:
    return a.x.tobytes() == b.x.tobytes() and (a.probability, a.cv, a.threshold) == (b.probability, b.cv, b.threshold)


@pytest.mark.parametrize("noise", [True, False])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_model_is_a_function_of_its_white_noise(name: str, noise: bool) -> None:
    model = Model(build(CONFIGS[name]))
    simulator = whitened(model, parts_of(model), noise)
    x = simulator(simulator.white(Noise(5, simulator.height))).numpy()
    assert np.array_equal(x, model.sample(parts_of(model), n=simulator.height, seed=5, noise=noise))
    assert ("x" in simulator.layout) == noise


def test_the_size_of_the_white_noise_does_not_depend_on_the_number_of_parts() -> None:
    few, many = whitened(LINKED, {"a": 1}), whitened(LINKED, {"a": 500_000, "b": 3})
    assert few.layout == many.layout
    found = LINKED.tail({"a": 500_000, "b": 3}, threshold=-1e9, n=3, method="subset")
    assert found.x.shape == (3, 6)


@pytest.mark.parametrize("kind", KINDS)
def test_rejection_gives_the_rows_of_sample_that_are_extreme(kind: str) -> None:
    model = KINDS[kind]
    x = model.sample(parts_of(model), n=4096, seed=2)
    peaks = x.reshape(len(x), -1).max(1)
    t = float(np.quantile(peaks, 0.9))
    found = model.tail(parts_of(model), "peak", threshold=t, n=30, seed=2)
    assert found.method == "rejection"
    rounding = 1e-5 if kind == "invertible" else 0.0  # which samples in double precision, white noise is in single
    np.testing.assert_allclose(found.x, x[peaks >= np.float64(t)][:30], rtol=rounding, atol=rounding)
    assert found.probability == pytest.approx(0.1, rel=3 * found.cv)


@pytest.mark.parametrize("kind", KINDS)
def test_rejection_and_subset_simulation_agree(kind: str) -> None:
    model = KINDS[kind]
    parts = parts_of(model)
    t = model.tail(parts, "energy", quantile=0.99, n=1, seed=9, method="subset").threshold
    one, other = (model.tail(parts, "energy", threshold=t, n=200, seed=4, method=m) for m in ("rejection", "subset"))
    gap = abs(one.probability - other.probability) / one.probability
    assert gap < 3 * np.hypot(one.cv, other.cv)
    energy = [f.x.reshape(200, -1).sum(1, dtype=np.float64) for f in (one, other)]
    assert min(energy[1]) >= t
    spread = np.std(energy[0])
    assert abs(np.mean(energy[0]) - np.mean(energy[1])) < 4 * spread * np.sqrt(1 / one.ess + 1 / other.ess)


def test_importance_agrees_where_the_tail_lies_in_one_direction() -> None:
    t = LINKED.tail(NOTES, "energy", quantile=0.999, n=1, seed=9, method="subset").threshold
    one, other = (LINKED.tail(NOTES, "energy", threshold=t, n=200, seed=4, method=m) for m in ("subset", "importance"))
    assert abs(one.probability - other.probability) / other.probability < 3 * np.hypot(one.cv, other.cv)
    assert other.pareto_k is not None
    assert other.pareto_k < 0.7


@pytest.mark.parametrize("method", METHODS)
def test_neither_the_order_of_parts_nor_torchs_generator_changes_a_byte(method: str) -> None:
    first = LINKED.tail(NOTES, "energy", quantile=0.97, n=9, method=method)
    torch.manual_seed(99)
    assert same(first, LINKED.tail([{"note": "c"}, {"note": "a", "count": 2}], "energy", 0.97, 9, method=method))
    assert not same(first, LINKED.tail(NOTES, "energy", quantile=0.97, n=9, seed=1, method=method))


@pytest.mark.parametrize("method", METHODS)
def test_a_functions_of_ones_own_is_used_like_a_built_in_event(method: str) -> None:
    def energy(x: np.ndarray) -> np.ndarray:
        return np.asarray(x.sum(1, dtype=np.float64))

    assert same(*(LINKED.tail(NOTES, event, quantile=0.98, n=9, method=method) for event in (energy, "energy")))


def test_context_and_observation_noise_reach_the_tail() -> None:
    data = CONFIGS["collapsed, linked, blocks"].model_dump(mode="json")
    model = Model(build(ModelConfig.read({**data, "context": [a.model_dump() for a in WEATHER]})))
    cold = model.tail(NOTES, quantile=0.95, n=20, context={"temperature": -15})
    assert not np.array_equal(cold.x, model.tail(NOTES, quantile=0.95, n=20).x)
    quiet = model.tail(NOTES, quantile=0.95, n=20, context={"temperature": -15}, noise=False)
    assert quiet.threshold < cold.threshold
    with pytest.raises(PartsError, match="unknown covariate 'wind'"):
        model.tail(NOTES, quantile=0.95, context={"wind": 1})


@pytest.mark.parametrize(("options", "message"), [
    ({}, "neither came"),
    ({"quantile": 0.9, "threshold": 1.0}, "both came"),
    ({"quantile": 1.2}, "between 0 and 1"),
    ({"quantile": 0.9, "n": 0}, "n must be"),
    ({"quantile": 0.9, "event": "sum"}, "event 'sum' is unknown"),
    ({"quantile": 0.9, "seed": 0.5}, "seed must be an integer"),
    ({"quantile": 0.9, "method": None}, "method must be one of"),
])  # fmt: skip
def test_bad_calls_say_what_came_and_what_is_allowed(options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        LINKED.tail(NOTES, **options)  # type: ignore[arg-type]
    with pytest.raises(CompVAEError, match="'q' is unknown"):
        LINKED.tail({"q": 1}, quantile=0.9)
