"""What x of a model is measured in, and along which axis: kW over the hours of a day, or plain numbers.

dt = 24 h / T for loads, where T is the number of intervals of a day; 1 place along x for everything else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compvae.errors import ConfigError
from compvae.model import Model

__all__ = ["Scale", "scale_of"]

LOADS = ("households",)  # built-in problems whose x is a day in kW
STATED = "x is"  # what a model of own data says about its x, in the notes of its card


@dataclass(frozen=True)
class Scale:
    """unit: of x.  step: dt, in the unit of ``across``.  energy: unit of dt sum x.  part, parts: what they are called.

    length: T.
    """

    unit: str
    step: float
    length: int
    across: str
    energy: str
    part: str
    parts: str

    @property
    def time(self) -> np.ndarray:
        """Where the intervals begin, (T,)."""
        return self.step * np.arange(self.length)

    @property
    def is_load(self) -> bool:
        """True for a day of power."""
        return self.unit == "kW"

    @property
    def up(self) -> str:
        """What the values of a curve are."""
        return "load (kW)" if self.is_load else self.unit

    @property
    def peak(self) -> str:
        """What the highest of them is."""
        return "daily peak (kW)" if self.is_load else "highest x"

    @property
    def span(self) -> str:
        """What durations are measured in."""
        return "hours a day" if self.is_load else "places of x"


def scale_of(model: Model) -> Scale:
    """From where the model comes; a model that is not of curves made of counted parts is refused."""
    if len(model.shape) != 1 or not model.parts.countable:
        raise ConfigError(
            f"a plan needs a model of curves whose parts have categories alone; here x has shape {model.shape} and "
            f"parts have {', '.join(a.name for a in model.parts.attributes)}"
        )
    about, length = model.provenance, model.shape[0]
    if about.problem in LOADS or about.notes.get(STATED, "").startswith("kW"):
        return Scale("kW", 24 / length, length, "hour of the day", "kWh", "home", "homes")
    return Scale("x", 1.0, length, "place along x", "x", "part", "parts")
