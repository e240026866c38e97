"""x(t): how long who comes at t has to wait, by Lindley's recursion W_{k+1} = max(0, W_k + S_k - A_k).

A part is a customer of one of five types, by whom the time of arrival and the service time S are distributed; both are
hidden.  A is the time between two arrivals.  Nothing is a sum: whether a customer is felt at all depends on the others.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from compvae.batch import PaddedParts
from compvae.noise import Noise
from compvae.parts import Categorical, PartsSchema
from compvae.problems import Problem, register

TYPES = {  # mean and spread of the arrival, h; median and spread (of the logarithm) of the service, h
    "early": (8.0, 0.8, 0.4, 0.3),
    "noon": (12.0, 0.7, 0.5, 0.3),
    "any": (13.0, 3.0, 0.6, 0.5),
    "long": (11.0, 2.0, 1.5, 0.3),
    "late": (17.0, 1.5, 0.8, 0.5),
}
TIMES = torch.linspace(6.0, 22.0, 64)
NEVER = 1e6  # when a padded customer comes


@register
class Queue(Problem):
    """Customers of one counter through a day."""

    name: ClassVar[str] = "queue"
    summary: ClassVar[str] = "waiting times through a day at a counter, in hours"
    specific_names: ClassVar[tuple[str, ...]] = ("arrival", "service")
    extensive: ClassVar[bool] = True
    max_parts: ClassVar[int] = 12
    schema = PartsSchema(attributes=(Categorical(name="type", categories=tuple(TYPES)),))
    shape = (len(TIMES),)

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """(arrival, service) of each customer, in hours, (B, K, 2)."""
        mean, spread, median, ratio = torch.tensor(list(TYPES.values()))[parts.kind].unbind(-1)
        arrival, service = noise.normal("specifics", parts.kind.shape[1], 2).unbind(-1)
        return torch.stack([mean + spread * arrival, median * (ratio * service).exp()], -1)

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        """specifics: (B, K, 2) -> x (B, 64)."""
        arrival, order = specifics[..., 0].masked_fill(~parts.mask, NEVER).sort(1)
        service = specifics[..., 1].gather(1, order)
        wait = torch.zeros(len(parts))  # of the customer at hand
        left: list[Tensor] = []  # the work that lies there once each has come, (B,)
        for k in range(arrival.shape[1]):
            if k:
                wait = (left[-1] - (arrival[:, k] - arrival[:, k - 1])).clamp(min=0)
            left.append(wait + service[:, k])
        times = TIMES.expand(len(parts), -1).contiguous()
        last = torch.searchsorted(arrival.contiguous(), times, right=True) - 1  # who came last before t, -1: nobody
        behind = last.clamp(min=0)
        work = torch.stack(left, 1).gather(1, behind) - (times - arrival.gather(1, behind))
        return torch.where(last >= 0, work.clamp(min=0), 0.0)
