"""Packages that come with an extra: imported when first needed, and missed in one sentence."""

from __future__ import annotations

import importlib
from typing import Any

from compvae.errors import MissingExtraError

__all__ = ["need"]


def need(module: str, extra: str) -> Any:
    """The module of that name; where it is not installed, an error that names the extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = (error.name or module).split(".")[0]
        raise MissingExtraError(
            f"this needs the package {missing!r}, which is not here; install it with pip install 'compvae[{extra}]'"
        ) from None
