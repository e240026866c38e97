"""Noise as a function: number = hash(seed, fold, name, row, position), and of nothing else.

A stream of random numbers ties every draw to all draws before it: change the padding, the chunk size or the number
of processes and everything moves.  Here each number is computed from its own coordinates by the SplitMix64 finaliser
(Steele, Lea & Flood 2014), normals by Box-Muller, so that

* row r of a batch has the same noise whatever rows stand beside it (chunks, processes, other requests);
* position (k, d) of a row has the same noise whatever the padding K;
* nothing depends on the order in which a model asks for its draws.

The same integers come out on every device.
"""

from __future__ import annotations

import hashlib
import math
import operator
from typing import Protocol

import torch
from torch import Tensor

from compvae.errors import DataError

__all__ = ["Noise", "NormalSource", "Still"]

_LOW_32 = 0xFFFFFFFF


def _signed(value: int) -> int:
    """The int64 with the same 64 bits as ``value``: torch has no unsigned 64-bit arithmetic."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


_ROW_STEP, _POSITION_STEP = _signed(0x9E3779B97F4A7C15), _signed(0xD1B54A32D192ED03)
_MIX_1, _MIX_2 = _signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB)


def _mix_(z: Tensor) -> Tensor:
    """SplitMix64 finaliser, in place; shifts are masked because int64 shifts carry the sign.

    z: int64, any shape.
    """
    for shift, factor in ((30, _MIX_1), (27, _MIX_2), (31, 1)):
        z ^= (z >> shift).bitwise_and_((1 << (64 - shift)) - 1)
        if factor != 1:
            z *= factor
    return z


def _digest(*keys: object) -> int:
    """64 bits that identify the keys; ``repr`` keeps 1 and "1" apart."""
    return int.from_bytes(hashlib.blake2b(repr(keys).encode(), digest_size=8).digest(), "little")


class NormalSource(Protocol):
    """Whatever hands out standard normal numbers by name: :class:`Noise`, or numbers that are already there."""

    def normal(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """-> (B, *shape), standard normal."""


class Noise:
    """Source of noise for a batch of rows.

    seed: any integer.
    rows: (B,) int64, the identity of each row (example index), or an int B for rows 0..B-1.
    fold: further integers the noise depends on, such as the training step.
    """

    def __init__(self, seed: int, rows: Tensor | int, *fold: int) -> None:
        try:
            self.seed = operator.index(seed)
        except TypeError:
            raise DataError(f"seed must be an integer, got {seed!r}") from None
        self.fold_keys = tuple(int(key) for key in fold)
        self.rows = torch.arange(rows) if isinstance(rows, int) else rows

    def __len__(self) -> int:
        return len(self.rows)

    def of_rows(self, rows: Tensor) -> Noise:
        """The noise of other rows, all else the same.  rows: (R,) int64, the identity of each."""
        return Noise(self.seed, rows, *self.fold_keys)

    def fold(self, key: int) -> Noise:
        """Independent noise for the same rows, for example for another step or another draw."""
        return Noise(self.seed, self.rows, *self.fold_keys, key)

    def at(self, rows: Tensor) -> Noise:
        """The noise of the rows at these positions.

        rows: (R,) int64 positions, or (B,) bool.
        """
        return self.of_rows(self.rows[rows])

    def to(self, device: torch.device) -> Noise:
        """The same noise, drawn on another device."""
        return self.of_rows(self.rows.to(device))

    def common(self) -> Noise:
        """One row of noise that does not depend on the rows: for what a whole batch shares."""
        return self.of_rows(torch.full((1,), -1, device=self.rows.device))

    def _bits(self, name: str, count: int) -> Tensor:
        """-> (B, count) int64, 64 random bits each."""
        base = _signed(_digest(self.seed, self.fold_keys, name))
        positions = torch.arange(count, device=self.rows.device).mul_(_POSITION_STEP)
        return _mix_((self.rows * _ROW_STEP).add_(base)[:, None] + positions)

    def uniform(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """-> (B, *shape), uniform on the open interval (0, 1)."""
        # 23 bits and a half: exactly representable in float32, so that 0 and 1 never come out.
        bits = (self._bits(name, math.prod(shape)) >> 41) & ((1 << 23) - 1)
        return bits.to(dtype).add_(0.5).mul_(2.0**-23).view(len(self.rows), *shape)

    def normal(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """-> (B, *shape), standard normal."""
        size = math.prod(shape)
        bits = self._bits(name, (size + 1) // 2)
        radius = (bits >> 32).bitwise_and_(_LOW_32).to(dtype).add_(0.5).mul_(2.0**-32).log_().mul_(-2.0).sqrt_()
        angle = bits.bitwise_and_(_LOW_32).to(dtype).mul_(2.0 * math.pi * 2.0**-32)
        pairs = torch.view_as_real(torch.polar(radius, angle))
        return pairs.view(len(self.rows), -1)[:, :size].reshape(len(self.rows), *shape)

    def integers(self, name: str, low: int, high: int, *shape: int) -> Tensor:
        """-> (B, *shape) int64, uniform on low..high inclusive."""
        assert 0 <= high - low < 2**31
        # 32 random bits times the range, highest bits kept: a bias of range / 2^32, and no slow division.
        bits = (self._bits(name, math.prod(shape)) >> 32).bitwise_and_(_LOW_32)
        return bits.mul_(high - low + 1).bitwise_right_shift_(32).add_(low).view(len(self.rows), *shape)

    def permutation(self, name: str, size: int) -> Tensor:
        """-> (size,) int64: one permutation shared by all rows."""
        return self.common()._bits(name, size)[0].argsort()


class Still(Noise):
    """Normal numbers that are 0 everywhere: whatever is drawn with them is at its mean."""

    def __init__(self, rows: Tensor | int) -> None:
        super().__init__(0, rows)

    def of_rows(self, rows: Tensor) -> Still:
        """The same for other rows.  rows: (R,) int64."""
        return Still(rows)

    def fold(self, key: int) -> Still:
        """The same: there is nothing that could be independent."""
        return self

    def normal(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """-> (B, *shape), zeros."""
        return torch.zeros(len(self.rows), *shape, dtype=dtype, device=self.rows.device)
