"""Malformed values for hypothesis, and what an error of ours must look like."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import strategies as st

from compvae import CompVAEError


def nested(depth: int) -> list:
    """A list in a list in a list."""
    out: list = []
    for _ in range(depth):
        out = [out]
    return out


def thousands_of_digits(negative: bool) -> int:
    return -(10**5000) if negative else 10**5000


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.complex_numbers(),
)


ODDITIES = st.one_of(
    st.builds(thousands_of_digits, st.booleans()),
    st.builds(nested, st.integers(0, 3000)),
    st.builds(object),
    st.builds(np.zeros, st.integers(0, 3)),
    st.sets(st.integers(), max_size=2),
    st.just(len),
    st.builds(lambda: iter([{"frequency": "3"}])),
)


KEYS = st.one_of(st.text(max_size=8), st.integers(), st.none(), st.tuples(st.integers()), st.floats())


JUNK = st.recursive(
    SCALARS | ODDITIES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def assert_refused(error: type[CompVAEError], call: Callable[[], object]) -> None:
    """The call raises this error and nothing else, with one line to read."""
    with pytest.raises(error) as caught:
        call()
    assert_readable(caught.value)


def assert_readable(error: CompVAEError) -> None:
    message = str(error)
    assert message
    assert len(message.splitlines()) == 1, message
    assert "validation error for" not in message


PLAIN = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(0, 300), st.floats(), st.text(max_size=6)
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)


WORDS = st.sampled_from(
    (
        "paper", "linked", "placed", "graph", "collapsed", "table", "network", "m_step", "gradient", "none",
        "below", "size", "curve", "image", "vector", "categorical", "continuous", "added",
    )
)  # fmt: skip


Place = tuple[str | int, ...]


def paths_of(value: object, at: Place = ()) -> list[Place]:
    """Every place of a tree of dicts and lists down to depth 8, without the root."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inside = len(at) < 8
    return [path for step, inner in steps if inside for path in [(*at, step), *paths_of(inner, (*at, step))]]


def follow(value, path: Place):
    for step in path:
        value = value[step]
    return value
