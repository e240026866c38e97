"""Residual(N): h + Linear(ELU(Linear(h))), and stacks of it.

The paper's figure of its residual block is missing from the source; this is the form taken (errata).
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compvae.errors import ConfigError

__all__ = ["Residual", "Skipped", "mlp", "residual_stack", "white"]


def white(*shape: int) -> Tensor:
    """N(0, 1) of this shape, filled in place, so that ``unfilled_network`` can leave it out."""
    return torch.empty(shape).normal_()


class Residual(nn.Module):
    """h + Linear(ELU(Linear(h))) of width N."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, h: Tensor) -> Tensor:
        """h: (*, N) -> (*, N)."""
        out: Tensor = h + self.outer(F.elu(self.inner(h)))
        return out


def residual_stack(inputs: int, width: int, blocks: int, outputs: int, stem: bool = True) -> nn.Sequential:
    """Linear, ELU, (Residual, ELU) x blocks, Linear: (*, inputs) -> (*, outputs); without the stem, inputs = width."""
    if not stem and inputs != width:
        raise ConfigError(f"a network without stem needs inputs as wide as it is, got {inputs} for width {width}")
    first = [nn.Linear(inputs, width), nn.ELU()] if stem else []
    middle = [layer for _ in range(blocks) for layer in (Residual(width), nn.ELU())]
    return nn.Sequential(*first, *middle, nn.Linear(width, outputs))


class Skipped(nn.Module):
    """A h + network(h): what is linear is learned at once, the network bends it."""

    def __init__(self, network: nn.Module, inputs: int, outputs: int) -> None:
        super().__init__()
        self.straight, self.network = nn.Linear(inputs, outputs), network

    def forward(self, h: Tensor) -> Tensor:
        """h: (*, inputs) -> (*, outputs)."""
        out: Tensor = self.straight(h) + self.network(h)
        return out


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers of these widths with ELU between them: (*, widths[0]) -> (*, widths[-1])."""
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ELU())]
    return nn.Sequential(*layers[:-1])
