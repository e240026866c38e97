"""Files that are there whole or not at all: temporary file, fsync, rename, fsync of the directory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["reason", "sync_directory", "write_atomic"]


def write_atomic(path: Path, data: bytes) -> None:
    """Put data at path; a reader, or whoever comes after a power cut, finds the old contents or the new ones."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    stage = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        stage.chmod(0o644)
        stage.replace(path)
    except BaseException:
        stage.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make renames inside the directory survive a power cut."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def reason(error: Exception) -> str:
    """Why a file could not be read or written, in the system's words."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
