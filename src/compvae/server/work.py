"""What the lanes do: requests that were read, as calls of the model, as answers.

Everything here is a function of the request alone: the same request gives the same bytes, whoever else asks.  Between
two pieces of work, each a call of the networks for one tile, it is asked whether the request still has time.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from compvae.checks import number_array
from compvae.composing.composition import Composition
from compvae.parts import Multiset
from compvae.server.arrays import MEDIA, as_file, encode
from compvae.server.exact import Exact
from compvae.server.faults import TooSlowError
from compvae.server.reading import Asked
from compvae.server.schemas import EditIn, InferIn, SampleIn, TailIn, TruthIn
from compvae.tails import EVENTS, Event

__all__ = ["Answer", "Observatory", "sample", "sample_answer", "tail", "truth"]

REMEMBERED = 32  # observed wholes whose posterior is kept for the next edit


@dataclass(frozen=True)
class Answer:
    """The bytes of an answer.  filename: where it is a file."""

    body: bytes
    media: str = "application/json"
    filename: str | None = None


def sample(asked: Asked, request: SampleIn) -> Answer:
    """n wholes, alone."""
    started, model = time.perf_counter(), asked.served.model
    if request.by_part:
        composed = model.compose(asked.parts, request.keys, asked.context)
        stream = composed.stream(request.n, request.seed, request.noise)
    else:
        stream = model.stream(asked.parts, request.n, request.seed, asked.context, request.noise)
    chunks = []
    for _, x in stream:
        _check_time(asked)
        chunks.append(x)
    return sample_answer(asked, request, np.concatenate(chunks), time.perf_counter() - started)


def sample_answer(asked: Asked, request: SampleIn, x: np.ndarray, seconds: float) -> Answer:
    """x: (n, *shape)."""
    return _answer(asked, request, {"x": x}, {"milliseconds": 1000 * seconds}, x)


def truth(asked: Asked, request: TruthIn) -> Answer:
    """n exact wholes."""
    started = time.perf_counter()
    x = _in_time(asked, asked.problem.truth(asked.parts, request.n, request.seed, asked.context))
    return _answer(asked, request, {"x": x}, {"milliseconds": 1000 * (time.perf_counter() - started)}, x)


def tail(asked: Asked, request: TailIn) -> Answer:
    """n wholes of the tail."""
    event = _within_time(EVENTS[request.event], asked)
    found = asked.served.model.tail(
        asked.parts, event, request.quantile, request.n, request.seed, asked.context, request.noise,
        method=request.method,
    )  # fmt: skip
    names = ("threshold", "threshold_interval", "probability", "cv", "ess", "method", "draws")
    about = {name: value for name, value in asdict(found).items() if name in names}
    told = {"event": request.event, "quantile": request.quantile, **about}
    weights = {"weights": found.weights}
    return _answer(asked, request, {"x": found.x}, {**told, "weights": found.weights.tolist()}, found.x, weights)


class Observatory:
    """Observed wholes and their posteriors.  Of the last ones the posterior is kept: edits come in rows."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, Composition] = OrderedDict()

    def infer(self, asked: Asked, request: InferIn) -> Answer:
        """The whole as the model sees it, and each of its parts alone."""
        x, composition, _ = self._observe(asked, request)
        whole = _in_time(asked, composition.decode())
        places = np.cumsum([0, *(count for _, count in asked.parts.runs[:-1])]).tolist()
        alone = np.stack([_in_time(asked, composition.part(place)) for place in places])
        bound = asked.served.model.elbo(x, asked.parts, asked.context, seed=request.seed)
        told = {"bound": asdict(bound), "rmse": _rmse(whole, x)}
        arrays = {"x": x, "whole": whole, "alone": alone}
        return _answer(asked, request, arrays, told, whole[None], {"alone": alone[None]})

    def edit(self, asked: Asked, request: EditIn) -> Answer:
        """The whole before, after, in draws, and what it would exactly be."""
        started = time.perf_counter()
        x, before, exact = self._observe(asked, request)
        after = before
        for step in request.edits:
            if step.remove is not None and step.add is not None:
                after = after.replace(step.remove, step.add)
            elif step.remove is not None:
                after = after.remove(step.remove)
            else:
                after = after.add(step.add)
        arrays: dict[str, np.ndarray | None] = {
            "x": x,
            "before": _in_time(asked, before.decode()),
            "after": _in_time(asked, after.decode()),
            "draws": _draws(asked, after, request) if request.n else None,
            "exact": None if exact is None else exact.with_parts(after.untouched[0], after.multisets[0]),
        }
        drawn, one, true = arrays["draws"], arrays["after"], arrays["exact"]
        assert one is not None
        told = {
            "rmse": None if true is None or len(true) > 1 else _rmse(one, true[0]),
            "milliseconds": 1000 * (time.perf_counter() - started),
        }
        return _answer(asked, request, arrays, told, one[None] if drawn is None else drawn, parts=after.multisets[0])

    def _observe(self, asked: Asked, request: InferIn) -> tuple[np.ndarray, Composition, Exact | None]:
        """The whole, its posterior, and the truth where it was drawn from it."""
        exact = None
        if request.drawn is not None:
            exact = Exact(asked.problem, asked.parts, request.drawn, asked.context)
        x = number_array(request.x, "x") if exact is None else exact.x
        key = (asked.served.name, x.tobytes(), asked.parts.runs, json.dumps(asked.context, sort_keys=True))
        if key not in self._kept:
            self._kept[key] = asked.served.model.infer(x, asked.parts, asked.context)
            if len(self._kept) > REMEMBERED:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return x, self._kept[key], exact


def _answer(
    asked: Asked, request: Any, arrays: Mapping[str, np.ndarray | None], told: Mapping[str, Any], rows: np.ndarray,
    beside: Mapping[str, np.ndarray] | None = None, parts: Multiset | None = None,
) -> Answer:  # fmt: skip
    """JSON, or a file of the rows.  rows: (n, *shape).  parts: as they are now, where they changed."""
    counted = (asked.parts if parts is None else parts).counted()
    name, encoding = asked.served.name, request.encoding
    if encoding in MEDIA:
        facts = {"parts": json.dumps(counted), "seed": request.seed, "context": json.dumps(asked.context)}
        scalars = {key: value for key, value in told.items() if isinstance(value, str | int | float)}
        body = as_file(encoding, rows, beside or {}, {**facts, **scalars})
        return Answer(body, MEDIA[encoding], f"compvae.{encoding}")
    encoded = {key: None if value is None else encode(value, encoding) for key, value in arrays.items()}
    document = {"model": name, "parts": counted, "seed": request.seed, **encoded, **told}
    return Answer(json.dumps(document, separators=(",", ":"), allow_nan=False).encode())


def _rmse(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(np.mean((a - b) ** 2, dtype=np.float64)))


def _draws(asked: Asked, composition: Composition, request: EditIn) -> np.ndarray:
    """n draws of an edited whole, (n, *shape)."""
    pieces = composition.pieces(request.n, request.seed, request.noise)
    return np.concatenate([_in_time(asked, x)[:, 0] for _, _, x in pieces])


def _in_time(asked: Asked, x: np.ndarray) -> np.ndarray:
    """x, as long as its request has time."""
    _check_time(asked)
    return x


def _check_time(asked: Asked) -> None:
    if asked.abandoned.is_set() or time.monotonic() > asked.deadline:
        raise TooSlowError(
            "this takes longer than a request may; ask for fewer wholes or parts, or a less extreme tail"
        )


def _within_time(event: Event, asked: Asked) -> Event:
    """The event, given up when the time of the request is over."""

    def checked(x: np.ndarray) -> np.ndarray:
        _check_time(asked)
        return event(x)

    return checked
