"""x = sum_i s_i: real signatures of household appliances added up.

A part is an appliance of one of the ten classes of ACS-F1 (acsf1.py); hidden in each is which of the ten series of its
class it is.  Parts are series of the training half, or with half="held-out" of the other.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from compvae.batch import PaddedParts
from compvae.noise import Noise
from compvae.parts import Categorical, PartsSchema
from compvae.problems import Problem, Settings, register
from gallery.acsf1 import CLASSES, VALUES, signatures


class AppliancesSettings(Settings):
    """half: whose series the parts are."""

    half: Literal["training", "held-out"] = "training"


@register
class Appliances(Problem):
    """Appliances on one meter."""

    name: ClassVar[str] = "appliances"
    summary: ClassVar[str] = "sums of real signatures of appliances of ten classes, each in its own standard deviations"
    specific_names: ClassVar[tuple[str, ...]] = ("series",)
    extensive: ClassVar[bool] = True
    max_parts: ClassVar[int] = 6
    settings_class: ClassVar[type[Settings]] = AppliancesSettings
    settings: AppliancesSettings
    schema = PartsSchema(
        attributes=(Categorical(name="appliance", categories=tuple(f"class{c}" for c in range(CLASSES))),)
    )
    shape = (VALUES,)

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.series = signatures(self.settings.half)  # (10, 10, 96)

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        """Which series of its class each part is, 0..9, (B, K, 1)."""
        return noise.integers("series", 0, self.series.shape[1] - 1, parts.kind.shape[1], 1).float()

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        """specifics: (B, K, 1) -> x (B, 96)."""
        return (self.series[parts.kind, specifics[..., 0].long()] * parts.mask[..., None]).sum(1)
