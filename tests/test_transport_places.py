"""The invertible model of parts with places: dense Gaussians, autograd, bytes, edits and moves, runs; float64."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

import compvae
from compvae.batch import Batch, PaddedParts, Shared, collate
from compvae.errors import ConfigError, PartsError
from compvae.model import Model
from compvae.noise import Noise, Still
from compvae.parts import Categorical, Continuous, PartsBatch, PartsSchema
from compvae.problems import PROBLEMS
from compvae.transport import flow
from compvae.transport.config import PlacesConfig, TransportConfig
from compvae.transport.given import PlacedGiven
from compvae.transport.network import Transport
from compvae.transport.placed import PlacedBase
from compvae.transport.places import find_places
from runs import cli

SCHEMA = PartsSchema(
    attributes=(
        Categorical(name="kind", categories=("a", "b")),
        Continuous(name="place", low=0.0, high=10.0),
        Continuous(name="strength", low=0.0, high=1.0),
    )
)
VALUES, RANK, FACTORS = 6, 2, 2
A = {"kind": "a", "place": 2.0, "strength": 0.3}
B = {"kind": "b", "place": 7.5, "strength": 0.9}
C = {"kind": "a", "place": 5.0, "strength": 0.5}


def normal(*shape: int, seed: int = 0) -> Tensor:
    return Noise(seed, 1).normal("test", *shape, dtype=torch.float64)[0]


def random_model(shape: tuple[int, ...] = (VALUES,), strength: float = 0.3, **fields: object) -> Transport:
    """A model with a random base and a map that is far from the identity."""
    axes = (0, None) if len(shape) == 1 else (1, 0)
    places = PlacesConfig(axes=axes, stretch=(1.0, 1.0), shift=(0.0, 0.0), hidden=8)
    config = TransportConfig(
        parts=SCHEMA, shape=shape, rank=RANK, factors=FACTORS, width=8, depth=2, steps=4, places=places
    ).with_changes(**fields)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        network = Transport(config).double()
        torch.nn.init.normal_(network.field.last.weight, std=strength)
    return network.eval().requires_grad_(False)


def parts_of(*compositions: list[dict[str, Any]]) -> PaddedParts:
    found = collate([SCHEMA.parse(parts).canonical() for parts in compositions], torch.float64)
    assert isinstance(found, PaddedParts)
    return found


def placed(network: Transport, parts: PaddedParts) -> PlacedGiven:
    given = network.given(parts, None)
    assert isinstance(given, PlacedGiven)
    return given


def covariances(network: Transport, parts: PaddedParts) -> tuple[list[Tensor], Tensor]:
    """Of each term of one whole, the last that of the whole, and the loading of z; of its W.  parts: of one row."""
    given, base = placed(network, parts), network.base
    assert isinstance(base, PlacedBase)
    gaussian = given.gaussian
    slope = gaussian.factor[0].diag()
    loadings = gaussian.loadings[0].view(gaussian.loadings.shape[1], -1, RANK)
    own = [
        slope @ (loadings[:, k] @ loadings[:, k].T + gaussian.noises[0, k].diag()) @ slope
        for k in range(loadings.shape[1])
    ]
    return own, slope @ gaussian.shared[0]


# -- the base --------------------------------------------------------------------------------------------------------


def test_the_slope_of_the_learned_link_is_that_of_autograd() -> None:
    base = random_model().base
    assert isinstance(base, PlacedBase)
    total = normal(50, seed=1).mul(3).requires_grad_()
    value, slope = base.link(total)
    torch.testing.assert_close(torch.autograd.grad(value.sum(), total)[0], slope, rtol=1e-9, atol=1e-12)
    assert (slope > 0).all()


@pytest.mark.parametrize("parts", [[A], [A, B], [A, A, C, B]])
def test_terms_given_w_are_dense_conditioning(parts: list[dict[str, Any]]) -> None:
    network, one = random_model(), parts_of(parts)
    own, loading = covariances(network, one)
    total = sum(own, torch.zeros(VALUES, VALUES).double()) + loading @ loading.T
    deviation = normal(1, VALUES, seed=2)
    given = placed(network, one)
    found = given.gaussian.posterior_mean(deviation)
    pulled = torch.linalg.solve(total, deviation[0])
    for k, covariance in enumerate(own):
        torch.testing.assert_close(found.each[0, k], covariance @ pulled, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(found.z[0], loading.T @ pulled, rtol=1e-8, atol=1e-10)
    dense = MultivariateNormal(torch.zeros(VALUES).double(), total)
    torch.testing.assert_close(given.log_prob(deviation)[0], dense.log_prob(deviation[0]), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(given.spread[0], total.diagonal().sqrt(), rtol=1e-9, atol=1e-9)


def test_wholes_with_one_z_have_their_joint_density() -> None:
    network, both = random_model(), parts_of([A, B], [C, B])
    rows = [covariances(network, both.rows(slice(k, k + 1))) for k in range(2)]
    loading = torch.cat([row[1] for row in rows])
    total = torch.block_diag(*(sum(row[0], torch.zeros(VALUES, VALUES).double()) for row in rows))
    deviation = normal(2, VALUES, seed=4)
    found = placed(network, both).log_prob(deviation, Shared(torch.zeros(2, dtype=torch.int64), 1))
    dense = MultivariateNormal(torch.zeros(2 * VALUES).double(), total + loading @ loading.T)
    torch.testing.assert_close(found.sum(), dense.log_prob(deviation.flatten()), rtol=1e-9, atol=1e-9)


def test_draws_have_the_moments_of_the_base() -> None:
    network, rows = random_model(), 40_000
    one = parts_of([A, B])
    many = one.rows(torch.zeros(rows, dtype=torch.int64))
    own, loading = covariances(network, one)
    expected = sum(own, torch.zeros(VALUES, VALUES).double()) + loading @ loading.T
    drawn = placed(network, many).draw(Noise(1, rows))
    torch.testing.assert_close(drawn.T.cov(), expected, rtol=0.0, atol=0.05 * float(expected.diagonal().max()))


def test_order_and_padding_of_parts_change_nothing() -> None:
    network, alone = random_model(), parts_of([A, B, C])
    order = torch.tensor([2, 0, 1])
    turned = replace(alone, kind=alone.kind[:, order], features=alone.features[:, order])
    beside = parts_of([A, B, C], [A, A, B, B, C]).rows(slice(0, 1))
    deviation = normal(1, VALUES, seed=5)
    first = placed(network, alone)
    for other in (placed(network, turned), placed(network, beside)):
        torch.testing.assert_close(other.mean, first.mean, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(other.spread, first.spread, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(other.log_prob(deviation), first.log_prob(deviation), rtol=1e-10, atol=1e-10)
    padded = network.draw(beside, None, Noise(2, 1))
    np.testing.assert_array_equal(padded.numpy(), network.draw(alone, None, Noise(2, 1)).numpy())


def test_with_offsets_alone_a_part_does_the_same_wherever_it_is() -> None:
    places = PlacesConfig(axes=(0, None), stretch=(1.0, 1.0), shift=(0.0, 0.0), hidden=8, absolute=False)
    network = random_model((11,), places=dict(places))  # values 0.2 apart: places 1 unit apart in their own units
    terms = [placed(network, parts_of([{**A, "place": place}])).terms for place in (4.0, 6.0)]
    near = 1e-6  # where values are is known to float32
    torch.testing.assert_close(terms[0].mean[:, :-2], terms[1].mean[:, 2:], rtol=near, atol=near)


def test_attributes_that_are_no_place_enter_as_they_are(tmp_path: Path) -> None:
    places = PlacesConfig(axes=(None, None), stretch=(1.0, 1.0), shift=(0.0, 0.0), hidden=8)
    model = Model(random_model(places=dict(places)).float())
    x = model.sample([A, B], n=3, seed=1)
    assert (x != model.sample([{**A, "strength": 0.9}, B], n=3, seed=1)).any()
    np.testing.assert_array_equal(Model.load(model.save(tmp_path / "model")).sample([A, B], n=3, seed=1), x)


# -- the map ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(VALUES,), (1, 4, 4), (2, 3, 2)])
def test_the_inverse_is_solved_and_the_determinant_is_that_of_autograd(shape: tuple[int, ...]) -> None:
    network, values = random_model(shape), math.prod(shape)
    given = placed(network, parts_of([A, B]))
    embedded, u = network.field.embed(given.condition()), normal(1, values, seed=1)
    mapped, slope = flow.log_determinant(network.field, u, embedded, 4)
    torch.testing.assert_close(flow.invert(network.field, mapped, embedded, 4), u, rtol=0.0, atol=1e-4)
    jacobian = torch.autograd.functional.jacobian(lambda v: flow.apply(network.field, v[None], embedded, 4)[0], u[0])
    torch.testing.assert_close(slope[0], torch.linalg.slogdet(jacobian)[1], rtol=1e-8, atol=1e-8)


def test_log_prob_is_the_dense_gaussian_where_the_map_is_the_identity() -> None:
    network, one = random_model(strength=0.0), parts_of([A, C])
    given = placed(network, one)
    x = given.mean + normal(1, VALUES, seed=1)
    own, loading = covariances(network, one)
    total = sum(own, torch.zeros(VALUES, VALUES).double()) + loading @ loading.T
    dense = MultivariateNormal(given.mean[0], total)
    found = network.log_density(Batch(x, one), None)[0]
    torch.testing.assert_close(found, dense.log_prob(x[0]), rtol=1e-6, atol=1e-6)


# -- edits and bytes -------------------------------------------------------------------------------------------------


def test_rows_depend_on_nothing_beside_them_and_parts_have_no_order() -> None:
    model = Model(random_model().float())
    many = model.sample([A, B, C], n=200, seed=4)
    assert (model.sample([C, A, B], n=10, seed=4) == many[:10]).all()
    elsewhere = model.infer(many[3:9], [A, B, C]).decode()[0]
    np.testing.assert_array_equal(model.infer(many[:40], [C, B, A]).decode()[3], elsewhere)


def test_noise_belongs_to_parts_where_it_is_asked_for_by_part() -> None:
    model = Model(random_model(strength=0.0).float())
    whole, moved = (model.compose(parts, keys=[5, 9]).decode(3, seed=1) for parts in ([A, B], [B, A]))
    assert whole.shape == (3, VALUES)
    swapped = model.compose([B, A], keys=[9, 5]).decode(3, seed=1)
    np.testing.assert_array_equal(whole, swapped)
    assert (whole != moved).any()


def test_edits_that_change_nothing_give_x_back() -> None:
    model = Model(random_model().float())
    x = model.sample([A, B, C], n=6, seed=1)
    posterior, near = model.infer(x, [A, B, C]), 1e-4 * float(x.std())
    assert np.abs(posterior.decode() - x).max() < near
    assert np.abs(posterior.decode(n=3, seed=2) - x).max() < 2 * near
    assert np.abs(posterior.add([C]).remove([C]).decode() - x).max() < near
    elsewhere = {**B, "place": 1.0}
    there = posterior.move([B], [elsewhere])
    assert np.abs(there.decode() - x).max() > 100 * near
    assert there.parts[0] == [A, elsewhere, C]  # type: ignore[index]
    assert np.abs(there.move([elsewhere], [B]).decode() - x).max() < near


def test_a_removed_part_takes_its_mean_given_w_along() -> None:
    network = random_model()
    model, one = Model(network), parts_of([A, B, C])
    x = model.sample([A, B, C], n=1, seed=1)
    given = placed(network, one)
    deviation = network.deviations(torch.from_numpy(x), given)
    terms = given.gaussian.posterior_mean(deviation)
    slope = given.gaussian.factor
    order = [part["place"] for part in SCHEMA.parse([A, B, C]).canonical().dicts()]
    kept = [k for k, place in enumerate(order) if place != B["place"]] + [3]
    left = (terms.each / slope[:, None])[:, kept].sum(1)
    after = placed(network, parts_of([A, C]))
    gaussian = after.gaussian
    expected = network.wholes(left * gaussian.factor + gaussian.of_z(terms.z), after)
    np.testing.assert_allclose(model.infer(x, [A, B, C]).remove([B]).decode(), expected.numpy(), atol=1e-6)


def test_a_moved_part_keeps_its_factors_and_the_others_their_terms() -> None:
    network = random_model(strength=0.0, floor=0.0)
    assert isinstance(network.base, PlacedBase)
    network.base.heads.bias.data[1] = -40.0  # no noise of its own: a part is its factors
    there = {**B, "place": 3.0}
    factors = normal(1, 1, RANK, seed=7)
    terms = {k: placed(network, parts_of([k_part])).terms for k, k_part in (("here", B), ("there", there))}
    own = (terms["here"].loadings @ factors[..., None])[..., 0]
    from compvae.transport.placed_editing import PlacedGroup, _carried

    group = PlacedGroup(parts_of([B]), parts_of([there]), 0)
    found = _carried(network, own, group, None)
    expected = (terms["there"].loadings @ factors[..., None])[..., 0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_moves_that_cannot_be_are_refused_in_a_sentence() -> None:
    model = Model(random_model().float())
    posterior = model.infer(model.sample([A, B], n=2), [A, B])
    with pytest.raises(PartsError, match="of another kind; use replace"):
        posterior.move([A], [{**A, "kind": "b"}])
    with pytest.raises(PartsError, match="there is none left"):
        posterior.move([C], [A])
    with pytest.raises(PartsError, match="2 parts cannot move to 1 places"):
        posterior.move([A, B], [A])
    with pytest.raises(ConfigError, match="move needs an invertible model"):
        compvae.load("colours").infer(np.zeros((3, 32, 32)), [{"colour": "red", "x": 0, "y": 0}]).move([], [])


def test_shared_wholes_are_inferred_together() -> None:
    model = Model(random_model().float())
    x = model.sample([A, B], n=4, seed=3)
    found = model.infer(x, PartsBatch([[A, B]] * 4), shared=["d", "d", "e", "e"]).remove([B]).decode(n=2)
    assert found.shape == (2, 4, VALUES)
    assert np.isfinite(found).all()


def test_still_noise_gives_the_base_mean() -> None:
    network = random_model(strength=0.0)
    given = placed(network, parts_of([A, B]))
    torch.testing.assert_close(given.draw(Still(1)), torch.zeros(1, VALUES).double())


# -- what data shows -------------------------------------------------------------------------------------------------


def bumps(rows: int, points: int, stretch: float) -> Batch:
    """Bumps with a place and a strength, both attributes."""
    noise = Noise(3, rows)
    mask = torch.arange(4) < noise.integers("size", 1, 4)[:, None]
    features = (2 * noise.uniform("features", 4, 2) - 1) * mask[..., None]
    place, strength = features[..., None].unbind(2)
    line = torch.linspace(-1, 1, points)
    x = (1.2 + strength) * torch.exp(-(((line - stretch * place) / 0.15) ** 2)) * mask[..., None]
    return Batch(x.sum(1), PaddedParts(torch.zeros_like(mask, dtype=torch.int64), features, mask, 1))


@pytest.mark.parametrize("stretch", [1.0, 0.5, -0.7])
def test_places_are_told_from_other_attributes(stretch: float) -> None:
    schema = PartsSchema(attributes=SCHEMA.attributes[1:])
    plain = PlacesConfig(axes=(None, None), stretch=(1.0, 1.0), shift=(0.0, 0.0))
    config = TransportConfig(parts=schema, shape=(64,), places=plain)
    found = find_places(config, bumps(400, 64, stretch)).places
    assert found is not None
    assert found.axes == (0, None)
    assert abs(found.stretch[0] - stretch) < 0.11
    assert abs(found.shift[0]) < 0.1
    assert not found.absolute


# -- runs ------------------------------------------------------------------------------------------------------------

REGISTERING = '''
"""Spots: squares of random height, each with a place."""
from typing import ClassVar

import torch

from compvae.parts import Continuous, PartsSchema
from compvae.problems import Problem, register

ROW = torch.linspace(-1, 1, 4)


@register
class Spots(Problem):
    name: ClassVar[str] = "spots"
    summary: ClassVar[str] = "spots of random height"
    specific_names: ClassVar[tuple[str, ...]] = ("height",)
    extensive: ClassVar[bool] = True
    max_parts: ClassVar[int] = 3
    schema = PartsSchema(attributes=tuple(Continuous(name=name, low=-1.0, high=1.0) for name in "xy"))
    shape = (1, 4, 4)

    def draw_specifics(self, parts, noise):
        return 1 + 0.2 * noise.normal("height", parts.kind.shape[1], 1)

    def combine(self, parts, specifics, factors=None):
        column, row = parts.features[..., None].unbind(2)
        away = ((ROW - column) ** 2)[:, :, None] + ((ROW - row) ** 2)[..., None]
        each = specifics[..., None] * torch.exp(-away / 0.3) * parts.mask[..., None, None]
        return each.sum(1, keepdim=True)
'''
SHORT: dict[str, Any] = {"steps": 12, "batch": 16, "threads": 1, "checkpoint_every": 4, "check_every": 6}
SPOTS = [{"x": 0.2, "y": -0.5}, {"x": -0.6, "y": 0.4}]


@pytest.fixture
def spots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "spots_module.py").write_text(REGISTERING)
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("spots_module")
    yield "spots"
    PROBLEMS.pop("spots", None)
    sys.modules.pop("spots_module", None)


def test_a_run_with_places_from_fit_to_edits(spots: str, tmp_path: Path) -> None:
    run = compvae.fit(spots, preset="transport", out=tmp_path / "run", **SHORT)
    config = run.model.config
    assert isinstance(config, TransportConfig)
    assert config.places is not None
    assert config.places.axes == (1, 0)
    assert run.verdict is not None
    model = compvae.load(tmp_path / "run")
    x = model.sample(SPOTS, n=5, seed=3)
    np.testing.assert_array_equal(x, run.model.sample(SPOTS, n=5, seed=3))
    assert model.exact_log_prob
    assert np.isfinite(np.asarray(model.log_prob(x[:2], SPOTS))).all()
    assert model.rank(x[0], [SPOTS, SPOTS[:1]]).order in ([0, 1], [1, 0])
    posterior = model.infer(x, SPOTS)
    assert np.abs(posterior.decode() - x).max() < 1e-3
    assert posterior.part(0).shape == x.shape
    assert posterior.replace(SPOTS[:1], [{"x": 0.0, "y": 0.0}]).decode(n=2).shape == (2, *x.shape)
    assert posterior.move(SPOTS[:1], [{"x": 0.0, "y": 0.0}]).decode().shape == x.shape
    assert len(model.tail(SPOTS, event="peak", quantile=0.9, n=20).x) == 20
    np.savez(tmp_path / "x.npz", x=x)
    for name, parts in (("parts", SPOTS), ("from", SPOTS[:1]), ("to", [{"x": 0.0, "y": 0.0}])):
        (tmp_path / f"{name}.json").write_text(json.dumps(parts))
    command = ["edit", str(tmp_path / "run"), "--data", "x.npz", "--parts", "parts.json", "--move", "from.json"]
    done = cli(*command, "--to", "to.json", "--out", "y.npz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    moved = posterior.move(SPOTS[:1], [{"x": 0.0, "y": 0.0}])
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["x"], moved.decode())
    refused = cli(*command, "--out", "z.npz", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--move and --to go together" in refused.stderr


def test_auto_takes_it_and_a_resumed_run_gives_the_same_bytes(spots: str, tmp_path: Path) -> None:
    run = compvae.fit(spots, out=tmp_path / "run", **SHORT)
    assert run.model.provenance.notes["preset"] == "transport"
    drawn = run.model.sample(SPOTS, n=3)
    for path in sorted((tmp_path / "run" / "checkpoints").glob("step*"))[1:]:
        path.unlink()
    resumed = compvae.fit(spots, out=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.model.sample(SPOTS, n=3), drawn)
