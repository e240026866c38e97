"""Parts of observed wholes: order, purity, exact inverses, the bridge, held factors, rows on their own, errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import compvae
from compvae.batch import CountedParts
from compvae.composing import editing, wholes
from compvae.composing.editing import Group
from compvae.errors import CompVAEError, ConfigError, DataError
from compvae.inference import infer
from compvae.model import Model
from compvae.noise import Noise
from models import CONFIGS, build, invertible, random_batch

NOTES, MORE_NOTES = {"a": 2, "c": 1}, {"b": 1, "a": 1}
SITES = [{"colour": "red", "x": 0.2, "y": -0.5}, {"colour": "green", "x": -0.7, "y": 0.1}]
MORE_SITES = [{"colour": "green", "x": 0.0, "y": 0.5}]
every = pytest.mark.parametrize("name", CONFIGS)


def made(name: str, rows: int | None = None) -> tuple[Model, object, object, np.ndarray]:
    """A model, parts, further parts, and a whole (or several)."""
    model = Model(build(CONFIGS[name]))
    parts, more = (NOTES, MORE_NOTES) if model.parts.countable else (SITES, MORE_SITES)
    x = model.sample(parts, n=rows or 1, seed=7)
    return model, parts, more, x if rows else x[0]


def turned(parts: object) -> object:
    return dict(reversed(parts.items())) if isinstance(parts, dict) else parts[::-1]


@every
def test_order_does_not_matter_edits_are_pure_and_adding_is_undone_exactly(name: str) -> None:
    model, parts, more, x = made(name)
    first = model.infer(x, parts)
    mean, draws = first.decode(), first.decode(n=2, seed=3)
    assert mean.shape == x.shape
    assert draws.shape == (2, *x.shape)
    assert np.isfinite(draws).all()
    assert np.array_equal(model.infer(x, turned(parts)).decode(n=2, seed=3), draws)
    added = first.add(more)
    assert not np.array_equal(added.decode(), mean)
    back = added.remove(more)
    assert np.array_equal(back.decode(), mean)
    assert np.array_equal(back.decode(n=2, seed=3), draws)
    assert back.parts == first.parts
    assert np.array_equal(first.decode(n=2, seed=3), draws)
    assert len(added.parts) == len(first.parts) + len(model.parts.parse(more).dicts())


@every
def test_a_part_alone_is_what_is_left_when_the_others_go(name: str) -> None:
    model, parts, _, x = made(name)
    composition = model.infer(x, parts)
    last = len(composition.parts) - 1
    others = {"a": 2} if model.parts.countable else SITES[:1]
    assert composition.remove(others).parts == [composition.parts[last]]
    assert np.array_equal(composition.part(last), composition.remove(others).decode())
    assert np.array_equal(composition.part(-1), composition.part(last))


@pytest.mark.parametrize("name", ["collapsed, linked, blocks", "graph, paper, z below", "newton, placed"])
def test_fewer_draws_are_the_first_of_more(name: str) -> None:
    model, parts, more, x = made(name, rows=2)
    composition = model.infer(x, parts).add(more)
    many = composition.decode(n=20, seed=1, noise=True)
    assert np.array_equal(composition.decode(n=10, seed=1, noise=True), many[:10])
    assert not np.array_equal(composition.decode(n=10, seed=2, noise=True), many[:10])
    single = model.infer(x[0], parts).add(more)
    assert np.array_equal(single.decode(n=10, seed=1), single.decode(n=130, seed=1)[:10])


@every
def test_a_batch_equals_its_rows_one_by_one(name: str) -> None:
    model, parts, more, x = made(name, rows=3)
    each = [parts, more, [*SITES, *MORE_SITES] if isinstance(parts, list) else {"a": 5, "b": 1}]
    together = model.infer(x, compvae.PartsBatch(each)).add(more)
    alone = [model.infer(row, own).add(more) for row, own in zip(x, each, strict=True)]
    assert together.parts == [composition.parts for composition in alone]
    expected = np.stack([composition.decode() for composition in alone])
    np.testing.assert_allclose(together.decode(), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    places = [0, 1, 2] if isinstance(parts, dict) else [1, 0, 2]
    expected = np.stack([c.part(at) for c, at in zip(alone, places, strict=True)])
    np.testing.assert_allclose(together.part(places), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def counted(rows: int, *counts: float) -> CountedParts:
    return CountedParts(torch.tensor([counts], dtype=torch.float64).expand(rows, -1))


@pytest.mark.parametrize("stages", [[(1, 1, 1)], [(2, 1, 1), (1, 1, 1)], [(1, 0, 0)]])
@pytest.mark.parametrize("name", ["collapsed, linked, dense", "collapsed, linked, blocks"])
@pytest.mark.usefixtures("double")
def test_what_is_left_of_a_sum_has_the_moments_of_a_dense_conditional_gaussian(
    name: str, stages: list[tuple[int, ...]]
) -> None:
    """Removing one by one, or all at once: E and Var of the sum over the rest, given the sum over all of 3, 2, 1."""
    model, n, counts = build(CONFIGS[name]), 40_000, (3, 2, 1)
    views = tuple(counted(n, *each) for each in (counts, *stages))
    group = Group(views, tuple(range(len(views))))
    prior = model.prior.of_sum(views[0])
    observed = prior.mean[:1] + 0.7 * prior.variance[:1].sqrt()
    with torch.no_grad():
        left = editing._edited_sum(model, observed.expand(n, -1, -1), [group], Noise(4, n))
    mean, variance = model.prior.moments()
    kinds = torch.tensor([c for c, count in enumerate(counts) for _ in range(count)])
    stays = torch.cat([torch.arange(count) < stages[-1][c] for c, count in enumerate(counts)])
    blocks = kinds if model.config.latent.blocks else torch.zeros_like(kinds)
    for block in range(observed.shape[1]):
        for axis in range(observed.shape[2]):
            own = blocks == block
            m, s = mean[kinds[own], axis], torch.diag(variance[kinds[own], axis])
            total, rest = torch.ones(len(m)), stays[own].to(m.dtype)
            gain = (rest @ s @ total) / (total @ s @ total)
            expected = rest @ m + gain * (observed[0, block, axis] - total @ m)
            spread = rest @ s @ rest - gain * (total @ s @ rest)
            found = left[:, block, axis]
            assert abs(found.mean() - expected) <= 5 * (spread.clamp(min=0) / n) ** 0.5 + 1e-9
            assert abs(found.var() - spread) <= 8 * spread.clamp(min=0) / n**0.5 + 1e-9


@pytest.mark.parametrize("name", ["collapsed, linked, z below", "graph, paper, z below"])
@pytest.mark.usefixtures("double")
def test_below_the_sum_the_noise_of_z_is_held(name: str) -> None:
    model, batch = build(CONFIGS[name]), random_batch(CONFIGS[name], [3, 3])
    with torch.no_grad():
        latent = infer(model, batch, Noise(0, 2))
        code = latent.code + 0.5
        moved = editing._moved_z(model, latent, code, batch.parts)
        after = model.z_below(code, batch.parts, None)
    before = latent.z.prior
    unit = (latent.z.value - before.mean) / before.variance.sqrt()
    torch.testing.assert_close((moved - after.mean) / after.variance.sqrt(), unit)
    assert not torch.allclose(moved, latent.z.value)


def watched(model: Model, monkeypatch: pytest.MonkeyPatch) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """z as it is drawn from the posterior of an invertible model, and as it enters what is edited, (R, Z) each."""
    base, drawn, entered = model.network.base, list[torch.Tensor](), list[torch.Tensor]()
    posterior, of_z = base.posterior, base.of_z

    def draw(*arguments: object) -> object:
        found = posterior(*arguments)
        drawn.append(found.z)
        return found

    def enter(counts: torch.Tensor, context: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        entered.append(z)
        return of_z(counts, context, z)

    monkeypatch.setattr(base, "posterior", draw)
    monkeypatch.setattr(base, "of_z", enter)
    return drawn, entered


def test_what_parts_share_stays_under_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(invertible())
    x = model.sample(NOTES, 1, seed=7)[0]
    drawn, entered = watched(model, monkeypatch)
    model.infer(x, NOTES).add(MORE_NOTES).remove(MORE_NOTES).add(MORE_NOTES).decode(n=3, seed=1)
    assert torch.equal(drawn[0], entered[0])
    assert not torch.equal(drawn[0][0], drawn[0][1])


def test_wholes_that_share_a_factor_have_one_z_in_every_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(invertible(context=True))
    x = model.sample(NOTES, 4, seed=7)
    drawn, _ = watched(model, monkeypatch)
    shared = model.infer(x, NOTES, shared=["mon", "tue", "mon", "tue"]).add(MORE_NOTES)
    shared.decode(n=2)
    z = drawn[0].view(-1, 4, drawn[0].shape[1])
    assert torch.equal(z[:, 0], z[:, 2])
    assert torch.equal(z[:, 1], z[:, 3])
    assert not torch.equal(z[:, 0], z[:, 1])
    assert not torch.equal(z[0], z[1])
    assert np.array_equal(shared.decode(), model.infer(x, NOTES, shared=[5, 2, 5, 2]).add(MORE_NOTES).decode())
    assert not np.array_equal(shared.decode(), model.infer(x, NOTES).add(MORE_NOTES).decode())


def test_shared_needs_an_invertible_model_and_one_context() -> None:
    model, parts, _, x = made("collapsed, linked, z below", rows=2)
    for call in (model.infer, model.elbo, model.log_prob):
        with pytest.raises(ConfigError, match=r"shared needs an invertible model \(preset transport\)"):
            call(x, parts, shared=[0, 0])  # type: ignore[operator]
    own = Model(invertible(context=True))
    days = [{"temperature": 3}, {"temperature": 4}, {}]
    with pytest.raises(DataError, match="row 2 shares its factor with a row of another context"):
        own.infer(own.sample(NOTES, 3), NOTES, context=days, shared=["a", "b", "a"])
    own.infer(own.sample(NOTES, 3), NOTES, context=[days[0], days[1], days[0]], shared=["a", "b", "a"])


def test_what_hangs_on_x_alone_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws are those of inference: two climbs to one peak, in batches of two sizes, agree to the root of rounding."""
    model, parts, more, x = made("newton, losses, blocks", rows=2)
    for own, module, name in ((model, editing, "infer"), (Model(invertible(context=True)), wholes, "observe")):
        find, calls = getattr(module, name), []

        def watch(*arguments: object, find=find, calls=calls) -> object:
            calls.append(arguments)
            return find(*arguments)

        with monkeypatch.context() as here:
            here.setattr(module, name, watch)
            first = own.infer(x, parts)
            draws = first.decode(n=20, seed=3)
            assert np.array_equal(first.add(more).remove(more).decode(n=20, seed=3), draws)
        assert len(calls) == 1
    torch.set_default_dtype(torch.float64)
    network, given = model.network.double(), model.infer(x, parts)._observed.batch
    batch, noise = replace(given, x=given.x.double()), Noise(5, 6)
    together = editing.redrawn(network, batch, noise, 3, {}, 0)
    with torch.no_grad():
        alone = infer(network, batch.rows(torch.arange(2).repeat(3)), noise)
    torch.testing.assert_close(together.w, alone.w, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("call", "message"), [
    (lambda c: c.remove({"b": 1}), "cannot take away 1 of {'note': 'b'}, there is none"),
    (lambda c: c.remove({"a": 3}), "cannot take away 3 of {'note': 'a'}, there are 2"),
    (lambda c: c.remove(NOTES), "would remove every part"),
    (lambda c: c.add({}), "add is empty"),
    (lambda c: c.add({"q": 1}), "'q' is unknown"),
    (lambda c: c.replace({"b": 1}, {"a": 1}), "replace: cannot take away"),
    (lambda c: c.part(3), "there is no part 3, the parts are 0 to 2"),
    (lambda c: c.part("a"), "places for 1 rows|there is no part"),
    (lambda c: c.part([0, 1]), "2 places for 1 rows"),
    (lambda c: c.decode(n=0), "n must be a whole number"),
    (lambda c: c.decode(noise=True), "needs n"),
    (lambda c: c.add(compvae.PartsBatch([NOTES, NOTES])), "add has 2 compositions but x has 1 rows"),
])  # fmt: skip
def test_impossible_edits_say_why(call: object, message: str) -> None:
    model, parts, _, x = made("collapsed, linked, blocks")
    with pytest.raises(CompVAEError, match=message):
        call(model.infer(x, parts))  # type: ignore[operator]


def test_replacing_every_part_leaves_nothing_of_the_old_ones() -> None:
    model, parts, more, x = made("collapsed, linked, blocks")
    other = model.sample(parts, n=1, seed=99)[0]
    a, b = (model.infer(whole, parts).replace(parts, more) for whole in (x, other))
    assert np.array_equal(a.decode(n=4), b.decode(n=4))


def test_ranking_prefers_the_composition_that_made_the_whole() -> None:
    """x grows with K, so that one part and thirty are told apart; probabilities are normalised."""
    model = Model(build(CONFIGS["newton, pointwise, blocks"]))
    candidates = [{"a": 1}, {"a": 30}]
    right = 0
    for truth in (0, 1):
        for x in model.sample(candidates[truth], n=3, seed=truth):
            ranking = model.rank(x, candidates, samples=4)
            assert sum(ranking.probability) == pytest.approx(1)
            assert ranking.bounds[ranking.order[0]] == max(ranking.bounds)
            right += ranking.order[0] == truth
    assert right == 6
