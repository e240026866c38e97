"""Files that are there whole or not at all: temporary file, fsync, rename, fsync of the directory."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["is_file", "reason", "sha256_of", "stage_directory", "staged", "sync_directory", "write_atomic"]


def write_atomic(path: Path, data: bytes) -> None:
    """Put data at path; a reader, or whoever comes after a power cut, finds the old contents or the new ones."""
    with staged(path) as stream:
        stream.write(data)


@contextmanager
def staged(path: Path) -> Iterator[IO[bytes]]:
    """A stream to a file beside path, which takes its place at the end; after an error nothing of it is left.

    The file's permissions are those of any new file, 0666 without the umask, and are set by the kernel when the file
    is created: the umask belongs to the whole process, so reading it would change it for other threads for a moment.
    """
    stage = _beside(path)
    handle = os.open(stage, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        stage.replace(path)
    except BaseException:
        stage.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def stage_directory(path: Path) -> Path:
    """A new directory beside path, to be filled and then renamed to it; its permissions are 0777 without the umask."""
    stage = _beside(path)
    stage.mkdir()
    return stage


def _beside(path: Path) -> Path:
    """A hidden name in the same directory that nothing else has: 64 random bits."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


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
