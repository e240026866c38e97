"""phi(x): what makes a whole extreme, as one number each; the event is phi(x) >= t."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compvae.errors import CompVAEError, DataError

__all__ = ["EVENTS", "Event", "checked_event"]

Event = Callable[[np.ndarray], np.ndarray]


def _peak(x: np.ndarray) -> np.ndarray:
    """max x.  x: (n, *shape) -> (n,)."""
    return np.asarray(x.reshape(len(x), -1).max(1))


def _energy(x: np.ndarray) -> np.ndarray:
    """sum x.  x: (n, *shape) -> (n,)."""
    return np.asarray(x.reshape(len(x), -1).sum(1, dtype=np.float64))


def _ramp(x: np.ndarray) -> np.ndarray:
    """max |x_{t+1} - x_t| along the last axis.  x: (n, *shape) -> (n,)."""
    if x.shape[-1] < 2:
        raise DataError("event 'ramp' compares neighbours along the last axis of x, which here has one place only")
    return np.asarray(np.abs(np.diff(x, axis=-1)).reshape(len(x), -1).max(1))


EVENTS: dict[str, Event] = {"peak": _peak, "energy": _energy, "ramp": _ramp}


def checked_event(event: str | Event) -> Event:
    """The event by its name, or the caller's own function, with its answers checked: (n, *shape) -> (n,) float64."""
    if isinstance(event, str):
        if event not in EVENTS:
            raise DataError(f"event {event!r} is unknown, it must be one of {', '.join(EVENTS)}, or a function of x")
        name, function = event, EVENTS[event]
    elif callable(event):
        name, function = getattr(event, "__name__", type(event).__name__), event
    else:
        raise DataError(f"event must be one of {', '.join(EVENTS)}, or a function of x, got {type(event).__name__}")

    def evaluate(x: np.ndarray) -> np.ndarray:
        shown = x.view()
        shown.setflags(write=False)  # a function that edits x in place would falsify what is returned
        try:
            answer = function(shown)
        except CompVAEError:
            raise
        except Exception as error:
            raise DataError(f"event {name!r} raised {type(error).__name__}: {error}") from error
        return _checked(answer, name, len(x))

    return evaluate


def _checked(answer: object, name: str, rows: int) -> np.ndarray:
    try:
        values = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"event {name!r} must return numbers, got {type(answer).__name__}") from None
    if values.shape != (rows,):
        raise DataError(
            f"event {name!r} must return one number for each whole: for x with {rows} rows it returned "
            f"shape {values.shape} where ({rows},) was expected"
        )
    bad = ~np.isfinite(values)
    if bad.any():
        raise DataError(f"event {name!r} returned {values[bad][0]} for {bad.sum()} of {rows} wholes; it must be finite")
    return values
