"""Which preset a choice takes: the best by the energy score, the invertible one where that is not beyond doubt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from compvae.noise import Noise
from compvae.problems.source import Source
from compvae.train.choice import Tried, _ranked, _Trial
from compvae.verdict.scores import Scores

SOURCE = cast(Source, SimpleNamespace(max_parts=4))


def trial(preset: str, worse: float) -> _Trial:
    """A candidate whose energy scores are ``worse`` higher than 1 on average, with noise that all have in common."""
    noise = Noise(3, 200)
    own = noise.normal(preset, 1).view(50, 4)  # of K = 1 2 3 4 in turn
    energy = 1 + worse + 0.3 * noise.normal("common", 1)[:, 0] + 0.1 * (own - own.mean(0)).flatten()
    other = torch.zeros(200)
    scores = Scores(energy, other, other, other, other, torch.arange(200) % 4 + 1, 1.0, True)
    return _Trial(cast(Any, SimpleNamespace(preset=preset)), Tried(preset, 9, 1.0, 1.0, 2), scores)


@pytest.mark.parametrize(("worse", "chosen"), [(-0.05, "transport"), (0.005, "transport"), (0.1, "sums")])
def test_the_invertible_model_wins_a_tie(worse: float, chosen: str) -> None:
    ranked = _ranked([trial("transport", worse), trial("small", 0.5), trial("sums", 0.0)], SOURCE)
    assert ranked[0].config.preset == chosen
    assert ranked[-1].config.preset == "small"


def test_a_trial_that_failed_does_not_win() -> None:
    failed = _Trial(cast(Any, SimpleNamespace(preset="transport")), Tried("transport", 0, 9.0, 9.0, 2, failure="no"))
    assert _ranked([failed, trial("sums", 0.0)], SOURCE)[0].config.preset == "sums"
