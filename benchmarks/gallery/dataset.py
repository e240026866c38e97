"""Wholes of a problem as a stranger would bring them: a directory with wholes.npz and parts.csv (docs/meters.md)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from compvae.batch import unpad
from compvae.noise import Noise
from compvae.problems import Problem

WHOLES, SEED = 20_000, 1


def write_dataset(problem: Problem, directory: Path, wholes: int = WHOLES, seed: int = SEED) -> Path:
    """Wholes of the training range; wholes that share a factor say so where the problem does."""
    batch = problem.draw(problem.max_parts, Noise(seed, wholes))
    names = [attribute.name for attribute in problem.schema.attributes]
    lines = [",".join(["whole_id", *names])]
    for row, composition in enumerate(unpad(batch.parts.padded(), problem.schema)):
        lines += [",".join([str(row), *(str(part[name]) for name in names)]) for part in composition.dicts()]
    arrays = {"x": batch.x.numpy(), "whole_id": np.arange(wholes)}
    if batch.shared is not None:
        arrays["shared_id"] = batch.shared.group.numpy()
    directory.mkdir(parents=True, exist_ok=True)
    np.savez(directory / "wholes.npz", **arrays)  # type: ignore[arg-type]
    (directory / "parts.csv").write_text("\n".join(lines) + "\n")
    return directory
