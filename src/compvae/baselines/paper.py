"""The paper's own configuration, narrowed: graph posterior, its decoder, z below W, its trunks where x has their shape.

As wide as makes it about as large as our model.  Its trunks have at least 16 channels: 0.3M parameters for curves,
0.8M for images, more than our models have.  Trained by our loop for the same time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch

from compvae.api import fit
from compvae.baselines.base import Budget, Context
from compvae.config import (
    TRUNK_SHAPES,
    GraphConfig,
    LatentConfig,
    ModelConfig,
    PaperDecoderConfig,
    PriorConfig,
    Trunk,
    ZNetworkConfig,
)
from compvae.errors import ConfigError
from compvae.model import Model
from compvae.network import unfilled_network
from compvae.problems import Problem
from compvae.train.loop import Trainer
from compvae.train.settings import RunConfig, resolve

__all__ = ["Paper", "narrowed", "parameters_of"]

WIDTHS = range(16, 257, 16)


class Paper:
    """CompVAE as published, on a budget.  metrics: of its training, as in metrics.jsonl."""

    name: ClassVar[str] = "paper"
    rate: ClassVar[float] = 3e-3
    batch: ClassVar[int] = 64

    def __init__(self, problem: Problem, parameters: int) -> None:
        self.problem, self.config = problem, narrowed(problem, parameters)
        self.model: Model | None = None
        self.metrics: list[dict[str, Any]] = []

    def fit(self, budget: Budget) -> Self:
        """Train in a directory of its own, which does not stay."""
        budget.watch(f"fitting {self.name}", 0, 1)
        options: dict[str, Any] = {
            "seed": budget.seed,
            "settings": self.problem.settings.model_dump(),
            "model": self.config.model_dump(mode="json"),
            "threads": torch.get_num_threads(),
            "rate": self.rate,
            "batch": self.batch,
            "kl_from": 0.02,
            "watch": 0,
        }
        steps = budget.number_of(_last_step(resolve({"problem": self.problem.name, **options})))
        with tempfile.TemporaryDirectory() as directory:
            run = fit(self.problem.name, out=Path(directory) / "run", steps=steps, **options)
        budget.watch(f"fitting {self.name}", 1, 1)
        self.model, self.metrics = run.model, run.metrics
        return self

    @property
    def trained(self) -> Model:
        """The model, once it is fitted."""
        if self.model is None:
            raise ConfigError("baseline paper has not been fitted yet")
        return self.model

    def sample(self, parts: object, n: int, seed: int = 0, context: Context | None = None) -> np.ndarray:
        """n wholes of one composition, float32 (n, *shape)."""
        return self.trained.sample(parts, n, seed, context)


def _last_step(config: RunConfig) -> Callable[[], None]:
    """A step of training as it is at the end, where wholes have the most parts."""
    trainer = Trainer(config)

    def step() -> None:
        trainer.state.step = config.recipe.steps - 1
        trainer.advance()

    return step


def narrowed(problem: Problem, parameters: int) -> ModelConfig:
    """The configuration whose number of parameters comes nearest."""
    return min((_of_width(problem, width) for width in WIDTHS), key=lambda c: abs(_size(c) - parameters))


def parameters_of(network: torch.nn.Module) -> int:
    """How many numbers are learned."""
    return sum(value.numel() for value in network.parameters())


def _size(config: ModelConfig) -> int:
    return parameters_of(unfilled_network(config))


def _of_width(problem: Problem, width: int) -> ModelConfig:
    """The paper's tables (appendix A) in the proportions of its channels."""
    trunks: dict[tuple[int, ...], Trunk] = {TRUNK_SHAPES["curve"]: "curve", TRUNK_SHAPES["image"]: "image"}
    trunk, image = trunks.get(problem.shape, "vector"), problem.shape == TRUNK_SHAPES["image"]
    floor, network = (5e-3 if image else 1e-3), ZNetworkConfig(width=4 * width, blocks=1)
    channels: dict[str, Any] = {} if trunk == "vector" else {"channels": width}
    hidden: dict[str, Any] = {"hidden": 4 * width} if trunk == "vector" else {}
    prior: dict[str, Any] = {} if problem.schema.countable else {"kind": "network", "hidden": 4 * width}
    return ModelConfig(
        parts=problem.schema,
        context=problem.context,
        shape=problem.shape,
        latent=LatentConfig(w=4 * width, z=width, z_place="below"),
        prior=PriorConfig(floor=floor, z_network=network, **prior),
        posterior=GraphConfig(trunk=trunk, embedding=32, width=4 * width, blocks=3, z_network=network, **channels),
        decoder=PaperDecoderConfig(trunk=trunk, stem="added" if image else "joined", floor=floor, **channels, **hidden),
    )
