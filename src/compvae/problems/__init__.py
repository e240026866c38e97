"""The problems that come with the package, by name.

>>> from compvae import problems
>>> problems.get("sines").truth({"3": 2, "7": 1}, n=5).shape
(5, 200)
"""

from compvae.errors import ConfigError
from compvae.problems.base import Problem
from compvae.problems.colours import Colours
from compvae.problems.households import Households
from compvae.problems.sines import Sines

__all__ = ["PROBLEMS", "Problem", "get"]

PROBLEMS: dict[str, type[Problem]] = {problem.name: problem for problem in (Sines, Colours, Households)}


def get(name: str, **settings: object) -> Problem:
    """The problem of that name, with its settings (such as ``phase_std`` or ``size``)."""
    if not isinstance(name, str) or name not in PROBLEMS:
        raise ConfigError(f"problem {name!r} is unknown, the problems are {', '.join(PROBLEMS)}")
    return PROBLEMS[name](**settings)
