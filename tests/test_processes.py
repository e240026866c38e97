"""Signals, kills, and several processes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from compvae.errors import OutputError
from compvae.train import engine
from compvae.train.checkpoint import Checkpoints, read
from compvae.train.engine import Engine
from compvae.train.loop import Event, Trainer
from compvae.train.settings import resolve
from runs import TINY, cli, same, tensors_of


def start(out: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "compvae", "train", "sines", "--batch", "8", "--threads", "1", "--quiet"]
    command += ["--steps", "400", "--checkpoint-every", "50", "--out", str(out), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)


def wait_for_another(directory: Path, before: set[str], process: subprocess.Popen[str]) -> None:
    """Until the run has saved again, or ended."""
    while process.poll() is None and {path.name for path in Checkpoints(directory).paths()} <= before:
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
        wait_for_another(tmp_path / "run" / "checkpoints", {path.name for path in kept}, process)
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
    (tmp_path / "two" / "model" / "notes.txt").touch()
    done = cli("train", "--resume", "--quiet", "--out", str(tmp_path / "two"))
    assert done.returncode == 3, done.stderr
    assert "holds other files (notes.txt)" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_signals_are_handed_on_while_processes_run_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(fabric: object) -> SimpleNamespace:
        return SimpleNamespace(value=[signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)])

    fabric = SimpleNamespace(device=torch.device("cpu"), launch=work)
    monkeypatch.setattr(engine, "fabric_for", lambda devices, accelerator: fabric)
    before = work(fabric).value
    inside = engine.launch(lambda own: None, devices=2)
    assert inside == [engine._forward, engine._forward]
    assert work(fabric).value == before


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


FULL_DISK = """
from compvae.train import runs

class FullDisk(runs._Work):
    def _observers(self, config, step):
        found = super()._observers(config, step)
        metrics = self.directory / "metrics.jsonl"
        metrics.unlink()
        metrics.symlink_to("/dev/full")
        return found

if __name__ == "__main__":
    runs._Work = FullDisk
    from compvae.cli import main
    main()
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full to write to")
@pytest.mark.parametrize(
    ("launcher", "steps", "kept"),
    [((), "400", "step-000000000"), (("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"), "4", "4")],
    ids=["in the middle", "at the last step, by torchrun"],
)
def test_a_disk_that_is_full_for_the_metrics_ends_all_processes(
    launcher: tuple[str, ...], steps: str, kept: str, tmp_path: Path
) -> None:
    """The metrics of process 0 cannot be written: one sentence, exit 1, and no process waits for another."""
    (tmp_path / "full.py").write_text(FULL_DISK)
    command = [sys.executable, *launcher, str(tmp_path / "full.py"), "train", "sines", "--batch", "8", "--quiet"]
    command += ["--threads", "1", "--steps", steps, "--devices", "2", "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("metrics.jsonl: cannot write, No space left on device; the last checkpoint is intact") == 1
    assert "Connection closed" not in done.stderr
    assert "[rank" not in done.stderr  # before the lines of a traceback, where torchrun started the process
    assert bool(launcher) == ("Traceback" in done.stderr)  # torchrun's own, that a process has failed
    assert Checkpoints(tmp_path / "run" / "checkpoints").paths()[-1].stem.endswith(kept)


@pytest.mark.parametrize("world", [1, 2])
def test_an_observer_that_fails_is_heard_of_in_the_sum_of_the_next_step(world: int, tmp_path: Path) -> None:
    """Two processes, the second of which does nothing: its share of every sum is 0."""
    heard: list[int] = []

    def observer(event: Event) -> None:
        heard.append(event.step)
        raise PermissionError(13, "Permission denied", "curves.svg")

    alone = SimpleNamespace(all_reduce=lambda flat, reduce_op: flat, broadcast=lambda box: box)
    trainer = Trainer(resolve(TINY), Engine(0, world, fabric=alone))
    with pytest.raises(OutputError, match=r"^curves\.svg: cannot write, Permission denied; the last checkpoint"):
        trainer.run(Checkpoints(tmp_path), [observer])
    assert heard == [1]
    assert trainer.state.step == world
