"""benchmarks/gallery: each problem against an independent computation, one whole at a time in plain Python."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from compvae import problems
from compvae.batch import PaddedParts, unpad
from compvae.noise import Noise
from compvae.parts import Part
from compvae.problems import Problem

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
NAMES = ("spectra", "chords", "queue", "dice", "appliances", "heat", "balls")


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The gallery known by its names, and forgotten afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(problems, "PROBLEMS", problems.PROBLEMS.copy())
    for name in [name for name in sys.modules if name.split(".")[0] == "gallery"]:
        monkeypatch.delitem(sys.modules, name)
    import gallery

    assert tuple(problem.name for problem in gallery.GALLERY) == NAMES
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "gallery"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture(params=NAMES)
def problem(request: pytest.FixtureRequest) -> Problem:
    if request.param == "appliances":
        from gallery.acsf1 import wheel

        if not wheel().exists():
            pytest.skip(f"{wheel()} is not here: benchmarks/gallery_landed.py fetches it")
    return problems.get(request.param)


# -- one whole, from its definition ----------------------------------------------------------------------------------

Hidden = list[list[float]]


def spectra(parts: list[Part], hidden: Hidden, factors: list[float]) -> np.ndarray:
    first, second = [10, 22, 34, 46, 58, 70], [50, 66, 8, 20, 30, 44]
    t, total = np.arange(80), np.zeros(80)
    for part, (height, shift) in zip(parts, hidden, strict=True):
        total += height * np.exp(-0.5 * ((t - first[part.kind] - shift) / 3) ** 2)
        total += 0.5 * height * np.exp(-0.5 * ((t - second[part.kind] - shift) / 5) ** 2)
    return 1 - np.exp(-factors[0] * total)


def chords(parts: list[Part], hidden: Hidden, factors: list[float]) -> np.ndarray:
    pitches, x = (0, 2, 4, 5, 7, 9, 11), np.zeros(44)
    for part, (loudness, dullness) in zip(parts, hidden, strict=True):
        for h in range(1, 6):
            for k, f in enumerate(range(-2, 42)):
                x[k] += loudness * h**-dullness * math.exp(-((f - pitches[part.kind] - 12 * math.log2(h)) ** 2))
    return x


def queue(parts: list[Part], hidden: Hidden, factors: list[float]) -> np.ndarray:
    """Who is served when: the counter is busy from max(arrival, free again) for the service time."""
    free_at, x = {}, []
    for arrival, service in sorted(map(tuple, hidden)):
        free_at[arrival] = max(arrival, *free_at.values(), -math.inf) + service
    for t in np.linspace(6.0, 22.0, 64):
        x.append(max([0.0, *(free - t for arrival, free in free_at.items() if arrival <= t)]))
    return np.array(x)


def dice(parts: list[Part], hidden: Hidden, factors: list[float]) -> np.ndarray:
    faces = [face for (face,) in hidden]
    highest = (4, 6, 8, 10, 6, 8)
    assert all(1 <= face <= highest[part.kind] for part, face in zip(parts, faces, strict=True))
    return np.array([float(faces.count(f)) for f in range(1, 11)])


def appliances(parts: list[Part], hidden: Hidden, factors: list[float]) -> np.ndarray:
    series = getattr(problems.get("appliances"), "series")  # noqa: B009
    return sum(series.numpy()[part.kind, int(which)] for part, (which,) in zip(parts, hidden, strict=True))


def heat(parts: list[Part], hidden: Hidden, factors: list[float]) -> np.ndarray:
    total = [
        sum(s * math.exp(-(abs((t - p.features[0]) / b) ** 1.5)) for p, (s, b) in zip(parts, hidden, strict=True))
        for t in np.linspace(-1, 1, 96)
    ]
    return np.array([2 * math.tanh(value / 2) for value in total])


def balls(parts: list[Part], hidden: Hidden, factors: list[float]) -> np.ndarray:
    x, line = np.zeros((1, 32, 32)), np.linspace(-1, 1, 32)
    for i in range(32):
        for j in range(32):
            outside = 1.0
            for part, (radius,) in zip(parts, hidden, strict=True):
                away = math.hypot(line[j] - part.features[0], line[i] - part.features[1])
                outside *= 1 - 1 / (1 + math.exp(min(700, (away - radius) / 0.03)))
            x[0, i, j] = 1 - outside
    return x


PLAIN: dict[str, Callable[[list[Part], Hidden, list[float]], np.ndarray]] = {
    f.__name__: f for f in (spectra, chords, queue, dice, appliances, heat, balls)
}


# -- tests -----------------------------------------------------------------------------------------------------------


def drawn(problem: Problem, rows: int) -> tuple[PaddedParts, torch.Tensor, torch.Tensor]:
    noise = Noise(5, rows)
    parts = problem.draw_parts(noise.integers("sizes", 1, problem.max_parts), noise)
    return parts, problem.draw_specifics(parts, noise), problem.draw_factors(noise)


def test_combine_is_the_plain_computation(problem: Problem) -> None:
    parts, specifics, factors = drawn(problem, 12)
    x = problem.combine(parts, specifics, factors).numpy()
    assert x.dtype == np.float32
    assert x.shape == (12, *problem.shape)
    for row, composition in enumerate(unpad(parts, problem.schema)):
        hidden = specifics[row, : composition.size].tolist()
        plain = PLAIN[problem.name](composition.listed(), hidden, factors[row].tolist())
        np.testing.assert_allclose(x[row], plain, atol=2e-5)


def test_the_order_of_parts_changes_nothing(problem: Problem) -> None:
    parts, specifics, factors = drawn(problem, 20)
    order = torch.randperm(parts.kind.shape[1])
    moved = PaddedParts(parts.kind[:, order], parts.features[:, order], parts.mask[:, order], parts.n_kinds)
    x, again = problem.combine(parts, specifics, factors), problem.combine(moved, specifics[:, order], factors)
    torch.testing.assert_close(x, again, atol=1e-5, rtol=0)


def test_the_truth_is_fast_and_its_first_rows_do_not_depend_on_n(problem: Problem) -> None:
    composition = unpad(drawn(problem, 8)[0], problem.schema)[3]
    started = time.process_time()
    x = problem.truth(composition, 10_000, seed=1)
    assert time.process_time() - started < 20
    assert np.isfinite(x).all()
    assert np.array_equal(x[:10], problem.truth(composition, 10, seed=1))
    assert not np.array_equal(x[:10], problem.truth(composition, 10, seed=2))


def test_a_draw_has_the_training_range(problem: Problem) -> None:
    batch = problem.draw(problem.max_parts, Noise(0, 500))
    fewest = 2 if problem.name == "balls" else 1
    assert set(batch.parts.sizes.int().tolist()) == set(range(fewest, problem.max_parts + 1))


def test_files_are_short() -> None:
    for name in NAMES:
        assert len((BENCHMARKS / "gallery" / f"{name}.py").read_text().splitlines()) < 80


def test_spectra_together_share_a_path() -> None:
    batch = problems.get("spectra", together=True).draw(6, Noise(0, 400))
    assert batch.shared is not None
    assert batch.shared.members.max() == 4
    again = problems.get("spectra").draw(6, Noise(0, 400))
    alone = batch.shared.first
    torch.testing.assert_close(batch.x[alone], again.x[alone])  # whoever comes first has its own path
    assert not torch.equal(batch.x, again.x)
    assert again.shared is None


def test_an_empty_queue_and_one_that_builds_up() -> None:
    x = problems.get("queue").whole({"early": 2}, np.array([[[10.0, 1.0], [10.5, 2.0]], [[30.0, 1.0], [31.0, 1.0]]]))
    times = np.linspace(6, 22, 64)
    assert (x[1] == 0).all()
    assert (x[0][times < 10] == 0).all()
    assert x[0][times > 10.5][0] == pytest.approx(13.0 - times[times > 10.5][0], abs=1e-5)  # free again at 13


def test_faces_come_as_often_as_they_should() -> None:
    x = problems.get("dice").truth({"sixes": 1}, 10_000, seed=0)
    np.testing.assert_allclose(x.mean(0), [0.1] * 5 + [0.5] + [0] * 4, atol=0.02)


def test_places_of_balls_leave_out_a_corner() -> None:
    seen = problems.get("balls").draw(4, Noise(0, 500)).parts.padded()
    asked = problems.get("balls", places="corner").draw(4, Noise(0, 500)).parts.padded()
    in_corner = [(parts.features > 0).all(-1)[parts.mask] for parts in (seen, asked)]
    assert not in_corner[0].any()
    assert in_corner[1].all()


def test_halves_of_the_appliances_differ() -> None:
    from gallery.acsf1 import averaged, wheel

    np.testing.assert_allclose(averaged(np.arange(1460.0)).mean(), 729.5)
    np.testing.assert_allclose(averaged(np.repeat(np.arange(96.0), 3)), np.arange(96.0), atol=1e-9)
    if not wheel().exists():
        pytest.skip(f"{wheel()} is not here: benchmarks/gallery_landed.py fetches it")
    training, held_out = (getattr(problems.get("appliances", half=h), "series") for h in ("training", "held-out"))  # noqa: B009
    assert training.shape == held_out.shape == (10, 10, 96)
    assert torch.cdist(training.flatten(0, 1), held_out.flatten(0, 1)).min() > 0
