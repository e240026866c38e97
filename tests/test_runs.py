"""Runs: exact resume, signals, divergence, two processes, damaged files, clear errors."""

from __future__ import annotations

import json
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import compvae
import compvae.cli
from compvae.batch import Batch
from compvae.errors import CheckpointError, ConfigError, DivergenceError, OutputError
from compvae.noise import Noise
from compvae.train.checkpoint import Checkpoints, RunState, read, restore, snapshot
from compvae.train.engine import Engine
from compvae.train.loop import Trainer
from compvae.train.observers import read_metrics
from compvae.train.runs import train_run
from compvae.train.settings import read_options, read_run, resolve

TINY: dict[str, Any] = {
    "problem": "sines", "steps": 24, "batch": 8, "threads": 1, "checkpoint_every": 6, "check_every": 9, "held_out": 8,
    "log_every": 4, "average": 0.9, "settings": {"timesteps": 12, "resolution": 6},
}  # fmt: skip


def tensors_of(directory: Path) -> dict[str, torch.Tensor]:
    """Everything in the newest checkpoint: weights, Adam's moments, average."""
    return Checkpoints(directory / "checkpoints").newest()[1]


def metrics_of(directory: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "seconds"} for line in read_metrics(directory / "metrics.jsonl")]


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    torch.set_num_threads(1)
    train_run(TINY, out)
    return out


class _Stop(Exception):  # noqa: N818
    pass


def interrupt_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Break off after this many steps, as a crash would: nothing is saved on the way out."""
    advance = Trainer.advance

    def broken(self: Trainer, stop: int = 0) -> Any:
        if self.state.step == step:
            raise _Stop
        return advance(self, stop)

    monkeypatch.setattr(Trainer, "advance", broken)


@pytest.mark.parametrize("step", [1, 5, 6, 13, 23])
def test_a_run_that_crashed_and_was_resumed_equals_the_uninterrupted_one(
    step: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(step, patch)
        with pytest.raises(_Stop):
            train_run(TINY, tmp_path / "run")
    outcome = train_run({}, tmp_path / "run", resume=True)
    assert f"step-{step // 6 * 6:09d}" in outcome.message
    assert same(tensors_of(tmp_path / "run"), tensors_of(whole))
    assert metrics_of(tmp_path / "run") == metrics_of(whole)
    x, y = (compvae.load(run).sample({"3": 2}, n=4) for run in (tmp_path / "run", whole))
    assert np.array_equal(x, y)


def test_resuming_at_every_save_of_every_preset_is_exact(tmp_path: Path) -> None:
    """The colours too: iterative inference, pixel subsets, a late M-step."""
    options = {**TINY, "problem": "colours", "steps": 6, "batch": 2, "checkpoint_every": 3, "settings": {"size": 8}}
    trainer = Trainer(resolve(options))
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=9)
    trainer.run(checkpoints)
    end, _ = snapshot(trainer.model, trainer.optimiser, trainer.average, trainer.state)
    for path in checkpoints.paths():
        again = Trainer(resolve(options))
        tensors, state = read(path)
        restore(tensors, again.model, again.optimiser, again.average)
        again.state = state
        while again.state.step < 6:
            again.advance()
        assert same(snapshot(again.model, again.optimiser, again.average, again.state)[0], end), path


def test_the_last_checkpoints_and_the_best_are_kept(whole: Path) -> None:
    names = sorted(path.name for path in (whole / "checkpoints").iterdir())
    assert names == ["best.safetensors", *(f"step-{s:09d}.safetensors" for s in (12, 18, 24))]
    held_out = [line["held_out"] for line in metrics_of(whole) if "held_out" in line]
    assert len(held_out) == 3
    assert read(whole / "checkpoints" / "best.safetensors")[1].best == max(held_out)


def test_a_directory_can_be_run_again_from_its_own_configuration(whole: Path, tmp_path: Path) -> None:
    train_run(read_options(whole / "config.json"), tmp_path / "again")
    assert same(tensors_of(tmp_path / "again"), tensors_of(whole))
    assert (tmp_path / "again" / "config.json").read_bytes() == (whole / "config.json").read_bytes()


def test_the_moving_average_is_the_model_and_includes_the_prior(whole: Path) -> None:
    tensors, model = tensors_of(whole), compvae.load(whole).network.state_dict()
    for name, value in model.items():
        assert torch.equal(value, tensors[f"average.{name}"]), name
    assert not torch.equal(tensors["average.prior.mean"], tensors["model.prior.mean"])


def test_fit_returns_the_model_its_metrics_and_its_directory(tmp_path: Path) -> None:
    run = compvae.fit("sines", out=tmp_path / "run", steps=3, seed=1, batch=4, threads=1)
    assert run.directory == tmp_path / "run"
    assert [line["step"] for line in run.metrics] == [3]
    assert run.model.sample({"3": 1}, n=2).shape == (2, 200)
    with pytest.raises(OutputError, match="is not empty; go on with its run by --resume"):
        compvae.fit("sines", out=tmp_path / "run", steps=3)
    with pytest.raises(ConfigError, match=r"steps is 3 .* not 5"):
        compvae.fit("sines", out=tmp_path / "run", steps=5, seed=1, resume=True)


def test_patience_stops_the_run_and_keeps_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = iter([1.0, 3.0, 2.0, 2.5, 2.0, 9.0, 9.0])
    monkeypatch.setattr(Trainer, "held_out_bound", lambda self: next(bounds))
    outcome = train_run({**TINY, "check_every": 2, "patience": 3, "average": 0.0}, tmp_path / "run")
    assert outcome.steps == 10
    best, state = read(tmp_path / "run" / "checkpoints" / "best.safetensors")
    assert (state.step, state.best) == (4, 3.0)
    for name, value in compvae.load(tmp_path / "run").network.state_dict().items():
        assert torch.equal(value, best[f"model.{name}"])


# -- divergence ------------------------------------------------------------------------------------------------------


def poison_data(trainer: Trainer, steps: range) -> None:
    draw = trainer.batch

    def spoiled(step: int) -> tuple[Batch, Noise]:
        batch, noise = draw(step)
        return (Batch(batch.x * float("nan"), batch.parts) if step in steps else batch), noise

    trainer.batch = spoiled  # type: ignore[method-assign]


def poison_gradient(trainer: Trainer, steps: range) -> None:
    parameter = next(trainer.model.decoder.parameters())
    parameter.register_hook(lambda grad: grad * float("inf") if trainer.state.step in steps else grad)


def poison_statistics(trainer: Trainer, steps: range) -> None:
    prior = trainer.model.prior
    statistics = prior.statistics  # type: ignore[union-attr]

    def spoiled(*arguments: Any) -> Any:
        found = statistics(*arguments)  # type: ignore[operator]
        if trainer.state.step in steps:
            found.square[0, 0] = float("nan")
        return found

    prior.statistics = spoiled  # type: ignore[assignment]


def in_output(find: Callable[[Trainer], torch.nn.Module]) -> Callable[[Trainer, range], None]:
    """NaN in the output of a layer."""

    def poison(trainer: Trainer, steps: range) -> None:
        find(trainer).register_forward_hook(
            lambda m, i, out: out * (float("nan") if trainer.state.step in steps else 1.0)
        )

    return poison


def in_gradient(find: Callable[[Trainer], torch.nn.Module]) -> Callable[[Trainer, range], None]:
    """Infinity in the gradient of a layer's weights."""

    def poison(trainer: Trainer, steps: range) -> None:
        for parameter in find(trainer).parameters():
            parameter.register_hook(lambda grad: grad * float("inf") if trainer.state.step in steps else grad)

    return poison


POISONS = {
    "first layer of q": in_output(lambda t: t.model.posterior.network[0]),  # type: ignore[index, union-attr]
    "residual block of q": in_output(lambda t: t.model.posterior.network[2]),  # type: ignore[index, union-attr]
    "message of q": in_output(lambda t: t.model.posterior.network[-1]),  # type: ignore[index, union-attr]
    "first layer of the link": in_output(lambda t: t.model.decoder.link[0]),  # type: ignore[index, union-attr]
    "output of the link": in_output(lambda t: t.model.decoder.link[-1]),  # type: ignore[index, union-attr]
    "gradient of q": in_gradient(lambda t: t.model.posterior),
    "gradient of the last layer": in_gradient(lambda t: t.model.decoder.link[-1]),  # type: ignore[index, union-attr]
    "data": poison_data,
    "gradient": poison_gradient,
    "statistics": poison_statistics,
}


def all_finite(directory: Path) -> bool:
    return all(torch.isfinite(t).all() for path in directory.glob("*") for t in read(path)[0].values())


@pytest.mark.parametrize("poison", POISONS)
def test_a_few_bad_steps_are_skipped_and_counted(poison: str, tmp_path: Path) -> None:
    trainer, seen = Trainer(resolve({**TINY, "tolerate": 4})), []
    POISONS[poison](trainer, range(7, 10))
    assert trainer.run(Checkpoints(tmp_path), [seen.append]) == 0
    assert trainer.state.skipped == 3
    assert [event.result.applied for event in seen].count(False) == 3
    assert all_finite(tmp_path)


@pytest.mark.parametrize("poison", POISONS)
def test_bad_steps_without_end_are_rolled_back_then_given_up(poison: str, tmp_path: Path) -> None:
    trainer, notes = Trainer(resolve({**TINY, "tolerate": 3, "rollbacks": 2})), []
    POISONS[poison](trainer, range(7, 10**9))
    with pytest.raises(DivergenceError, match=r"for 3 steps in a row up to step 10, also after 2 rollbacks .* 0\.25"):
        trainer.run(Checkpoints(tmp_path), [lambda event: notes.append(event.note)])
    assert [note for note in notes if note] == [
        f"the {trainer_fault} was not finite up to step 10: back to step 6, rate halved"
        for trainer_fault in [_fault_name(poison)] * 2
    ]
    assert all_finite(tmp_path)


def _fault_name(poison: str) -> str:
    return "gradient" if "gradient" in poison else "prior statistics" if poison == "statistics" else "loss"


def test_a_rollback_that_helps_lets_the_run_finish(tmp_path: Path) -> None:
    trainer = Trainer(resolve({**TINY, "tolerate": 3}))
    draw = trainer.batch
    # bad only at the full rate: a stand-in for a step size that was too large
    trainer.batch = lambda step: (  # type: ignore[method-assign]
        (Batch(draw(step)[0].x * float("nan"), draw(step)[0].parts), draw(step)[1])
        if step in range(7, 12) and trainer.state.slower == 1
        else draw(step)
    )
    assert trainer.run(Checkpoints(tmp_path)) == 0
    assert (trainer.state.step, trainer.state.rollbacks, trainer.state.slower) == (24, 1, 0.5)


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("good")
    tensors = {"model.a": torch.randn(3, 2), "optimiser.step.a": torch.tensor(3.0), "average.a": torch.randn(3, 2)}
    return Checkpoints(directory).save(tensors, RunState(step=7, best=1.5))


def test_a_checkpoint_comes_back_as_it_was(good: Path) -> None:
    tensors, state = read(good)
    assert state == RunState(step=7, best=1.5)
    assert set(tensors) == {"model.a", "optimiser.step.a", "average.a"}


def test_ten_thousand_damaged_checkpoints_are_each_a_clear_error(good: Path, tmp_path: Path) -> None:
    data, dice, path = good.read_bytes(), random.Random(0), tmp_path / "step-000000007.safetensors"
    for index in range(10_000):
        broken = bytearray(data)
        if index % 4 == 0:
            broken = broken[: dice.randrange(len(data))]
        elif index % 4 == 1:
            broken += bytes(dice.randrange(1, 9))
        else:
            for _ in range(dice.choice([1, 1, 3, 20])):
                at = dice.randrange(len(data))
                broken[at] ^= 1 << dice.randrange(8)
        if bytes(broken) == data:
            continue
        path.write_bytes(bytes(broken))
        with pytest.raises(CheckpointError):
            read(path)


class _Bomb:
    def __reduce__(self) -> Any:
        return (os.system, (f"touch {os.environ['COMPVAE_MARKER']}",))


def test_a_planted_pickle_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "marker"
    monkeypatch.setenv("COMPVAE_MARKER", str(marker))
    train_run({**TINY, "steps": 2}, tmp_path / "run")
    bomb = pickle.dumps(_Bomb())
    for path in [p for p in (tmp_path / "run").rglob("*") if p.is_file()]:
        kept = path.read_bytes()
        path.write_bytes(bomb)
        for attempt in (lambda: compvae.load(tmp_path / "run"), lambda: train_run({}, tmp_path / "run", resume=True)):
            with suppress(compvae.CompVAEError):
                attempt()
        path.write_bytes(kept)
    assert not marker.exists()


def test_the_newest_readable_checkpoint_is_taken_and_the_others_named(tmp_path: Path, whole: Path) -> None:
    train_run(TINY, tmp_path / "run")
    newest = Checkpoints(tmp_path / "run" / "checkpoints").paths()[-1]
    newest.write_bytes(newest.read_bytes()[:-5])
    outcome = train_run({}, tmp_path / "run", resume=True)
    assert "resumed from" in outcome.message
    assert "step-000000018" in outcome.message
    assert f"passed over: {newest}" in outcome.message
    assert same(tensors_of(tmp_path / "run"), tensors_of(whole))


def test_a_checkpoint_of_another_model_is_refused(good: Path) -> None:
    trainer = Trainer(resolve(TINY))
    with pytest.raises(CheckpointError, match=r"of another model|does not have"):
        restore(read(good)[0], trainer.model, trainer.optimiser, trainer.average)


def cli(*arguments: str, limit: int | None = None, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    def fewer_bytes() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    command = [sys.executable, "-m", "compvae", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=fewer_bytes, **kwargs)


SHORT = ("--steps", "4", "--batch", "4", "--threads", "1", "--quiet")


def test_what_cannot_be_written_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out, limit in ((tmp_path / "file" / "run", None), (tmp_path / "full", 100_000)):
        done = cli("train", "sines", *SHORT, "--out", str(out), limit=limit)
        assert done.returncode == 1, done.stderr
        assert done.stderr.startswith("compvae: ")
        assert done.stderr.count("\n") == 1
    assert [p.name for p in (tmp_path / "full" / "checkpoints").iterdir()] == []


def test_a_full_disk_leaves_the_previous_checkpoint_intact(tmp_path: Path) -> None:
    train_run({**TINY, "steps": 12}, tmp_path / "run")
    before = {p.name: p.read_bytes() for p in (tmp_path / "run" / "checkpoints").iterdir()}
    Checkpoints(tmp_path / "run" / "checkpoints").paths()[-1].unlink()
    done = cli("train", "--resume", "--quiet", "--out", str(tmp_path / "run"), limit=2000)
    assert done.returncode == 1
    assert "cannot write" in done.stderr
    after = {p.name: p.read_bytes() for p in (tmp_path / "run" / "checkpoints").iterdir()}
    assert all(before[name] == data for name, data in after.items())
    assert len(after) == len(before) - 1


@pytest.mark.parametrize(("arguments", "code", "words"), [
    (("train",), 2, "name a problem"),
    (("train", "sinus", *SHORT), 2, "problem 'sinus' is unknown"),
    (("train", "sines", "--preset", "big", *SHORT), 2, "preset 'big' is unknown"),
    (("train", "sines", "--steps", "4", "--minutes", "1"), 2, "--steps and --minutes"),
    (("train", "sines", "--precision", "16", *SHORT), 2, "precision: Input should be"),
    (("train", "sines", "--accelerator", "cuda", *SHORT), 2, "accelerator 'cuda'"),
    (("train", "sines", "--average", "2", *SHORT), 2, "average"),
    (("train", "sines", "--steps", "0"), 2, "--steps"),
    (("train", "--resume"), 3, "there is no run to resume"),
    (("train", "--config", "missing.toml"), 2, "missing.toml: cannot read"),
    (("train", "--config", "bad.toml"), 2, "bad.toml is not valid TOML"),
    (("train", "--config", "odd.toml"), 2, "colour"),
])  # fmt: skip
def test_mistakes_on_the_command_line_are_one_message_without_traceback(
    arguments: tuple[str, ...],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "bad.toml").write_text("problem = ")
    (tmp_path / "odd.toml").write_text('problem = "sines"\nsteps = 3\ncolour = "red"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["compvae", *arguments, "--out", "run"])
    with pytest.raises(SystemExit) as ended:
        compvae.cli.main()
    errors = capfd.readouterr().err
    assert ended.value.code == code, errors
    assert words in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "run" / "config.json").exists()


def test_options_come_from_a_file_and_flags_go_before_it(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('problem = "sines"\nsteps = 3\nbatch = 4\nthreads = 1\n[recipe]\nrate = 0.001\n')
    done = cli("train", "--config", "run.toml", "--steps", "2", "--out", "run", "--json", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == 2
    stored = json.loads((tmp_path / "run" / "config.json").read_text())["run"]
    assert (stored["recipe"]["rate"], stored["recipe"]["batch"]) == (0.001, 4)


def test_a_dry_run_says_what_it_would_take_and_writes_nothing(tmp_path: Path) -> None:
    done = cli("train", "sines", "--dry-run", "--threads", "1", "--json", "--out", "run", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["parameters"] == 867_276
    assert found["minutes"] > 0
    assert list(tmp_path.iterdir()) == []


def test_bfloat16_is_probed_in_a_child_before_it_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("compvae.train.engine.PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    with pytest.raises(ConfigError, match=r"bf16-mixed does not work on this processor \(probe ended with -4\)"):
        train_run({**TINY, "precision": "bf16-mixed"}, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_figure_of_the_terms_is_drawn_and_redrawn(tmp_path: Path) -> None:
    train_run(TINY, tmp_path / "run", show=True)
    figure = (tmp_path / "run" / "curves.svg").read_text()
    assert "<svg" in figure
    assert "w, bits" in figure or "<path" in figure


def test_minutes_become_steps_once_and_are_stored(tmp_path: Path) -> None:
    options = {k: v for k, v in TINY.items() if k not in ("steps", "threads")}
    outcome = train_run(options, tmp_path / "run", minutes=0.01)
    stored = read_run(read_options(tmp_path / "run" / "config.json"), "stored")
    assert stored.recipe.steps == outcome.steps >= 1
    assert stored.threads >= 1


# -- signals and processes -------------------------------------------------------------------------------------------


def start(out: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "compvae", "train", "sines", "--batch", "8", "--threads", "1", "--quiet"]
    command += ["--steps", "400", "--checkpoint-every", "50", "--out", str(out), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)


@pytest.fixture(scope="module")
def four_hundred(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The end of the run that the signals interrupt."""
    out = tmp_path_factory.mktemp("signals") / "whole"
    process = start(out)
    errors = process.communicate()[1]
    assert process.returncode == 0, errors
    return tensors_of(out)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_at_the_next_step_and_the_run_resumes_exactly(
    number: int, code: int, tmp_path: Path, four_hundred: dict[str, torch.Tensor]
) -> None:
    process = start(tmp_path / "run")
    wait_for(tmp_path / "run" / "checkpoints" / "step-000000050.safetensors", process)
    process.send_signal(number)
    out, err = process.communicate()
    assert process.returncode == code, err
    assert "saved" in out
    step = Checkpoints(tmp_path / "run" / "checkpoints").newest()[2].step
    assert 50 <= step < 400
    done = cli("train", "--resume", "--quiet", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert f"step-{step:09d}" in done.stderr
    assert same(tensors_of(tmp_path / "run"), four_hundred)


def test_killed_at_any_moment_every_checkpoint_there_is_readable(
    tmp_path: Path, four_hundred: dict[str, torch.Tensor]
) -> None:
    dice = random.Random(1)
    process = start(tmp_path / "run", "--checkpoint-every", "2")
    wait_for(tmp_path / "run" / "checkpoints" / "step-000000002.safetensors", process)
    for _ in range(3):
        time.sleep(dice.uniform(0.0, 0.3))
        process.kill()
        process.communicate()
        kept = Checkpoints(tmp_path / "run" / "checkpoints").paths()
        assert [read(path) for path in kept]
        command = [sys.executable, "-m", "compvae", "train", "--resume", "--quiet", "--out", str(tmp_path / "run")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(3)
    errors = process.communicate()[1]
    assert process.returncode == 0, errors
    assert same(tensors_of(tmp_path / "run"), four_hundred)


def test_rows_of_the_global_batch_are_the_same_for_any_number_of_processes() -> None:
    one = Trainer(resolve(TINY)).batch(5)[0]
    halves = [Trainer(resolve(TINY), Engine(rank, 2)).batch(5)[0] for rank in (0, 1)]
    assert torch.equal(one.x, torch.cat([half.x for half in halves]))
    assert torch.equal(one.parts.counts, torch.cat([half.parts.counts for half in halves]))


def test_two_processes_train_the_model_of_one_and_resume_exactly(tmp_path: Path) -> None:
    options = ["sines", "--steps", "20", "--batch", "16", "--threads", "1", "--quiet", "--checkpoint-every", "10"]
    for name, devices in (("one", "1"), ("two", "2")):
        out = str(tmp_path / name)
        done = cli("train", *options, "--precision", "64", "--devices", devices, "--out", out)
        assert done.returncode == 0, done.stderr
    one, two = tensors_of(tmp_path / "one"), tensors_of(tmp_path / "two")
    assert one.keys() == two.keys()
    weights = [name for name in one if name.startswith("model.")]
    difference = torch.cat([(one[n] - two[n]).flatten() for n in weights]).norm()
    assert difference / torch.cat([one[n].flatten() for n in weights]).norm() <= 1e-5
    Checkpoints(tmp_path / "two" / "checkpoints").paths()[-1].unlink()
    done = cli("train", "--resume", "--quiet", "--out", str(tmp_path / "two"))
    assert done.returncode == 0, done.stderr
    assert "step-000000010" in done.stderr
    assert same(tensors_of(tmp_path / "two"), two)


def test_processes_started_by_torchrun_train_the_same_model(tmp_path: Path) -> None:
    flags = [
        "sines",
        "--steps",
        "4",
        "--batch",
        "8",
        "--threads",
        "1",
        "--quiet",
        "--precision",
        "64",
        "--devices",
        "2",
    ]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "compvae"]
    done = subprocess.run(
        [*launcher, "train", *flags, "--out", str(tmp_path / "torchrun")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("4 steps done") == 1
    alone = cli("train", *flags[:-2], "--out", str(tmp_path / "one"))
    assert alone.returncode == 0, alone.stderr
    one, two = tensors_of(tmp_path / "one"), tensors_of(tmp_path / "torchrun")
    for name in (name for name in one if name.startswith("model.")):
        torch.testing.assert_close(one[name], two[name], rtol=1e-6, atol=1e-8)


def test_two_processes_agree_to_stop(tmp_path: Path) -> None:
    process = start(tmp_path / "run", "--devices", "2", "--steps", "100000")
    wait_for(tmp_path / "run" / "checkpoints" / "step-000000050.safetensors", process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert process.returncode == 143, err
    assert "saved" in out
    assert Checkpoints(tmp_path / "run" / "checkpoints").newest()[2].step >= 50
