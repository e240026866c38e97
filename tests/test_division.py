"""benchmarks/division.py from end to end on few steps; what is said of the presets in the paper's form."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

import compvae
from compvae import problems
from compvae.model import Model
from compvae.network import CompVAE, seeded_network, structured
from compvae.noise import Noise
from compvae.posterior.graph import GraphPosterior
from compvae.presets import structured_preset
from compvae.storage import Provenance
from compvae.train.schedule import largest_size, learning_rate, recipe_for

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
PROBLEMS = ("sines", "colours")


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmarks as modules, as they see each other when run."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize("name", PROBLEMS)
def test_paper_narrow_has_the_papers_form_and_fits_into_the_package(name: str) -> None:
    wide, narrow = (structured_preset(problems.get(name), preset) for preset in ("paper", "paper-narrow"))
    for piece in ("prior", "posterior", "decoder"):
        assert getattr(wide, piece).kind == getattr(narrow, piece).kind
    assert (narrow.posterior.trunk, narrow.decoder.trunk) == (wide.posterior.trunk, wide.decoder.trunk)  # type: ignore[union-attr]
    assert (narrow.prior.fit, narrow.posterior.family, narrow.latent.z_place) == ("gradient", "paper", "below")  # type: ignore[union-attr]
    assert (narrow.prior.floor, narrow.scale, narrow.latent.blocks) == (wide.prior.floor, wide.scale, False)
    assert 4 * sum(value.numel() for value in CompVAE(narrow).parameters()) <= 8_000_000


@pytest.mark.parametrize("name", PROBLEMS)
def test_its_schedule_is_the_papers_in_proportion(name: str) -> None:
    """The paper: K at its largest after 42,000 of the 133,000 steps in which the rate falls to a hundredth (1D)."""
    paper, narrow, top = recipe_for(name, "paper"), recipe_for(name, "paper-narrow"), problems.get(name).max_parts
    assert narrow.betas == paper.betas
    assert [largest_size(narrow, step, top) for step in (0, narrow.steps)] == [2, top]
    assert largest_size(narrow, int(0.31 * narrow.steps), top) == top
    assert learning_rate(narrow, narrow.steps) == pytest.approx(0.01 * narrow.rate)
    assert learning_rate(paper, 140_000) == pytest.approx(0.01 * paper.rate)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("steepness", [1.0, 30.0])
def test_samples_of_the_papers_form_are_finite_far_beyond_training(name: str, steepness: float) -> None:
    """Without bounds of log-variances all samples of 300 parts are NaN after training (docs/experiments.md, 23)."""
    problem = problems.get(name)
    network = structured(seeded_network(structured_preset(problem, "paper-narrow"), 0))
    with torch.no_grad():
        for value in network.parameters():
            value.mul_(steepness if value.ndim > 1 else 1.0)
    model = Model(network.eval(), Provenance(name))
    for size in (1, 30, 300, 1000):
        parts = problem.draw_parts(torch.tensor([size]), Noise(0, 1))
        chosen = compvae.batch.unpad(parts, problem.schema)[0].dicts()
        assert all(math.isfinite(value) for value in model.sample(chosen, 4).ravel())


@pytest.mark.usefixtures("scripts")
def test_a_row_is_run_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from division import ROWS, run
    from division_table import figure, rows_of, table

    for name in ("baseline", "z 32, w first", "z composed", "one K"):
        run("sines", name, 3, 0, tmp_path, 20, 2)
    rows = rows_of(tmp_path, "sines")
    assert [row["row"] for row in rows] == ["baseline", "one K", "z 32, w first", "z composed"]
    assert all(row["says"] == ROWS[row["row"]].says and row["processor"] and row["command"] for row in rows)
    assert [point["step"] for point in rows[0]["curve"]] == [0, 1, 2, 3]
    assert table(rows).count("\n") == 5
    assert len(figure(rows).axes) == 3
    assert json.loads(capsys.readouterr().out.splitlines()[0].removeprefix("baseline "))["step"] == 1
    assert compvae.load(tmp_path / "sines baseline seed 0").provenance.notes["row"] == "baseline"


@pytest.mark.usefixtures("scripts")
def test_switches_of_the_rows_do_what_they_say() -> None:
    from division import Row, Training, one_size, z_starts_at

    problem = problems.get("sines")
    sizes = {int(size) for size in one_size(problem, 9, Noise(0, 8, 4)).parts.sizes}
    assert len(sizes) == 1
    assert len({int(one_size(problem, 9, Noise(0, 8, step)).parts.sizes[0]) for step in range(20)}) > 3
    composed = Training("sines", Row("", composed=True), 5, 0).network.posterior
    assert isinstance(composed, GraphPosterior)
    assert composed.reader is not None
    assert composed.reader.with_parts
    network = Training("sines", Row("", begin=z_starts_at(-6.0)), 5, 0).network
    batch = problem.draw(4, Noise(0, 4))
    prior = network.z_below(torch.randn(4, 1, network.config.latent.w), batch.parts, None)
    assert torch.allclose(prior.variance.detach().log(), torch.tensor(-6.0), atol=1e-3)
    assert not prior.mean.detach().any()


@pytest.mark.usefixtures("scripts")
def test_the_baseline_is_trained_as_the_package_trains() -> None:
    """The same weights after the same steps."""
    from compvae.train.loop import Trainer
    from compvae.train.settings import resolve
    from division import ROWS, Training

    ours = Training("sines", ROWS["baseline"], 40, 3)
    model = ours.network.config.model_dump(mode="json")
    theirs = Trainer(resolve({"problem": "sines", "preset": "paper-narrow", "model": model, "steps": 40, "seed": 3}))
    for step in range(3):
        ours.step(step)
        theirs.advance()
    for (name, a), b in zip(ours.network.named_parameters(), theirs.model.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-4), name
