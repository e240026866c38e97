"""Processes and devices: the only file that knows Lightning Fabric.

Everything random in a step is a function of (seed, step, example), so a process needs to know only which rows of the
global batch are its own, and one collective a step: the sum of gradients, prior statistics, terms and stop signals.
One process on the CPU needs no Fabric at all, and does not import it.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from compvae.errors import ConfigError
from compvae.train.signals import handled

__all__ = ["DTYPES", "Engine", "fabric_for", "launch"]

DTYPES = {"32": torch.float32, "64": torch.float64, "bf16-mixed": torch.float32}


@dataclass(frozen=True)
class Engine:
    """What a process knows of its place.

    rank, world: which of how many.  device: where its tensors live.  precision: a key of DTYPES.
    fabric: None in a single process on the CPU.
    """

    rank: int = 0
    world: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009
    precision: str = "32"
    fabric: Any = None

    @property
    def dtype(self) -> torch.dtype:
        """Type of weights and data."""
        return DTYPES[self.precision]

    @property
    def main(self) -> bool:
        """True for the process that writes files and talks."""
        return self.rank == 0

    def rows(self, batch: int, together: int = 1) -> Tensor:
        """The rows of the global batch that this process computes, (B / world,) int64; blocks of rows stay together."""
        blocks = torch.arange(batch).split(together)
        if len(blocks) < self.world:
            raise ConfigError(
                f"a batch of {batch} makes {len(blocks)} blocks of {together} rows, too few for {self.world} devices; "
                f"use a larger batch or fewer devices"
            )
        share = torch.arange(len(blocks)).tensor_split(self.world)[self.rank]
        return torch.cat(blocks[int(share[0]) : int(share[-1]) + 1])

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Add up over the processes, in place, in one collective.  tensors: any shapes."""
        if self.world == 1:
            return
        flat = torch.cat([tensor.detach().reshape(-1).double() for tensor in tensors])
        total = self.fabric.all_reduce(flat, reduce_op="sum")
        for tensor, piece in zip(tensors, total.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.detach().copy_(piece.view_as(tensor))

    def share(self, value: Any) -> Any:
        """What process 0 holds, in every process."""
        return value if self.world == 1 else self.fabric.broadcast(_Box(value)).value

    def autocast(self) -> Any:
        """The context in which networks run."""
        enabled = self.precision == "bf16-mixed"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=enabled)


def launch(work: Callable[[Engine], Any], devices: int = 1, accelerator: str = "cpu", precision: str = "32") -> Any:
    """Run ``work`` in every process; returns what process 0 returned.

    Under ``torchrun`` or ``fabric run`` the processes are there already; otherwise ``devices`` are started here.
    """
    fabric = fabric_for(devices, accelerator)
    if precision == "bf16-mixed" and (fabric is None or fabric.device.type == "cpu"):
        _probe_bfloat16()
    if fabric is None:
        return work(Engine(precision=precision))
    task = _Task(work, precision)
    if _started_outside() or devices == 1:
        return fabric.launch(task).value
    with handled(_forward):
        return fabric.launch(task).value


def fabric_for(devices: int, accelerator: str) -> Any:
    """Fabric for these devices, None where one process on the CPU needs none; a ConfigError if they are not there."""
    if devices == 1 and accelerator == "cpu" and not _started_outside():
        return None
    from lightning_fabric import Fabric

    strategy = "ddp" if _started_outside() else ("ddp_spawn" if devices > 1 else "auto")
    try:
        return Fabric(accelerator=accelerator, devices=devices, strategy=strategy)
    except Exception as error:  # Fabric has no class of its own for "no such device"
        reason = str(error).splitlines()[0]
        raise ConfigError(f"accelerator {accelerator!r} with {devices} devices cannot be used: {reason}") from None


PROBE = """
import torch
layer = torch.nn.Linear(64, 64)
with torch.autocast("cpu", dtype=torch.bfloat16):
    layer(torch.randn(64, 64)).float().sum().backward()
"""


def _probe_bfloat16() -> None:
    """Some processors advertise bfloat16 instructions that the machine does not give, and die of them: ask a child."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=False)
    if done.returncode:
        raise ConfigError(f"precision bf16-mixed does not work on this processor (probe ended with {done.returncode})")


def _started_outside() -> bool:
    return "LOCAL_RANK" in os.environ and "WORLD_SIZE" in os.environ


class _Box:
    """Carries a result from a process to its parent as it is: Fabric looks into containers and dataclasses."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True)
class _Task:
    """What a started process does: find out where it is, then work."""

    work: Callable[[Engine], Any]
    precision: str

    def __call__(self, fabric: Any) -> _Box:
        done = self.work(Engine(fabric.global_rank, fabric.world_size, fabric.device, self.precision, fabric))
        _part(fabric)
        return _Box(done)


def _part(fabric: Any) -> None:
    """Close the connections while every process still lives.

    Left to the end of the interpreter, a process may find its peer gone while its own threads still run, and is aborted
    after all its work is done.
    """
    if fabric.world_size > 1 and torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def _forward(number: int, frame: FrameType | None) -> None:
    """Hand a signal on to the processes started here, which save and stop; then the parent follows."""
    for child in multiprocessing.active_children():
        if child.pid is not None:
            os.kill(child.pid, number)
