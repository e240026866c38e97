"""compvae: a programmable generative model.  Give it the parts of a whole, it samples wholes from p(x | parts).

Names are loaded when first used, so that ``import compvae`` does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compvae import measures, problems
    from compvae.api import Run, fit, load
    from compvae.errors import CompVAEError
    from compvae.model import Model
    from compvae.parts import Categorical, Continuous, PartsBatch, PartsSchema

__version__ = "0.2.0"
__all__ = [
    "Categorical", "CompVAEError", "Continuous", "Model", "PartsBatch", "PartsSchema", "Run", "__version__", "fit",
    "load", "measures", "problems",
]  # fmt: skip

_HOMES = {
    "Categorical": "compvae.parts",
    "CompVAEError": "compvae.errors",
    "Continuous": "compvae.parts",
    "Model": "compvae.model",
    "PartsBatch": "compvae.parts",
    "PartsSchema": "compvae.parts",
    "Run": "compvae.api",
    "fit": "compvae.api",
    "load": "compvae.api",
    "measures": "",
    "problems": "",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'compvae' has no attribute {name!r}")
    home = _HOMES[name]
    value = getattr(importlib.import_module(home), name) if home else importlib.import_module(f"compvae.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
