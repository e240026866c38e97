"""Work for a request whose time is over, or for which nobody waits any longer, ends at the next piece."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import compvae
from compvae.server import work
from compvae.server.catalogue import Catalogue
from compvae.server.faults import TooSlowError
from compvae.server.limits import Limits
from compvae.server.reading import Asked, read_edit, read_infer, read_sample, read_tail
from compvae.server.schemas import EditIn, InferIn, SampleIn, TailIn

LIMITS = Limits(seconds=3600.0)  # only what a test does itself ends the work, however busy the machine is
PARTS = {"1": 1, "2": 1, "3": 1, "5": 2, "7": 1, "9": 1}
OBSERVED = {"model": "sines", "parts": PARTS, "drawn": 4}
EDITED = {**OBSERVED, "edits": [{"remove": {"7": 1}}, {"add": {"4": 1}}], "n": 400}
REQUESTS: dict[str, tuple[Callable[..., Asked], Any, Callable[..., work.Answer]]] = {
    "sample": (read_sample, SampleIn(model="sines", parts=PARTS, n=900), work.sample),
    "infer": (read_infer, InferIn(**OBSERVED), lambda *given: work.Observatory().infer(*given)),
    "edit": (read_edit, EditIn(**EDITED), lambda *given: work.Observatory().edit(*given)),
    "tail": (read_tail, TailIn(model="sines", parts=PARTS, quantile=0.99), work.tail),
}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.of(["sines"], LIMITS)


class Pieces:
    """Counts the pieces of work, runs of the decoder, and calls a function in one of them."""

    def __init__(self, asked: Asked, then: Callable[[int], None] = lambda number: None) -> None:
        self.number, self.then = 0, then
        self.handle = asked.served.model.network.decoder.register_forward_pre_hook(self._count)

    def _count(self, *given: object) -> None:
        self.number += 1
        self.then(self.number)

    def __enter__(self) -> Pieces:
        return self

    def __exit__(self, *error: object) -> None:
        self.handle.remove()


@pytest.mark.parametrize("name", list(REQUESTS))
def test_work_that_nobody_waits_for_ends_with_the_piece_in_hand(name: str, catalogue: Catalogue) -> None:
    read, request, run = REQUESTS[name]
    asked = read(request, catalogue, LIMITS)
    with Pieces(asked) as all_of_it:
        run(asked, request)
    assert all_of_it.number > 6
    for last in (2, 5):
        asked = read(request, catalogue, LIMITS)

        def give_up(number: int, asked: Asked = asked, last: int = last) -> None:
            if number == last:
                asked.abandoned.set()

        with Pieces(asked, give_up) as done, pytest.raises(TooSlowError, match="longer than a request may"):
            run(asked, request)
        assert done.number == last


@pytest.mark.parametrize("name", list(REQUESTS))
def test_work_whose_deadline_is_over_ends_with_the_first_piece(name: str, catalogue: Catalogue) -> None:
    read, request, run = REQUESTS[name]
    late = replace(read(request, catalogue, LIMITS), deadline=time.monotonic() - 1)
    with Pieces(late) as done, pytest.raises(TooSlowError) as told:
        run(late, request)
    assert done.number <= 2  # a tail runs the network once to see which numbers it asks for
    assert told.value.status == 503


def test_pieces_are_the_draws_of_decode() -> None:
    model = compvae.load("sines")
    for x in (model.sample(PARTS, 1)[0], model.sample(PARTS, 40)):
        edited = model.infer(x, PARTS).remove({"7": 1})
        out = np.full((50, len(x) if x.ndim == 2 else 1, *model.shape), np.nan, np.float32)
        for draws, rows, piece in edited.pieces(50, seed=3):
            out[draws, rows] = piece
        assert np.array_equal(out if x.ndim == 2 else out[:, 0], edited.decode(50, seed=3))
