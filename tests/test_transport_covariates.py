"""Covariates that nobody tells: drawn from those seen, and found again from what a whole shows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from compvae.batch import Batch, CountedParts, Shared
from compvae.context import encode_values
from compvae.errors import ConfigError
from compvae.model import Model
from compvae.noise import Noise, Still
from compvae.parts import Attribute, Categorical, Continuous, PartsSchema
from compvae.transport.config import TransportConfig, model_config_from
from compvae.transport.covariates import BANDWIDTH, Covariates
from compvae.transport.network import Transport
from compvae.transport.observing import log_prob, observe

ATTRIBUTES: tuple[Attribute, ...] = (
    Continuous(name="warmth", low=-1.0, high=1.0),
    Categorical(name="day", categories=("work", "rest", "feast")),
)
SCHEMA = PartsSchema(attributes=(Categorical(name="kind", categories=("a", "b")),))
VALUES = 4


def contexts_of(rows: int = 400) -> tuple[Tensor, Tensor]:
    """Rest days are warm; encoded, with all known, and the values (N, 2)."""
    noise = Noise(5, rows)
    day = noise.integers("day", 0, 1)  # nobody has seen a feast
    warmth = 0.6 * day.double() - 0.3 + 0.1 * noise.normal("warmth", dtype=torch.float64)
    values = torch.stack([warmth, day.double()], 1)
    return encode_values(ATTRIBUTES, values, torch.ones(rows, 2, dtype=torch.bool)), values


def told(warmth: float | None, day: int | None, rows: int = 1) -> Tensor:
    """A context of which some is known, (rows, E) float64."""
    known = torch.tensor([[warmth is not None, day is not None]])
    one = encode_values(ATTRIBUTES, torch.tensor([[warmth or 0.0, float(day or 0)]]), known)
    return one.double().expand(rows, -1)


def fitted(rows: int = 64) -> Covariates:
    found = Covariates(ATTRIBUTES, rows)
    found.fit_(contexts_of()[0])
    return found


def transport(seen: int = 6, strength: float = 0.3) -> Transport:
    """Two kinds; the day moves the mean by far, warmth a little."""
    config = TransportConfig(
        parts=SCHEMA, context=ATTRIBUTES, shape=(VALUES,), rank=2, factors=1, width=8, depth=1, steps=4, seen=seen
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        network = Transport(config).double()
        network.field.last.weight.data.normal_().mul_(strength)
        network.base.loadings.normal_().mul_(0.3)
        network.base.shared.normal_().mul_(0.3)
        network.base.means.normal_()
    network.base.noise.fill_(0.1)
    network.covariates.fit_(contexts_of()[0])
    return network.eval().requires_grad_(False)


def counts_of(rows: int) -> CountedParts:
    return CountedParts(torch.tensor([[2.0, 1.0]], dtype=torch.float64).expand(rows, -1))


def test_nothing_known_gives_the_contexts_seen_as_often_as_they_were() -> None:
    drawn = fitted().complete(told(None, None, 20_000), Noise(1, 20_000))
    encoded, values = contexts_of()
    assert bool((drawn[:, fitted().flags] == 1).all())
    assert abs(float(drawn[:, 4].mean()) - float(values[:, 1].mean())) < 0.02
    for day in (0, 1):
        here, there = drawn[drawn[:, 3 + day] > 0, 1], encoded[values[:, 1] == day, 1]
        assert abs(float(here.mean() - there.mean())) < 0.02
        assert abs(float(here.std() / there.std()) - 1) < 0.1


def test_what_is_known_stays_and_tells_of_the_rest() -> None:
    warm = fitted().complete(told(0.35, None, 500), Noise(1, 500))
    assert bool((warm[:, :2] == told(0.35, None)[:, :2]).all())
    assert float(warm[:, 4].mean()) > 0.98  # it is a rest day
    rest = fitted().complete(told(None, 1, 500), Noise(1, 500))
    assert bool((rest[:, 4] == 1).all())
    assert float(rest[:, 1].min()) > -0.1
    feast = fitted().complete(told(None, 2, 500), Noise(1, 500))  # never seen: nothing is known of its warmth
    assert bool((feast[:, 5] == 1).all())
    assert float(feast[:, 1].std()) > 0.2


def test_weights_are_the_kernel_of_what_is_known() -> None:
    covariates = fitted(16)
    context = torch.cat([told(0.2, None), told(None, 0), told(0.1, 1), told(None, None)])
    spread = float(covariates.seen[:, 1].std(unbiased=False))
    for row, (warmth, day) in enumerate(((0.2, None), (None, 0), (0.1, 1), (None, None))):
        weights = []
        for atom in covariates.seen.double():
            weight = 1.0 if warmth is None else math.exp(-0.5 * ((warmth - float(atom[1])) / spread / BANDWIDTH) ** 2)
            weights.append(weight * (1.0 if day is None or float(atom[3 + day]) == 1 else math.exp(-30)))
        expected = torch.tensor(weights, dtype=torch.float64)
        found = covariates.log_weights(context[row : row + 1], covariates.seen)[0].exp()
        torch.testing.assert_close(found, expected / expected.sum(), rtol=1e-5, atol=1e-9)


def test_neighbours_among_the_contexts_kept_are_alike() -> None:
    seen = fitted().seen
    steps = (seen[1:] - seen[:-1]).abs()
    assert int((steps[:, 3:] > 0).any(1).sum()) == 1  # one change of category
    assert bool((seen[1:, 1] >= seen[:-1, 1])[steps[:, 4] == 0].all())


def test_the_density_is_the_sum_over_contexts_and_of_wholes_with_one_z_their_joint_one() -> None:
    network = transport(seen=6)
    x = Noise(4, 5).normal("x", VALUES, dtype=torch.float64) + 2
    for context in (told(None, None, 5), told(None, 1, 5), told(0.3, None, 5)):
        batch = Batch(x, counts_of(5), context)
        weights = network.covariates.log_weights(context, network.covariates.seen)
        known = context[:, network.covariates.flags] > 0
        each = []
        for atom in network.covariates.seen.double():
            each.append(network.log_density(batch, torch.where(known, context, atom)))
        torch.testing.assert_close(log_prob(network, batch), (torch.stack(each, 1) + weights).logsumexp(1))
        shared = Shared(torch.tensor([0, 0, 1, 1, 1]), 2)
        together = Batch(x, counts_of(5), context, shared)
        joint = []
        for atom in network.covariates.seen.double():
            joint.append(shared.total(network.log_density(together, torch.where(known, context, atom))[:, None])[:, 0])
        expected = (torch.stack(joint, 1) + weights[:2]).logsumexp(1)
        torch.testing.assert_close(shared.total(log_prob(network, together)[:, None])[:, 0], expected)


def test_an_observed_whole_shows_its_day_and_wholes_with_one_z_have_one() -> None:
    network = transport(seen=32)
    day = torch.tensor([0, 1, 0, 1, 1, 0])
    context = torch.cat([told(0.6 * float(d) - 0.3, int(d)) for d in day])
    x = network.draw(counts_of(6), context, Noise(2, 6)).double()
    seen = observe(network, Batch(x, counts_of(6), told(None, None, 6)))
    assert seen.contexts is not None
    torch.testing.assert_close(seen.weights.sum(1), torch.ones(6, dtype=torch.float64))
    assert seen.contexts[:, 0, 4].tolist() == day.tolist()
    shared = Shared(torch.tensor([0, 1, 0, 1, 1, 0]), 2)
    together = observe(network, Batch(x, counts_of(6), told(None, None, 6), shared))
    rows = torch.arange(6).repeat(3)
    drawn, deviation = together.drawn(rows, Noise(7, 18))
    assert drawn is not None
    for draw in range(3):
        of_draw = drawn[6 * draw : 6 * draw + 6]
        assert bool((of_draw == of_draw[shared.first][shared.group]).all())
    given = network.given(counts_of(18), drawn)
    torch.testing.assert_close(deviation, network.deviations(x[rows], given), rtol=0, atol=1e-4)
    best, _ = together.drawn(torch.arange(6), Still(6))
    torch.testing.assert_close(best, together.at(0))


def test_no_context_at_all_is_an_unknown_one() -> None:
    network, noise = transport(), Noise(3, 7)
    unknown = network.draw(counts_of(7), told(None, None, 7), noise)
    torch.testing.assert_close(network.draw(counts_of(7), None, noise), unknown)
    x = unknown.double()
    torch.testing.assert_close(
        log_prob(network, Batch(x, counts_of(7))), log_prob(network, Batch(x, counts_of(7), told(None, None, 7)))
    )


def test_a_configuration_of_before_is_read_or_says_which_release_reads_it() -> None:
    data = transport().config.model_dump(mode="json")
    assert model_config_from({**data, "draws_context": False}, "here", stored=True) == transport().config
    with pytest.raises(ConfigError, match=r"load it with compvae 0\.1"):
        model_config_from({**data, "draws_context": True}, "here", stored=True)


def test_samples_and_edits_with_unknown_context() -> None:
    model = Model(transport(seen=16).float())
    parts = {"a": 2, "b": 1}
    many = model.sample(parts, n=300, seed=4)
    np.testing.assert_array_equal(model.sample(parts, n=10, seed=4), many[:10])
    assert (
        many.std(0).mean()
        > 1.2 * model.sample(parts, n=300, seed=4, context={"day": "rest", "warmth": 0.3}).std(0).mean()
    )
    posterior = model.infer(many[:3], parts)
    np.testing.assert_allclose(posterior.decode(), many[:3], rtol=0, atol=2e-4)
    np.testing.assert_allclose(posterior.decode(n=4, seed=1)[2], many[:3], rtol=0, atol=2e-4)
    edited = posterior.remove({"a": 1}).decode(n=20, seed=1)
    np.testing.assert_array_equal(posterior.remove({"a": 1}).decode(n=5, seed=1), edited[:5])
    assert model.tail(parts, event="peak", quantile=0.9, n=20).x.shape == (20, VALUES)
