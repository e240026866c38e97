"""What the tests of runs share: a tiny run, and how to compare two."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from compvae import problems
from compvae.presets import preset
from compvae.train.checkpoint import Checkpoints
from compvae.train.observers import read_metrics

TINY: dict[str, Any] = {
    "problem": "sines", "steps": 24, "batch": 8, "threads": 1, "checkpoint_every": 6, "check_every": 9, "held_out": 8,
    "log_every": 4, "average": 0.9, "settings": {"timesteps": 12, "resolution": 6},
}  # fmt: skip


def _amortised() -> dict[str, Any]:
    """The tiny run with an encoder and a joint link: nothing is calibrated at its end."""
    config = preset(problems.get("sines", **TINY["settings"]), "small").model_dump(mode="json")
    config["posterior"] = {"kind": "collapsed", "width": 32, "blocks": 1}
    config["decoder"] = {"kind": "linked", "features": 16, "width": 32, "blocks": 1}
    return {**TINY, "model": config}


AMORTISED = _amortised()


def tensors_of(directory: Path) -> dict[str, torch.Tensor]:
    """Everything in the newest checkpoint: weights, Adam's moments, average."""
    return Checkpoints(directory / "checkpoints").newest()[1]


def metrics_of(directory: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "seconds"} for line in read_metrics(directory / "metrics.jsonl")]


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def cli(*arguments: str, limit: int | None = None, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    def fewer_bytes() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    command = [sys.executable, "-m", "compvae", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=fewer_bytes, **kwargs)
