"""examples/feeder.py runs from end to end on a small file of its own, without a network."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from meter_files import write_all

EXAMPLE = Path(__file__).parent.parent / "examples" / "feeder.py"


def test_the_example_shows_peaks_and_a_what_if(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("feeder", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    write_all(tmp_path / "data", homes=12, days=15)
    found = example.feeder(tmp_path / "data", tmp_path / "run", steps=8, seed=0, groups=15)
    text = capsys.readouterr().out
    assert "homes on held-out days, kW" in text
    assert "what if, on 2021-05-" in text
    assert found["after"].shape == (example.DRAWS, 24)
    assert all(np.isfinite(values).all() for values in found.values())
    assert (tmp_path / "run" / "model" / "config.json").exists()
