"""A checkpoint: everything a run needs to go on as if nothing had happened, in one safetensors file with JSON inside.

Tensors: the model (prior moments included), Adam's moments, the moving average of the weights.  JSON: step, counters,
factor on the rate, best held-out bound.  Data and noise need nothing: they are functions of (seed, step).
A hash over numbers and JSON is part of the file, so that damage of any kind is found on reading.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from compvae.errors import CheckpointError, OutputError
from compvae.files import reason, write_atomic
from compvae.network import Network

__all__ = ["Checkpoints", "RunState", "read", "restore", "snapshot"]

FORMAT_VERSION = 1
PREFIX, SUFFIX = "step-", ".safetensors"


@dataclass
class RunState:
    """Where a run stands beside its tensors.

    step: steps done.  skipped: steps not applied, in all.  streak: of these, how many just now in a row.
    slower: factor on the rate, halved at each rollback.  best: highest held-out bound.  waiting: held-out checks since.
    """

    step: int = 0
    skipped: int = 0
    streak: int = 0
    rollbacks: int = 0
    slower: float = 1.0
    best: float | None = None
    waiting: int = 0


def snapshot(
    model: Network, optimiser: torch.optim.Optimizer, average: Mapping[str, Tensor], state: RunState
) -> tuple[dict[str, Tensor], RunState]:
    """Copies of all that changes, tensors by name: model.<name>, average.<name>, optimiser.<moment>.<name>."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"average.{name}": value for name, value in average.items()}
    for name, parameter in model.named_parameters():
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser.{key}.{name}"] = value
    return {name: value.detach().cpu().clone() for name, value in tensors.items()}, replace(state)


@torch.no_grad()
def restore(
    tensors: Mapping[str, Tensor], model: Network, optimiser: torch.optim.Optimizer, average: Mapping[str, Tensor]
) -> None:
    """Put a snapshot back; a :class:`CheckpointError` where it does not fit this model."""
    targets: dict[str, Tensor] = {f"model.{name}": value for name, value in model.state_dict().items()}
    targets |= {f"average.{name}": value for name, value in average.items()}
    parameters = dict(model.named_parameters())
    optimiser.state.clear()
    for key, value in tensors.items():
        kind, _, rest = key.partition(".")
        if kind == "optimiser":
            moment, _, name = rest.partition(".")
            if name not in parameters:
                raise CheckpointError(f"the checkpoint holds Adam's state of {name!r}, which this model does not have")
            where = torch.device("cpu") if moment == "step" else parameters[name].device
            optimiser.state[parameters[name]][moment] = value.clone().to(where)
    for name, target in targets.items():
        if name not in tensors or tensors[name].shape != target.shape:
            raise CheckpointError(
                f"the checkpoint has no {name!r} of shape {tuple(target.shape)}; it is of another model"
            )
        target.copy_(tensors[name])


class Checkpoints:
    """The checkpoints of a run: the last ``keep``, and the best by the held-out bound."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        self.directory, self.keep, self.best = directory, keep, directory / f"best{SUFFIX}"

    def save(self, tensors: Mapping[str, Tensor], state: RunState, best: bool = False) -> Path:
        """Write one, then let go of the oldest; the file is there whole or not at all."""
        text = json.dumps({"format_version": FORMAT_VERSION, **asdict(state)})
        data = save(dict(tensors), {"state": text, "sha256": _digest(tensors, text)})
        path = self.directory / f"{PREFIX}{state.step:09d}{SUFFIX}"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)
            if best:
                write_atomic(self.best, data)
            for old in self.paths()[: -self.keep]:
                old.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(
                f"{path}: cannot write the checkpoint, {reason(error)}; earlier ones are intact"
            ) from None
        return path

    def tidy(self) -> None:
        """Remove what saves left behind that were killed half-way; such files are never read."""
        for path in self.directory.glob(f".*{SUFFIX}.*"):
            path.unlink(missing_ok=True)

    def paths(self) -> list[Path]:
        """The checkpoints there are, oldest first."""
        return sorted(self.directory.glob(f"{PREFIX}*{SUFFIX}"))

    def newest(self) -> tuple[Path, dict[str, Tensor], RunState, list[str]]:
        """The newest readable one: its path, its tensors, its state, and why newer ones were passed over."""
        passed: list[str] = []
        for path in reversed(self.paths()):
            try:
                return path, *read(path), passed
            except CheckpointError as error:
                passed.append(str(error))
        more = f" ({passed[0]})" if passed else ""
        raise CheckpointError(f"{self.directory} holds no readable checkpoint{more}; start the run anew")


def read(path: Path) -> tuple[dict[str, Tensor], RunState]:
    """One checkpoint, its hash checked."""
    try:
        with safe_open(path, framework="pt") as handle:
            metadata = handle.metadata() or {}
            tensors = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, RuntimeError, ValueError, OverflowError) as error:
        raise CheckpointError(f"{path}: cannot read the checkpoint, {reason(error)}") from None
    text = metadata.get("state", "")
    if _digest(tensors, text) != metadata.get("sha256"):
        raise CheckpointError(f"{path}: the checkpoint is damaged (sha256 differs)")
    return tensors, _state(path, text)


def _state(path: Path, text: str) -> RunState:
    try:
        values: dict[str, Any] = json.loads(text)
        version = values.pop("format_version")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise CheckpointError(f"{path}: the checkpoint's state is not readable") from None
    if version != FORMAT_VERSION:
        raise CheckpointError(f"{path}: format_version is {version!r}, this version of compvae reads {FORMAT_VERSION}")
    if set(values) != {field.name for field in fields(RunState)}:
        raise CheckpointError(f"{path}: the checkpoint's state has other fields than this version of compvae writes")
    return RunState(**values)


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """Hash of names, types, shapes, numbers and JSON."""
    total = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(struct.pack("<q", tensor.numel()))
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
