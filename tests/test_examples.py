"""The examples run on a small budget, and what they measure is as good as they say."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import compvae
from compvae.presets import family
from compvae.train.settings import resolve

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_compose_sines(tmp_path: Path) -> None:
    found = example("compose_sines").main(tmp_path / "x.npz", n=300)
    assert np.load(tmp_path / "x.npz")["x"].shape == (300, 200)
    assert abs(found["relED"]) < 0.01
    assert found["edit ratio"] < 0.05
    assert found["loudness of the top 1%, over the mean"] > 1.2


def test_edit_image(tmp_path: Path) -> None:
    found = example("edit_image").main(tmp_path / "x.npz", n=3)
    written = np.load(tmp_path / "x.npz")
    assert written["with_white"].shape == (3, 3, 32, 32)
    assert found["error of the edit"] < 0.2 * found["change it stands for"]


@pytest.fixture(scope="module")
def chords(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    module = example("new_problem")
    module.where = str(tmp_path_factory.mktemp("chords") / "run")
    module.found = module.main(module.where, steps=100)
    return module


def test_a_new_problem_trains_samples_and_edits(chords: ModuleType) -> None:
    distance, ratio = chords.found
    assert abs(distance) < 0.02
    assert ratio < 0.1


def test_a_new_problem_takes_fewer_than_sixty_lines() -> None:
    assert len((EXAMPLES / "new_problem.py").read_text().splitlines()) < 60


def test_its_spectrum_is_what_its_formula_says(chords: ModuleType) -> None:
    problem = compvae.problems.get("chords")
    x = problem.whole({"E": 1, "C": 1}, np.array([[[0.5, 1.0], [2.0, 0.0]]]))[0]
    for place, semitone in enumerate(range(-2, 42)):
        loud = {4: (0.5, 1.0), 0: (2.0, 0.0)}
        expected = sum(
            a * h**-b * math.exp(-((semitone - pitch - 12 * math.log2(h)) ** 2))
            for pitch, (a, b) in loud.items()
            for h in range(1, 6)
        )
        assert x[place] == pytest.approx(expected, abs=1e-5)


def test_the_trained_model_is_loaded_without_its_problem(chords: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(compvae.problems.PROBLEMS, "chords")
    assert compvae.load(chords.where).sample({"A": 3}, n=2).shape == (2, 44)
    with pytest.raises(compvae.CompVAEError, match="chords"):
        compvae.fit("chords", out=chords.where, resume=True, steps=110)


def test_presets_of_a_new_problem_follow_its_parts(chords: ModuleType) -> None:
    assert family(compvae.problems.get("chords")) == "tables"
    assert resolve({"problem": "chords"}).model.kind == "transport", "what a choice starts from"
    assert resolve({"problem": "chords", "preset": "small"}).model.decoder.kind == "linked"
    with pytest.raises(compvae.CompVAEError, match="the presets are small, sums"):
        resolve({"problem": "chords", "preset": "paper"})


def test_what_cannot_be_registered_is_refused(chords: ModuleType) -> None:
    with pytest.raises(compvae.CompVAEError, match="comes with the package"):
        compvae.problems.register(type("Mine", (chords.Chords,), {"name": "sines"}))
    with pytest.raises(compvae.CompVAEError, match="needs a name"):
        compvae.problems.register(type("Mine", (chords.Chords,), {"name": "my chords"}))
    assert compvae.problems.register(chords.Chords) is chords.Chords
