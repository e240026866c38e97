"""Requests against the limits and the model: what comes out can be computed in time, or is refused in one sentence."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compvae.checks import number_array
from compvae.config import ModelConfig
from compvae.context import read_context
from compvae.errors import DataError
from compvae.parts import Multiset
from compvae.problems import Problem
from compvae.server.catalogue import Catalogue, Served
from compvae.server.faults import TooMuchError, UnknownNameError
from compvae.server.limits import Limits
from compvae.server.schemas import EditIn, InferIn, SampleIn, TailIn, TruthIn

__all__ = ["Asked", "read_edit", "read_infer", "read_sample", "read_tail", "read_truth"]


@dataclass(frozen=True)
class Asked:
    """A request that was read.  deadline: on time.monotonic's clock.  abandoned: nobody waits for it any longer."""

    served: Served
    parts: Multiset
    context: Mapping[str, Any] | None
    deadline: float
    abandoned: threading.Event = field(default_factory=threading.Event)

    @property
    def problem(self) -> Problem:
        """The problem whose truth is known."""
        if self.served.problem is None:
            raise UnknownNameError(f"the true process behind {self.served.name} is not known")
        return self.served.problem


def read_sample(request: SampleIn, catalogue: Catalogue, limits: Limits) -> Asked:
    """Keys are checked where they are used."""
    asked = _read(request, catalogue, limits)
    _check_amount(asked, request.n, limits.n, limits)
    config = asked.served.model.config
    if request.by_part and isinstance(config, ModelConfig) and not config.latent.blocks:
        _check_listed(asked.parts, limits)
    return asked


def read_truth(request: TruthIn, catalogue: Catalogue, limits: Limits) -> Asked:
    """Exact wholes are made part by part."""
    asked = _read(request, catalogue, limits)
    _check_amount(asked, request.n, limits.n, limits)
    _check_work(asked.parts, request.n, asked.problem.shape, limits)
    return asked


def read_tail(request: TailIn, catalogue: Catalogue, limits: Limits) -> Asked:
    """How many wholes a tail takes is not known before; the deadline ends it."""
    asked = _read(request, catalogue, limits)
    _check_amount(asked, request.n, limits.tail_n, limits)
    if request.quantile > limits.quantile:
        raise TooMuchError(f"quantile: at most {limits.quantile} here; compvae tail goes further")
    return asked


def read_infer(request: InferIn, catalogue: Catalogue, limits: Limits) -> Asked:
    """x must have the model's shape; its parts are listed one by one in the answer."""
    asked = _read(request, catalogue, limits)
    if len(asked.parts.runs) > limits.placed:
        raise TooMuchError(
            f"parts: at most {limits.placed} different parts of an observed whole, got {len(asked.parts.runs)}"
        )
    if request.drawn is not None:
        _check_work(asked.parts, 1, asked.problem.shape, limits)
    elif (shape := number_array(request.x, "x").shape) != asked.served.model.shape:
        raise DataError(f"x must have shape {asked.served.model.shape}, got {shape}")
    return asked


def read_edit(request: EditIn, catalogue: Catalogue, limits: Limits) -> Asked:
    """Each step is one edit of the composition."""
    asked = read_infer(request, catalogue, limits)
    _check_amount(asked, max(request.n, 1), limits.n, limits)
    if len(request.edits) > limits.edits:
        raise TooMuchError(f"edits: at most {limits.edits} steps, got {len(request.edits)}")
    schema = asked.served.model.parts
    added = [schema.parse(step.add, "add") for step in request.edits if step.add is not None]
    total = Multiset(schema, asked.parts.runs + tuple(run for parts in added for run in parts.runs))
    _check_size(total, asked.served, limits)
    if request.drawn is not None:
        _check_work(total, 1, asked.problem.shape, limits)
    return asked


def _read(request: Any, catalogue: Catalogue, limits: Limits) -> Asked:
    served = catalogue.get(request.model)
    if len(request.parts) > limits.runs:
        raise TooMuchError(f"parts: at most {limits.runs} entries, got {len(request.parts)}")
    parts = served.model.parts.parse(request.parts)
    read_context(served.model.config.context, request.context)
    _check_size(parts, served, limits)
    return Asked(served, parts, request.context, time.monotonic() + limits.seconds)


def _check_size(parts: Multiset, served: Served, limits: Limits) -> None:
    if parts.size > limits.parts:
        raise TooMuchError(f"parts: at most {limits.parts:,} parts here, got {parts.size:,}")
    if not served.model.parts.countable:
        _check_listed(parts, limits)


def _check_listed(parts: Multiset, limits: Limits) -> None:
    if parts.size > limits.placed:
        raise TooMuchError(f"parts: at most {limits.placed} parts that are seen one by one, got {parts.size:,}")


def _check_amount(asked: Asked, n: int, most: int, limits: Limits) -> None:
    size = math.prod(asked.served.model.shape)
    if n > most:
        raise TooMuchError(f"n: at most {most} wholes here, got {n:,}; compvae sample makes more")
    if n * size > limits.values:
        raise TooMuchError(f"n: at most {max(1, limits.values // size)} wholes of this size here, got {n:,}")
    if not asked.served.model.parts.countable:
        _check_work(asked.parts, n, asked.served.model.shape, limits)


def _check_work(parts: Multiset, n: int, shape: tuple[int, ...], limits: Limits) -> None:
    work = parts.size * n * math.prod(shape)
    if work > limits.work:
        raise TooMuchError(f"parts x n x size is {work:,}, at most {limits.work:,} here; ask for fewer wholes or parts")
