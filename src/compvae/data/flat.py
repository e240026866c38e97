"""Arrays as columns of a table: x0, x1, .. for one axis, x_c_i_j for several, the last axis fastest."""

from __future__ import annotations

from itertools import product

__all__ = ["flat_names"]


def flat_names(name: str, shape: tuple[int, ...]) -> list[str]:
    """The columns of an array whose rows have this shape; a row that is one number has the plain name.

    >>> flat_names("x", (2,)), flat_names("x", (1, 2)), flat_names("weights", ())
    (['x0', 'x1'], ['x_0_0', 'x_0_1'], ['weights'])
    """
    if len(shape) == 1:
        return [f"{name}{i}" for i in range(shape[0])]
    return ["_".join((name, *map(str, index))) for index in product(*map(range, shape))]
