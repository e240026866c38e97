"""Presets: every one builds; the paper's are layer for layer its tables, as corrected by the errata."""

from __future__ import annotations

import pytest
import torch

from compvae import problems
from compvae.composing.generation import drawn
from compvae.errors import ConfigError
from compvae.network import CompVAE, seeded_network, unfilled_network
from compvae.noise import Noise
from compvae.presets import PRESETS, preset
from compvae.train.step import climbed

ALL = [(problem, name) for problem, names in PRESETS.items() for name in names]

CURVES = {  # paper, appendix A.1; name of the table in the comment, (outputs, inputs, ..) of each weight
    # p(w | l): an embedding of means and log-variances
    "prior.mean": (10, 1024), "prior.log_variance": (10, 1024),
    # tab:sines-struct-pz
    "z_prior.network.0.weight": (1280, 1024), "z_prior.network.2.weight": (512, 1280),
    # tab:sines-struct-px
    "decoder.stem.join.weight": (800, 1280),
    "decoder.stem.blocks.0.inner.weight": (800, 800), "decoder.stem.blocks.2.outer.weight": (800, 800),
    "decoder.trunk.convolutions.0.weight": (160, 80, 4), "decoder.trunk.convolutions.2.weight": (80, 80, 7),
    "decoder.trunk.convolutions.4.weight": (80, 40, 8), "decoder.trunk.convolutions.6.weight": (40, 40, 7),
    "decoder.trunk.convolutions.8.weight": (40, 20, 15), "decoder.trunk.convolutions.10.weight": (2, 20, 7),
    # tab:sines-preprocess-x
    "posterior.reader.trunk.convolutions.0.weight": (40, 1, 10), "posterior.reader.trunk.convolutions.2.weight": (40, 40, 7),
    "posterior.reader.trunk.convolutions.4.weight": (80, 40, 6), "posterior.reader.trunk.convolutions.6.weight": (80, 80, 7),
    "posterior.reader.trunk.convolutions.8.weight": (160, 80, 4), "posterior.reader.trunk.residual.0.inner.weight": (800, 800),
    # tab:sines-struct-qz
    "posterior.z_network.network.0.weight": (512, 800), "posterior.z_network.network.2.inner.weight": (512, 512),
    "posterior.z_network.network.4.inner.weight": (512, 512), "posterior.z_network.network.6.weight": (512, 512),
    # tab:sines-struct-qw and tab:graphblock
    "posterior.embedding.table.weight": (10, 1024),
    "posterior.blocks.0.message.0.inner.weight": (2080, 2080), "posterior.blocks.0.message.2.inner.weight": (2080, 2080),
    "posterior.blocks.0.received.inner.weight": (2080, 2080), "posterior.blocks.0.join.weight": (2048, 4160),
    "posterior.blocks.0.out.inner.weight": (2048, 2048), "posterior.blocks.1.join.weight": (2048, 4096),
    "posterior.blocks.2.join.weight": (2048, 4096), "posterior.head.weight": (3072, 2048),
}  # fmt: skip
IMAGES = {  # paper, appendix A.2
    # tab:blobs-struct-pw
    "prior.embedding.place.weight": (32, 2), "prior.embedding.table.weight": (5, 32),
    "prior.network.0.weight": (1024, 64), "prior.network.2.weight": (4096, 1024),
    # tab:blobs-struct-pz
    "z_prior.network.0.weight": (1024, 2048), "z_prior.network.2.inner.weight": (1024, 1024),
    "z_prior.network.4.weight": (2048, 1024),
    # tab:blobs-struct-px; errata: the last convolution is 24 -> 4
    "decoder.stem.of_w.inner.weight": (2048, 2048), "decoder.stem.of_z.weight": (2048, 1024),
    "decoder.stem.first.inner.weight": (2048, 2048), "decoder.stem.second.inner.weight": (2048, 2048),
    "decoder.trunk.convolutions.1.weight": (64, 128, 5, 5), "decoder.trunk.convolutions.4.weight": (32, 64, 5, 5),
    "decoder.trunk.convolutions.7.weight": (24, 32, 5, 5), "decoder.trunk.convolutions.9.weight": (4, 24, 5, 5),
    # tab:blobs-preprocess-x
    "posterior.reader.trunk.convolutions.0.weight": (16, 3, 5, 5), "posterior.reader.trunk.convolutions.2.weight": (32, 16, 4, 4),
    "posterior.reader.trunk.convolutions.4.weight": (32, 32, 5, 5), "posterior.reader.trunk.convolutions.6.weight": (48, 32, 4, 4),
    "posterior.reader.trunk.convolutions.8.weight": (64, 48, 4, 4),
    "posterior.reader.trunk.residual.0.inner.weight": (1024, 1024),
    # tab:blobs-struct-qz
    "posterior.z_network.network.0.inner.weight": (1024, 1024), "posterior.z_network.network.2.weight": (2048, 1024),
    # tab:blobs-struct-qw
    "posterior.embedding.place.weight": (32, 2), "posterior.embedding.table.weight": (5, 32),
    "posterior.blocks.0.join.weight": (2048, 4224), "posterior.blocks.1.join.weight": (2048, 4096),
    "posterior.blocks.2.join.weight": (2048, 4096), "posterior.head.weight": (6144, 2048),
}  # fmt: skip


@pytest.mark.parametrize(("problem", "table"), [("sines", CURVES), ("colours", IMAGES)])
def test_the_papers_shapes_are_those_of_its_tables(problem: str, table: dict[str, tuple[int, ...]]) -> None:
    with torch.device("meta"):
        shapes = {
            name: tuple(t.shape) for name, t in CompVAE(preset(problems.get(problem), "paper")).state_dict().items()
        }
    assert {name: shapes.get(name) for name in table} == table
    # nothing else: what the table does not list are biases and the second halves of listed residual blocks
    listed = {name.rsplit(".", 1)[0].removesuffix(".inner").removesuffix(".outer") for name in table}
    rest = {name.rsplit(".", 1)[0].removesuffix(".inner").removesuffix(".outer") for name in shapes} - listed
    like = {f"posterior.blocks.{b}.{part}" for b in (0, 1, 2) for part in ("message.0", "message.2", "received", "out")}
    assert rest <= like | {"decoder.stem.blocks.1"}


@pytest.mark.parametrize(("problem", "name"), ALL)
def test_every_preset_builds_and_one_step_forward_and_back_is_finite(problem: str, name: str) -> None:
    source = problems.get(problem)
    model = seeded_network(preset(source, name), 0).train()
    batch = source.draw(3, Noise(0, 2))
    bound = climbed(model, batch, Noise(1, 2))
    (-bound.total.mean()).backward()
    assert torch.isfinite(bound.total).all()
    for parameter, value in model.named_parameters():
        assert value.grad is not None, parameter
        assert torch.isfinite(value.grad).all(), parameter
    assert drawn(model, batch.parts, Noise(0, 2), None, noise=True).shape == (2, *source.shape)


def test_the_small_presets_are_small() -> None:
    for problem in PRESETS:
        model = unfilled_network(preset(problems.get(problem), "small"))
        assert sum(t.numel() * 4 for t in model.state_dict().values()) < 8_000_000


def test_a_seeded_model_leaves_the_global_generator_alone() -> None:
    config = preset(problems.get("sines"), "small")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    a, b, c = CompVAE.seeded(config, 1), CompVAE.seeded(config, 1), CompVAE.seeded(config, 2)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(a.decoder.loading, b.decoder.loading)  # type: ignore[arg-type]
    assert not torch.equal(a.decoder.loading, c.decoder.loading)  # type: ignore[arg-type]


def test_unknown_presets_and_settings_that_do_not_fit_are_one_sentence() -> None:
    with pytest.raises(ConfigError, match="the presets are paper, paper-narrow, small"):
        preset(problems.get("sines"), "huge")
    with pytest.raises(ConfigError, match=r"curve trunk .* is for x of shape \(200,\)") as caught:
        preset(problems.get("sines", timesteps=100), "paper")
    assert "\n" not in str(caught.value)
