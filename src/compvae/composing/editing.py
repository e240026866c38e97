"""Latents of a whole under edits: remove parts by the bridge, add parts from the prior, hold the noise of z.

Where q is over W = sum_i w_i, and parts R of the parts P of a sum are taken away, what is left is a draw of

    W_rest | W ~ N( M_rest + S_rest/S (W - M),  S_rest (S - S_rest)/S )          (the bridge; theory, section 4)

with M, S the prior's moments of the sum over P, M_rest, S_rest over P without R: O(#kinds) whatever K is.  Where q is
over the parts, a part that goes takes its own w along.  Added parts are drawn from p(w | l).

z, which hangs below W, keeps its noise u = (z - mean)/deviation under p(z | W).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from compvae.batch import Batch, PaddedParts, Parts
from compvae.distributions import Normal
from compvae.inference import Inferred, infer
from compvae.network import CompVAE
from compvae.noise import Noise, Still

__all__ = ["Edited", "Group", "Known", "bridge", "edited", "kept_or_found", "redrawn"]

KEPT = 32  # batches whose posterior is kept: 1,024 wholes


@dataclass(frozen=True)
class Group:
    """Parts that came together, and what was taken away from them since.

    stages: the parts at first and after each removal, one view each, rows as in the batch.
    steps: number of the edit that led to each stage, which its noise hangs on; as many as stages.
    kept: which of the first stage's parts are left at the end, (B, K) bool, where q is over the parts.
    now: the first stage's parts as they are now, those that went masked, where parts can be moved.
    gone: nothing of it is left in any whole.
    """

    stages: tuple[Parts, ...]
    steps: tuple[int, ...]
    kept: Tensor | None = None
    gone: bool = False
    now: PaddedParts | None = None

    def rows(self, rows: Tensor) -> Group:
        """The group in some of the wholes.  rows: (R,) int64."""
        kept = None if self.kept is None else self.kept[rows]
        now = None if self.now is None else self.now.rows(rows)
        return Group(tuple(stage.rows(rows) for stage in self.stages), self.steps, kept, self.gone, now)


@dataclass(frozen=True)
class Edited:
    """p(x | ..) of edited wholes, over (B, *shape), and what it was decoded from.

    code: as the decoder takes it; {w_i}: observed parts first.  parts: those of the code, the ones that went masked.
    """

    x: Normal
    code: Tensor
    parts: Parts


Known = dict[int, Any]
"""What was found last that depends on no draw, under the keys of the batches."""

Found = TypeVar("Found")


def kept_or_found(known: Known, key: int, find: Callable[[], Found]) -> Found:
    """What is known under this key, found now if it is not; that of KEPT batches is kept."""
    if key not in known:
        while len(known) >= KEPT:
            known.pop(next(iter(known)))
        known[key] = find()
    found: Found = known[key]
    return found


@torch.no_grad()
def redrawn(model: CompVAE, batch: Batch, noise: Noise, draws: int, known: Known, key: int) -> Inferred:
    """The latents of each whole in every draw, rows draw by draw.  noise: of all of them.

    What hangs on x alone, q(w | x) without z, is found once for all draws and kept in ``known``, that of KEPT batches.
    With a z, either it or W hangs on the draw of the other.
    """
    rows = torch.arange(len(batch))
    repeated = rows.repeat(draws)
    if model.config.latent.z_place == "below":
        return infer(model, batch.rows(repeated), noise)
    once = kept_or_found(known, key, lambda: infer(model, batch, Still(len(batch))))
    w = torch.cat([once.q.rsample(noise.at(rows + draw * len(batch)), "w") for draw in range(draws)])
    return replace(once, w=w, context=None if once.context is None else once.context[repeated])


@torch.no_grad()
def edited(model: CompVAE, latent: Inferred, groups: Sequence[Group], now: Parts, noise: Noise) -> Edited:
    """The edited wholes at one draw of their latents.

    latent: of the wholes as observed.  groups: the observed parts first, then the added ones.  now: what is left.
    noise: of the draw; noise that is 0 everywhere gives the latents' means.
    """
    if model.posterior.of_sum:
        code, parts = _edited_sum(model, latent.w, groups, noise), now
    else:
        w, parts = _edited_parts(model, latent.w, groups, noise)
        code = model.aggregate(w, parts)
    z = _moved_z(model, latent, code, parts)
    return Edited(model.decoder(code, parts, z, latent.context), code, parts)


def _edited_sum(model: CompVAE, observed: Tensor, groups: Sequence[Group], noise: Noise) -> Tensor:
    """W of the edited wholes.  observed: W as inferred, (B, G, d)."""
    total = torch.zeros_like(observed)
    for number, group in enumerate(groups):
        before = model.prior.of_sum(group.stages[0])
        whole = observed if number == 0 else before.rsample(noise, f"added/{group.steps[0]}")
        for step, stage in zip(group.steps[1:], group.stages[1:], strict=True):
            after = model.prior.of_sum(stage)
            whole = bridge(whole, before, after).rsample(noise, f"removed/{number}/{step}")
            before = after
        total = total + whole
    return total


def bridge(whole: Tensor, before: Normal, after: Normal) -> Normal:
    """The sum over the parts that stay, given the sum over all.  whole: (B, *).  before, after: priors of both sums."""
    mask = before.mask if before.mask is not None else torch.ones_like(before.mean, dtype=torch.bool)
    share = after.variance / before.variance.masked_fill(~mask, 1.0)
    mean = after.mean + share * (whole - before.mean)
    # share rounds to a little above 1 where nothing was taken away
    return Normal(mean, after.variance * (1 - share).clamp(min=0.0), after.mask)


def _edited_parts(
    model: CompVAE, observed: Tensor, groups: Sequence[Group], noise: Noise
) -> tuple[Tensor, PaddedParts]:
    """{w_i} of the edited wholes and the parts they belong to, those that went masked.  observed: (B, K, d)."""
    codes, parts = [], []
    for number, group in enumerate(groups):
        if group.gone:  # masked parts cost nothing, but the rounding of sums that are longer
            continue
        first = group.stages[0].padded()
        assert group.kept is not None
        if number == 0:
            codes.append(observed)
        else:
            codes.append(model.prior.of_parts(first).rsample(noise, f"added/{group.steps[0]}"))
        parts.append(PaddedParts(first.kind, first.features, first.mask & group.kept, first.n_kinds))
    joined = PaddedParts(
        torch.cat([p.kind for p in parts], 1),
        torch.cat([p.features for p in parts], 1),
        torch.cat([p.mask for p in parts], 1),
        parts[0].n_kinds,
    )
    return torch.cat(codes, 1) * joined.mask[..., None], joined


def _moved_z(model: CompVAE, latent: Inferred, code: Tensor, parts: Parts) -> Tensor | None:
    """z with its noise held: u of p(z | W observed), carried over to p(z | W edited).  code: W, (B, G, d)."""
    if latent.z is None:
        return None
    before, after = latent.z.prior, model.z_below(code, parts, latent.context)
    unit = (latent.z.value - before.mean) / before.variance.sqrt()
    return after.mean + after.variance.sqrt() * unit
