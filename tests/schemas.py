"""Schemas of parts for tests: any mixture of attributes, and values that suit them."""

from hypothesis import strategies as st

from compvae.parts import Categorical, Continuous, PartsSchema
from models import schema_of


@st.composite
def schemas(draw) -> PartsSchema:
    """Schemas of one to five attributes of both types, in any order."""
    kinds = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    attributes = [
        Continuous(name=f"a{i}", low=-i - 1, high=2 * i + 1)
        if size == 0
        else Categorical(name=f"a{i}", categories=tuple(f"c{j}" for j in range(size)))
        for i, size in enumerate(kinds)
    ]
    return schema_of(*attributes)


def values_of(attribute) -> st.SearchStrategy:
    if isinstance(attribute, Categorical):
        return st.sampled_from(attribute.categories)
    return st.floats(attribute.low, attribute.high)


def shown(message: str, *words: str) -> None:
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
