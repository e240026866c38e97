"""load: a model by its name or its directory."""

from __future__ import annotations

import os
from pathlib import Path

from compvae.compose import Model
from compvae.errors import ModelFileError

__all__ = ["load", "shipped"]

SHIPPED = Path(__file__).parent / "models"


def shipped() -> list[str]:
    """Names of the models that come with the package."""
    return (
        sorted(path.name for path in SHIPPED.glob("*") if (path / "config.json").exists()) if SHIPPED.exists() else []
    )


def load(name: str | os.PathLike[str]) -> Model:
    """A shipped name first ("sines"), else a run or model directory ("./sines", "runs/mine")."""
    if isinstance(name, str) and name in shipped():
        return Model.load(SHIPPED / name)
    if not isinstance(name, str | os.PathLike):
        raise ModelFileError(f"a model is named by a text or a path, got {type(name).__name__}")
    directory = Path(name)
    if not _is_directory(directory):
        names = ", ".join(shipped()) or "none yet"
        raise ModelFileError(f"{str(name)!r} is neither a shipped model ({names}) nor a directory")
    return Model.load(directory / "model" if (directory / "model").is_dir() else directory)


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name too long, a directory above that may not be entered
        return False
