"""The problems that come with the package, by name.

>>> from compvae import problems
>>> problems.get("sines").truth({"3": 2, "7": 1}, n=5).shape
(5, 200)
"""

from compvae.errors import ConfigError
from compvae.problems.base import Problem, Settings
from compvae.problems.colours import Colours
from compvae.problems.households import Households
from compvae.problems.sines import Sines

__all__ = ["PROBLEMS", "Problem", "Settings", "get", "register"]

PROBLEMS: dict[str, type[Problem]] = {problem.name: problem for problem in (Sines, Colours, Households)}


def register(problem: type[Problem]) -> type[Problem]:
    """Make a problem of one's own known by its name, as a decorator of its class.

    From then on ``compvae.fit`` and ``get`` find it; a run that is resumed, and a model that is evaluated, need it too.
    Registering the same class again (a notebook's cell run twice) replaces it; a built-in name is refused.
    """
    name = getattr(problem, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigError(f"the problem {problem.__name__} needs a name of letters and digits, got {name!r}")
    if name in PROBLEMS and PROBLEMS[name].__module__.startswith("compvae."):
        raise ConfigError(f"problem {name!r} comes with the package; give yours another name")
    PROBLEMS[name] = problem
    return problem


def get(name: str, **settings: object) -> Problem:
    """The problem of that name, with its settings (such as ``phase_std`` or ``size``)."""
    if not isinstance(name, str) or name not in PROBLEMS:
        raise ConfigError(f"problem {name!r} is unknown, the problems are {', '.join(PROBLEMS)}")
    return PROBLEMS[name](**settings)
