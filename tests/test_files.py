"""Files and directories that appear whole: their permissions are those of any new file under the umask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compvae.files import staged, write_atomic
from compvae.model import Model
from models import CONFIGS, build


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664), (0o027, 0o640)])
def test_a_file_has_the_permissions_that_the_umask_leaves(mask: int, expected: int, tmp_path: Path) -> None:
    with umask(mask):
        write_atomic(tmp_path / "secret.json", b"{}")
        (tmp_path / "plain").touch()
    assert mode(tmp_path / "secret.json") == mode(tmp_path / "plain") == expected


def test_a_model_directory_has_the_permissions_that_the_umask_leaves(tmp_path: Path) -> None:
    with umask(0o077):
        Model(build(next(iter(CONFIGS.values())))).save(tmp_path / "model")
    assert mode(tmp_path / "model") == 0o700
    assert {mode(path) for path in (tmp_path / "model").iterdir()} == {0o600}


def test_after_an_error_nothing_is_left_and_the_old_file_stays(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a.txt", b"old")
    with pytest.raises(TypeError), staged(tmp_path / "a.txt") as stream:
        stream.writelines([b"new", 7])  # type: ignore[list-item]
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_bytes() == b"old"
