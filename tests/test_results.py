"""Files of results: memory that does not grow with the rows, the same bytes, errors in the middle; progress."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from compvae import results
from compvae.errors import CompVAEError, ConfigError, DataFileError, PartsError
from compvae.parts import Categorical, Continuous
from compvae.progress import watched
from compvae.results import Result, write_result
from compvae.texts import read_context_text, read_parts_text
from models import NOTES, SITES, WEATHER

WIDTH, CHUNK, BLOCK = 64, 128, 2**17


def chunks(rows: int) -> Iterator[np.ndarray]:
    for start in range(0, rows, CHUNK):
        yield np.arange(start, min(start + CHUNK, rows), dtype=np.float32)[:, None].repeat(WIDTH, 1)


@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet"])
def test_memory_while_writing_does_not_grow_with_the_rows(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "BLOCK_BYTES", BLOCK)
    peaks = []
    for rows in (4 * BLOCK // (4 * WIDTH), 16 * BLOCK // (4 * WIDTH)):
        write_result(tmp_path / f"warm{ending}", Result(CHUNK, (WIDTH,), chunks(CHUNK)))
        tracemalloc.start()
        write_result(tmp_path / f"x{ending}", Result(rows, (WIDTH,), chunks(rows)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 4 * BLOCK  # 12 blocks more were written


@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet"])
def test_an_error_in_the_middle_leaves_the_old_file(ending: str, tmp_path: Path) -> None:
    def breaking() -> Iterator[np.ndarray]:
        yield np.zeros((CHUNK, 3), np.float32)
        raise KeyboardInterrupt

    out = tmp_path / f"x{ending}"
    out.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_result(out, Result(2 * CHUNK, (3,), breaking()))
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    assert out.read_text() == "old"


def test_single_precision_survives_text(tmp_path: Path) -> None:
    from compvae.data.wholes import read_observed

    bits = np.random.default_rng(0).integers(0, 2**32, 40_000, dtype=np.uint32)
    x = bits.view(np.float32)
    x = np.concatenate([x[np.isfinite(x)][:30_000], [np.float32(0.1), np.finfo(np.float32).tiny / 8]]).reshape(-1, 2)
    x = x.astype(np.float32)
    write_result(tmp_path / "x.csv", Result.of(x, {"whole_id": np.array([f'a,"{i}' for i in range(len(x))])}, {}))
    ids, again = read_observed(tmp_path / "x.csv", (2,))
    assert np.array_equal(again, x)
    assert ids[1] == 'a,"1'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_tells_rate_and_time_left_only_where_somebody_looks() -> None:
    def run(stream: io.StringIO, asked: bool) -> str:
        ticks = iter(range(100))
        pieces = [np.zeros((10, 1))] * 4
        passed = list(watched(pieces, 40, asked, stream, lambda: float(next(ticks))))
        assert len(passed) == 4
        return stream.getvalue()

    assert run(io.StringIO(), asked=False) == ""
    assert run(io.StringIO(), asked=True).splitlines()[0] == "10 of 40 (25%), 10 a second, 0:03 left"
    assert "\r40 of 40 (100%), 10 a second, 0:00 left" in run(Terminal(), asked=False)


def test_parts_and_context_are_read_from_text() -> None:
    assert read_parts_text("a:2, c:1,a:1", NOTES).single().counts == (3, 0, 1)
    by_id = read_parts_text('[[{"note": "a"}], [{"note": "b", "count": 2}]]', NOTES).rows(["0", "1"])
    assert [m.counts for m in by_id.parse(NOTES)] == [(1, 0, 0), (0, 2, 0)]
    assert read_parts_text('[[{"note": "c"}]]', NOTES).rows(["a name"]).parse(NOTES)[0].counts == (0, 0, 1)
    with pytest.raises(PartsError, match="parts holds 1 compositions, the data 2 wholes"):
        read_parts_text('[[{"note": "c"}]]', NOTES).rows(["a", "b"])
    assert read_context_text("temperature=-5,day=end", WEATHER) == {"temperature": -5.0, "day": "end"}
    assert isinstance(WEATHER[0], Continuous)
    assert isinstance(WEATHER[1], Categorical)


@pytest.mark.parametrize(("text", "error", "message"), [
    ("a:1,", PartsError, "write name:count"),
    ('{"a": 1, "a": 2}', PartsError, "stands twice"),
    ('[{"note": "a"}, {"note": "b", "whole_id": 3}]', PartsError, "every part needs a whole_id"),
    ("missing.csv", ConfigError, "no such file"),
])  # fmt: skip
def test_what_is_wrong_in_a_text_is_said(text: str, error: type[CompVAEError], message: str) -> None:
    with pytest.raises(error, match=message):
        read_parts_text(text, NOTES, "--parts")


def test_a_table_of_parts_is_checked_cell_by_cell(tmp_path: Path) -> None:
    table = tmp_path / "p.csv"
    table.write_text("colour,x,y\nred,0.5,0.5\nred,0.5,7\n")
    with pytest.raises(DataFileError, match=r"p.csv, row 3, column 'y': y is 7.0, it must be in \[-1, 1\]"):
        read_parts_text(str(table), SITES)
    table.write_text("colour,x,y,whole_id\nred,0.5,0.5,a\nred,0.5,0.5,\n")
    with pytest.raises(DataFileError, match=r"p\.csv, row 3, column 'whole_id': nothing is written"):
        read_parts_text(str(table), SITES)
    table.write_text("colour,x\nred,0.5\n")
    with pytest.raises(DataFileError, match="column 'y' is missing"):
        read_parts_text(str(table), SITES)


def test_a_table_of_parts_may_have_decimal_commas(tmp_path: Path) -> None:
    table = tmp_path / "p.csv"
    table.write_text("colour;x;y;count\nred;0,5;-0,25;2\n")
    assert read_parts_text(str(table), SITES).single().counted() == [
        {"colour": "red", "x": 0.5, "y": -0.25, "count": 2}
    ]
