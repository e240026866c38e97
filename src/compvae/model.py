"""The programmable model: p(x | parts) as a function of a composition.

Thin over :mod:`compvae.composing` and :mod:`compvae.objective`: reads parts and context, puts the parts into canonical
order, runs the networks in tiles of fixed size, returns arrays.  The same seed gives the same bytes whatever n is:
row r depends on (seed, r) alone, and the networks always see tiles of one size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from compvae.batch import Batch, Shared, collate, repeat
from compvae.checks import allocate, at_least_one, number_array
from compvae.composing.composition import Composition
from compvae.composing.generation import Tile
from compvae.composing.live import Live
from compvae.context import encode_context
from compvae.errors import ConfigError, DataError, PartsError
from compvae.network import Network
from compvae.noise import Noise
from compvae.objective import elbo, importance_bound
from compvae.parts import Multiset, PartsBatch, PartsSchema
from compvae.parts_distribution import PartsDistribution
from compvae.storage import Provenance, load_network, save_network
from compvae.tails import Event, Goal, TailSample, Whitened, tail
from compvae.transport.config import AnyModelConfig
from compvae.transport.network import Transport
from compvae.transport.observing import log_prob

__all__ = ["Model", "Ranking", "Terms"]

TILE_INFERRED, TILE_VALUES = 32, 2**14  # most rows, and values of x, that the networks see at once in inference

Context = Mapping[str, object]


@dataclass(frozen=True)
class Terms:
    """Terms of the bound in nats, for each x: total = x - w - z  <=  ln p(x | parts).  A float each for a single x.

    An invertible model has no such terms, they are None: its total is ln p(x | parts) itself.
    """

    w: np.ndarray | float | None
    z: np.ndarray | float | None
    x: np.ndarray | float | None
    total: np.ndarray | float


@dataclass(frozen=True)
class Ranking:
    """Candidate compositions of one x, compared.

    bounds: ln p(x | candidate) by the importance-weighted bound, nats, in the order given.  order: candidates from the
    best to the worst.  probability: of each, were all equally likely before x was seen.
    """

    bounds: list[float]
    order: list[int]
    probability: list[float]

    @staticmethod
    def of(bounds: list[float]) -> Ranking:
        """Sort and normalise."""
        weights = np.exp(np.array(bounds) - max(bounds))
        return Ranking(
            bounds, [int(i) for i in np.argsort(-weights, kind="stable")], (weights / weights.sum()).tolist()
        )


class Model:
    """A trained model and what can be done with it."""

    def __init__(self, network: Network, provenance: Provenance | None = None) -> None:
        self.network = network.eval()
        self.provenance = provenance or Provenance()

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Model:
        """Read a model directory."""
        return cls(*load_network(directory))

    def save(self, directory: str | os.PathLike[str]) -> Path:
        """Write config.json, model.safetensors and README.md (the card)."""
        return save_network(directory, self.network, self.provenance)

    @property
    def config(self) -> AnyModelConfig:
        """How the model is built."""
        return self.network.config

    @property
    def parts(self) -> PartsSchema:
        """What a part is: ``.attributes``, and ``.categories`` where there is one categorical attribute."""
        return self.config.parts

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of x."""
        return self.config.shape

    def sample(
        self, parts: object, n: int = 1000, seed: int = 0, context: Context | None = None, noise: bool = True
    ) -> np.ndarray:
        """n wholes ~ p(x | parts), float32 (n, *shape); noise=False leaves out the observation noise."""
        out = allocate(at_least_one(n, "n"), *self.shape)
        for rows, x in self.stream(parts, n, seed, context, noise):
            out[rows] = x
        return out

    def stream(
        self, parts: object, n: int, seed: int = 0, context: Context | None = None, noise: bool = True
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """The rows of :meth:`sample` chunk by chunk, in bounded memory: (which rows, float32 (m, *shape))."""
        tile = self._tile(parts, context)
        for start in range(0, at_least_one(n, "n"), tile.height):
            source = Noise(seed, torch.arange(start, start + tile.height))
            stop = min(start + tile.height, n)
            yield slice(start, stop), tile.draw(source, noise)[: stop - start].numpy()

    def compose(self, parts: object, keys: Sequence[int] | None = None, context: Context | None = None) -> Live:
        """Wholes drawn from p(x | parts) whose latents belong to parts: what is not changed stays, draw by draw.

        keys: identities of the parts, different whole numbers in the order given ({"a": 2, "b": 1}: both a, then b); a
        part that is given the same key again keeps its latent, wherever it is moved and whatever goes or comes beside
        it.  Without keys the first, second, .. part of a kind is known by its place among them.
        """
        return Live(self.network, self.parts.parse(parts), keys, self._context(context, 1))

    def tail(
        self,
        parts: object,
        event: str | Event = "peak",
        quantile: float | None = None,
        n: int = 200,
        seed: int = 0,
        context: Context | None = None,
        noise: bool = True,
        threshold: float | None = None,
        method: str = "auto",
    ) -> TailSample:
        """n wholes ~ p(x | parts, event(x) >= threshold), with the probability of that; see :func:`compvae.tails.tail`.

        event: "peak", "energy", "ramp", or a function (n, *shape) -> (n,).  Give a quantile of it, or a threshold.
        """
        goal = Goal.of(quantile, threshold)
        return tail(Whitened(self._tile(parts, context), noise), event, goal, n, seed, method)

    def infer(
        self,
        x: np.ndarray,
        parts: object,
        context: Context | Sequence[Context | None] | None = None,
        shared: Sequence[object] | np.ndarray | None = None,
        seed: int = 0,
    ) -> Composition:
        """The posterior of the parts of observed wholes, arguments as in :meth:`elbo`.

        seed: sets the draws of this composition and its edits apart from those of others; decode takes one of its own.
        """
        batch, compositions, single = self._batch(x, parts, context, shared)
        return Composition.of(self.network, batch, compositions, single, seed)

    @torch.no_grad()
    def rank(
        self,
        x: np.ndarray,
        candidates: Sequence[object],
        context: Context | None = None,
        seed: int = 0,
        samples: int = 64,
    ) -> Ranking:
        """ln p(x | candidate) for each candidate composition, as :meth:`log_prob` gives it.  x: (*shape)."""
        if isinstance(candidates, str | bytes | Mapping) or not isinstance(candidates, Sequence) or not candidates:
            raise PartsError("candidates must be a list of compositions, one or more")
        values, single = self._wholes(x)
        if not single:
            raise DataError(f"rank takes one whole of shape {self.shape}, got {tuple(values.shape)}")
        bounds = []
        for index, candidate in enumerate(candidates):
            one = self.parts.parse(candidate, f"candidates[{index}]").canonical()
            batch = Batch(values, collate([one]), self._context(context, 1))
            bounds.append(float(self._log_prob(batch, seed, samples)[0]))
        return Ranking.of(bounds)

    @torch.no_grad()
    def elbo(
        self,
        x: np.ndarray,
        parts: object,
        context: Context | Sequence[Context | None] | None = None,
        shared: Sequence[object] | np.ndarray | None = None,
        seed: int = 0,
    ) -> Terms:
        """The bound of each x at one draw of its latents.  x: (*shape) or (n, *shape); results keep that form.

        parts: one composition for all, or a :class:`PartsBatch` with one for each row.
        shared: (n,) ids of an invertible model; rows with equal ids have one z: theirs is the joint density, split
            equally over them.
        """
        if isinstance(self.network, Transport):
            return Terms(None, None, None, self.log_prob(x, parts, context=context, shared=shared))
        batch, _, single = self._batch(x, parts, context, shared)
        bounds = [elbo(self.network, tile, Noise(seed, rows)) for rows, tile in _tiles(batch)]
        terms = [
            torch.cat([getattr(bound, name) for bound in bounds])[: len(batch)].numpy()
            for name in ("w", "z", "x", "total")
        ]
        return Terms(*(float(term[0]) if single else term for term in terms))

    @property
    def exact_log_prob(self) -> bool:
        """Whether :meth:`log_prob` is exact for the model, not a bound or an estimate."""
        return isinstance(self.network, Transport) and self.network.exact

    @torch.no_grad()
    def log_prob(
        self,
        x: np.ndarray,
        parts: object,
        *,
        context: Context | Sequence[Context | None] | None = None,
        shared: Sequence[object] | np.ndarray | None = None,
        seed: int = 0,
        samples: int = 64,
    ) -> np.ndarray | float:
        """ln p(x | parts) in nats: a float for a single x, (n,) otherwise.

        Args:
            x: one whole, (*shape), or several, (n, *shape).
            parts: one composition for all, or a :class:`PartsBatch` with one for each row.
            context: what is observed of the wholes, one dict or one for each row.
            shared: (n,) ids of an invertible model; rows with equal ids have one z: theirs is the joint density, split
                equally over them.
            seed: of the draws that the bound of a structured model is computed from.
            samples: how many; an invertible model needs none.
        """
        batch, _, single = self._batch(x, parts, context, shared)
        found = torch.cat([self._log_prob(tile, seed, samples) for _, tile in _tiles(batch)])[: len(batch)].numpy()
        return float(found[0]) if single else found

    def _log_prob(self, batch: Batch, seed: int, samples: int) -> Tensor:
        """ln p(x | parts), (B,): exact, or the importance-weighted bound."""
        if isinstance(self.network, Transport):
            return log_prob(self.network, batch)
        return importance_bound(self.network, batch, Noise(seed, len(batch)), at_least_one(samples, "samples"))

    def distribution(self, parts: object, context: Context | None = None) -> PartsDistribution:
        """p(x | parts, context) as torch.distributions has it: ``sample``, ``log_prob``, ``mean``, ``stddev``."""
        schema = self.parts.parse(parts)
        return PartsDistribution(
            self.shape,
            lambda n, seed: torch.from_numpy(self.sample(schema, n, seed, context)),
            lambda x: torch.as_tensor(self.log_prob(x.numpy(), schema, context=context)),
        )

    def _batch(
        self,
        x: np.ndarray,
        parts: object,
        context: Context | Sequence[Context | None] | None,
        shared: Sequence[object] | np.ndarray | None,
    ) -> tuple[Batch, list[Multiset], bool]:
        """Arrays and dicts as tensors, the parts of each row as given, and whether x was a single whole."""
        values, single = self._wholes(x)
        if isinstance(parts, PartsBatch):
            compositions = parts.parse(self.parts)
            if len(compositions) != len(values):
                raise DataError(
                    f"parts has {len(compositions)} compositions but x has {len(values)} rows; each row needs one"
                )
            tensors = collate([composition.canonical() for composition in compositions])
        else:
            compositions = [self.parts.parse(parts)] * len(values)
            tensors = repeat(collate([compositions[0].canonical()]), len(values))
        told = self._context(context, len(values))
        groups = None if shared is None else self._groups(shared, len(values), told)
        return Batch(values, tensors, told, groups), compositions, single

    def _wholes(self, x: np.ndarray) -> tuple[Tensor, bool]:
        array = number_array(x, "x")
        single = array.shape == self.shape
        if not single and (array.ndim != 1 + len(self.shape) or array.shape[1:] != self.shape or not len(array)):
            raise DataError(
                f"x must have shape {self.shape} or (n, {', '.join(map(str, self.shape))}), got {array.shape}"
            )
        return torch.from_numpy(array[None] if single else array), single

    def _context(self, context: Context | Sequence[Context | None] | None, rows: int) -> Tensor | None:
        """Encoded covariates, (rows, E), or None where the model takes none and none were given."""
        if context is None and not self.config.context:
            return None
        if context is None or isinstance(context, Mapping):
            return encode_context(self.config.context, context).expand(rows, -1)
        if not isinstance(context, Sequence) or isinstance(context, str | bytes):
            raise DataError(f"context must be a dict, a list of dicts or None, got {type(context).__name__}")
        if len(context) != rows:
            raise DataError(
                f"context has {len(context)} entries but x has {rows} rows; give one dict, or one for each row"
            )
        return torch.stack([encode_context(self.config.context, one) for one in context])

    def _groups(self, shared: Sequence[object] | np.ndarray, rows: int, context: Tensor | None) -> Shared:
        """Which rows have one z; they must agree in their context.  context: (rows, E) or None."""
        if not isinstance(self.network, Transport):
            raise ConfigError("shared needs an invertible model (preset transport), this one is structured")
        groups = Shared.of(_ids(shared, rows))
        if context is not None and (differs := (context != context[groups.first][groups.group]).any(1)).any():
            row = int(differs.nonzero()[0, 0])
            raise DataError(
                f"row {row} shares its factor with a row of another context; equal ids in shared need equal context"
            )
        return groups

    def _tile(self, parts: object, context: Context | None) -> Tile:
        return Tile(self.network, self.parts.parse(parts), self._context(context, 1))


def _tiles(batch: Batch) -> Iterator[tuple[Tensor, Batch]]:
    """Fixed numbers of rows, the last filled up by repeating its end; wholes that share a z stay in one tile.

    Few rows where x is large: a single whole is the common case, and pays for the whole tile.
    """
    if batch.shared is not None:
        yield torch.arange(len(batch)), batch
        return
    height = min(TILE_INFERRED, max(1, TILE_VALUES // batch.x[0].numel()))
    for start in range(0, len(batch), height):
        rows = torch.arange(start, start + height)
        chosen = rows.clamp(max=len(batch) - 1)
        yield rows, batch.rows(chosen)


def _ids(shared: Sequence[object] | np.ndarray, rows: int) -> Tensor:
    """Group ids, (rows,) int64; any hashable values."""
    if isinstance(shared, str | bytes) or not isinstance(shared, Sequence | np.ndarray):
        raise DataError(f"shared must be a list of ids, one for each row, got {type(shared).__name__}")
    if len(shared) != rows:
        raise DataError(f"shared has {len(shared)} ids but x has {rows} rows; each row needs one")
    try:
        numbers = {value: index for index, value in enumerate(dict.fromkeys(shared))}
    except TypeError:
        raise DataError("shared must hold ids such as numbers or names, not lists or dicts") from None
    return torch.tensor([numbers[value] for value in shared])
