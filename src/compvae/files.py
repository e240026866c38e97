"""Files that are there whole or not at all: temporary file, fsync, rename, fsync of the directory."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["is_file", "reason", "sha256_of", "staged", "sync_directory", "write_atomic"]


def write_atomic(path: Path, data: bytes) -> None:
    """Put data at path; a reader, or whoever comes after a power cut, finds the old contents or the new ones."""
    with staged(path) as stream:
        stream.write(data)


@contextmanager
def staged(path: Path) -> Iterator[IO[bytes]]:
    """A stream to a file beside path, which takes its place at the end; after an error nothing of it is left."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    stage = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
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


def is_file(path: Path) -> bool:
    """True for a file that is there; a name no file can have is not one."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long, a directory above that may not be entered, a zero byte
        return False


def sha256_of(path: Path) -> str:
    """The hash of a file's contents, read a piece at a time."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def reason(error: Exception) -> str:
    """Why a file could not be read or written, in the system's words."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
