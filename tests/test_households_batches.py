"""Batches of the feeder for training: wholes of one day, log-uniform sizes, the same for any number of processes."""

import math

import numpy as np
import pytest
import torch

from compvae import problems
from compvae.batch import CountedParts
from compvae.context import encode_context
from compvae.errors import ConfigError
from compvae.network import seeded_network
from compvae.noise import Noise
from compvae.objective import elbo
from compvae.presets import OWN_DATA, preset
from compvae.problems.households.profiles import PROFILES
from compvae.train.engine import Engine
from compvae.train.loop import Trainer
from compvae.train.settings import resolve
from compvae.transport.network import Transport
from feeder_formula import feeder

FEEDER = problems.get("households")
NAMES = tuple(PROFILES)


def test_rows_of_one_day_share_their_factors_and_their_context():
    noise = Noise(2, 400)
    batch = FEEDER.draw(50, noise)
    assert isinstance(batch.parts, CountedParts)
    assert batch.shared is not None
    assert batch.context is not None
    first = batch.shared.first[batch.shared.group]
    assert torch.equal(batch.context, batch.context[first])
    assert bool((batch.shared.group.diff() >= 0).all())  # neighbours
    assert sorted(set(batch.shared.members.tolist())) == [1, 2, 3, 4]
    assert bool((first // 4 == torch.arange(400) // 4).all())  # within blocks of four
    factors = FEEDER.draw_factors(noise.at(first))
    for row in range(0, 400, 9):
        counts = batch.parts.counts[row].long().tolist()
        parts = dict(zip(NAMES, counts, strict=True))
        known = batch.context[row, [0, 3]].bool().tolist()
        day_type, temperature = ("workday", "weekend")[int(factors[row, 3])], float(factors[row, 0])
        given_values = {"day_type": day_type if known[0] else None, "temperature": temperature if known[1] else None}
        torch.testing.assert_close(batch.context[row], encode_context(FEEDER.context, given_values))
        assert sum(parts.values()) == batch.parts.sizes[row]


def test_a_drawn_feeder_is_the_feeder_of_its_homes_on_its_day():
    noise = Noise(6, 24)
    batch = FEEDER.draw(8, noise)
    assert batch.shared is not None
    parts = FEEDER.draw_parts(batch.parts.sizes.long(), noise)
    specifics = FEEDER.draw_specifics(parts, noise).numpy()
    factors = FEEDER.draw_factors(noise.at(batch.shared.first[batch.shared.group]))
    for row in range(24):
        size = int(batch.parts.sizes[row])
        names = [NAMES[kind] for kind in parts.kind[row, :size]]
        values = dict(zip(("temperature", "cloud", "match", "day_type"), factors[row].tolist(), strict=True))
        expected = feeder(names, specifics[row, :size], **values)
        np.testing.assert_allclose(batch.x[row].numpy(), expected, rtol=1e-4, atol=1e-3)


def test_each_covariate_is_unknown_half_of_the_time_and_independently():
    batch = FEEDER.draw(2, Noise(3, 8000))
    assert batch.context is not None
    assert batch.shared is not None
    known = batch.context[batch.shared.first][:, [0, 3]].numpy()
    se = 0.5 / math.sqrt(len(known))
    assert np.abs(known.mean(0) - 0.5).max() < 4.5 * se
    assert abs((known[:, 0] * known[:, 1]).mean() - 0.25) < 4.5 * se
    assert not batch.context[:, 1:3][batch.context[:, 0] == 0].any()


@pytest.mark.parametrize(("low", "high"), [(1, 50), (3, 3), (5, 20)])
def test_drawn_sizes_are_log_uniform(low, high):
    n = 6000
    sizes = FEEDER.draw(high, Noise(1, n), low).parts.sizes.numpy()
    expected = np.array([n * math.log((k + 1) / k) / math.log((high + 1) / low) for k in range(low, high + 1)])
    seen = np.array([(sizes == k).sum() for k in range(low, high + 1)])
    assert seen.sum() == n
    chi_square, freedom = ((seen - expected) ** 2 / expected).sum(), high - low
    assert chi_square <= freedom + 4.5 * math.sqrt(2 * freedom)


def test_compositions_range_from_even_mixtures_to_one_profile():
    counts = FEEDER.draw(50, Noise(1, 4000), 50).parts.counts.numpy()
    assert abs(counts.mean(0) / 50 - 1 / 8).max() < 4.5 * 0.17 / math.sqrt(4000)
    largest = counts.max(1) / 50
    assert np.quantile(largest, 0.05) < 0.25
    assert np.quantile(largest, 0.95) > 0.75


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_a_batch_drawn_by_several_processes_is_the_batch_drawn_by_one(world):
    config = resolve({"problem": "households", "batch": 38, "steps": 100})
    whole, _ = Trainer(config, measured_only=True).batch(70)
    shares = [Trainer(config, Engine(rank, world), measured_only=True).batch(70)[0] for rank in range(world)]
    assert whole.shared is not None
    assert whole.context is not None
    torch.testing.assert_close(torch.cat([share.x for share in shares]), whole.x, rtol=1e-5, atol=1e-4)
    assert torch.equal(torch.cat([share.context for share in shares]), whole.context)  # type: ignore[list-item]
    assert [m for s in shares for m in s.shared.members.tolist()] == whole.shared.members.tolist()  # type: ignore[union-attr]


def test_the_bound_of_several_processes_is_the_bound_of_one():
    model = OWN_DATA["meters"]["sums"](FEEDER).model_dump(mode="json")
    config = resolve({"problem": "households", "batch": 20, "steps": 100, "model": model})
    totals = {}
    for world in (1, 2):
        bounds = []
        for rank in range(world):
            trainer = Trainer(config, Engine(rank, world))
            bounds.append(elbo(trainer.model, *trainer.batch(3)).total)
        totals[world] = torch.cat(bounds)
    torch.testing.assert_close(totals[1], totals[2], rtol=1e-4, atol=1e-2)


def test_blocks_of_rows_stay_together_and_none_is_lost():
    rows = [Engine(rank, 3).rows(22, 4).tolist() for rank in range(3)]
    assert [row for share in rows for row in share] == list(range(22))
    assert all(share[0] % 4 == 0 for share in rows)
    with pytest.raises(ConfigError, match="2 blocks of 4 rows, too few for 3 devices"):
        Engine(0, 3).rows(8, 4)


def test_the_small_preset_reads_the_context_and_knows_who_feeds_in():
    model = seeded_network(preset(FEEDER, "small"), 0)
    assert isinstance(model, Transport)
    noise = Noise(0, 16)
    batch = FEEDER.draw(50, noise)
    assert model.config.context == FEEDER.context
    assert model.config.factors > 0
    assert [FEEDER.schema.categories[kind] for kind in range(8) if kind not in model.config.nonnegative] == ["solar"]
    assert torch.isfinite(model.matching_loss(batch, noise)).all()
