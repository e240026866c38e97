"""A run and its directory: config.json, metrics.jsonl, checkpoints/, curves.svg, and model/ at the end."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import torch

from compvae import errors
from compvae.batch import Batch
from compvae.checks import from_plain_data
from compvae.errors import (
    CheckpointError,
    CompVAEError,
    ConfigError,
    DivergenceError,
    MissingExtraError,
    OutputError,
)
from compvae.files import reason, write_atomic
from compvae.fitting.calibration import fit_prior, seconds_of_batch, work_of
from compvae.model import Model
from compvae.network import Network
from compvae.noise import Noise
from compvae.presets import AUTO, FIRST, PRESETS
from compvae.problems import PROBLEMS
from compvae.problems.own import OwnData
from compvae.problems.source import OwnSource
from compvae.storage import Provenance
from compvae.train.budget import Costs, as_in_training, measure, step_seconds
from compvae.train.checkpoint import Checkpoints, read
from compvae.train.choice import Choice, choose, with_structure
from compvae.train.engine import Engine, launch
from compvae.train.loop import Observer, Trainer
from compvae.train.needs import GTX_1080, Needs, needs
from compvae.train.observers import CurvesFigure, FitProgress, MetricsFile, ProgressBar, TensorBoard
from compvae.train.schedule import Recipe
from compvae.train.settings import FORMAT_VERSION, RunConfig, read_options, read_run, resolve, with_data
from compvae.train.watch import require_finite_samples
from compvae.transport.config import TransportConfig
from compvae.verdict.judge import YARDSTICKS_SHARE, RunnerUp, judge
from compvae.verdict.scores import Scores
from compvae.verdict.verdict import VERDICT_FILE, Verdict

__all__ = ["Estimate", "Outcome", "data_of", "estimate", "estimate_lines", "outcome_dict", "train_run"]

CONFIG, METRICS, DATA, ESTIMATE = "config.json", "metrics.jsonl", "data.json", "estimate.json"
CHOICE, RUNNER_UP = "choice.json", "runner_up.json"
OWN_MINUTES = 3.0  # of a run of own data that was given neither minutes nor steps
CALIBRATION = 1 << 40  # added to the seed of a run: wholes that no step trained on

Found = TypeVar("Found")


@dataclass(frozen=True)
class Outcome:
    """How a run ended.  stopped: the signal that stopped it, 0 where it came to its end."""

    directory: Path
    steps: int
    stopped: int
    skipped: int
    rollbacks: int
    held_out: float | None
    message: str = ""


@dataclass(frozen=True)
class Estimate:
    """What a run would take, measured on a few units of everything it does.

    steps: of the run.  step_seconds: of one, at the largest K.  minutes: of the whole run.
    minutes_of: of its start, steps, checks and fits.
    needs: memory and operations of a step.  tflops, device_hours: of a device of that speed, the hours of all steps.
    """

    parameters: int
    steps: int
    step_seconds: float
    minutes: float
    minutes_of: dict[str, float]
    threads: int
    bound: float
    needs: Needs
    tflops: float
    device_hours: float


def train_run(
    options: Mapping[str, Any],
    out: str | os.PathLike[str],
    resume: bool = False,
    minutes: float | None = None,
    show: bool = False,
    tensorboard: bool = False,
) -> Outcome:
    """Train, or go on training, in a directory."""
    directory = Path(out)
    plan = _stored(directory, options) if resume else resolve(options)
    work = _Work(dict(options), directory, resume, minutes, show, tensorboard)
    result = launch(work, plan.devices, plan.accelerator, plan.precision)
    if isinstance(result, _Failure):
        raise result.error()
    assert isinstance(result, Outcome)
    return result


def estimate(options: Mapping[str, Any], minutes: float | None = None, tflops: float = GTX_1080) -> Estimate:
    """Build the model, do a little of everything, say what the whole would take; writes nothing.

    Args:
        options: as for :func:`train_run`.
        minutes: what the run may take; its number of steps follows.
        tflops: 10^12 operations a second of another device, on which the steps would take ``device_hours`` at best.
    """
    config = resolve(options)
    started = time.perf_counter()
    threads = config.threads if options.get("threads") else _best_threads(config)
    with _threads(threads):
        found = needs(Trainer(config, measured_only=True))  # first: of the memory of one run, not of two
    costs, bound = _costs(config, threads, time.perf_counter() - started)
    steps = config.recipe.steps
    if minutes is not None:
        costs = _affordable(config, options, costs, minutes)[1]
        steps = costs.steps_within(minutes, config.check_every)
    parts = {name: seconds / 60 for name, seconds in costs.seconds(steps, config.check_every).items()}
    parameters = sum(value.numel() for value in costs.model.parameters())
    total, hours = sum(parts.values()), found.hours(steps, tflops)
    return Estimate(parameters, steps, costs.step, total, parts, threads, bound, found, tflops, hours)


def estimate_lines(found: Estimate) -> list[str]:
    """What an estimate says, in words."""
    parts = ", ".join(f"{value:.1f} {name}" for name, value in found.minutes_of.items())
    hours = f" ({found.minutes / 60:,.0f} hours)" if found.minutes >= 600 else ""
    needs = found.needs
    return [
        f"{found.parameters:,} parameters, {found.step_seconds * 1000:.0f} ms per step on {found.threads} threads",
        f"{found.steps:,} steps take about {found.minutes:,.1f} minutes{hours} ({parts})",
        f"a step holds {needs.megabytes:,.0f} MB, of them {needs.states:,.0f} MB weights, gradients and Adam's moments "
        "(checkpoints and checks hold copies of the weights beside)",
        f"{needs.operations / 1e9:,.1f} GFLOP per step: on a device that does {found.tflops:g} TFLOP/s all the time, "
        f"{found.device_hours:,.1f} hours for the steps",
    ]


def data_of(name: str | os.PathLike[str]) -> tuple[Path, OwnData, OwnSource]:
    """A run of own data, or the one a model directory lies in: its directory, where its data is, and the data."""
    place = Path(name)
    for directory in (place, place.parent):
        if (directory / CONFIG).is_file() and (directory / "model").is_dir():
            data = read_run(read_options(directory / CONFIG), str(directory / CONFIG), stored=True).data
            if data is not None:
                return directory, data, data.open()
    raise ConfigError(
        f"{name}: the truth of its data is not known, so it is judged on what its run held out; name the directory of "
        f"the run, whose {CONFIG} says where the data is"
    )


def _fresh(directory: Path, options: Mapping[str, Any], minutes: float | None, show: bool = False) -> RunConfig:
    """A new run: threads and, from minutes, steps are measured once and stored."""
    config = resolve(options)
    try:
        if directory.exists() and any(directory.iterdir()):
            raise OutputError(f"{directory} is not empty; go on with its run by --resume, or name another directory")
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{directory}: cannot make the run's directory, {reason(error)}") from None
    if minutes is None and options.get("steps") is None and _judged(config):
        minutes = OWN_MINUTES
    started = time.perf_counter()
    choice = _chosen(config, options, minutes, show)
    config = choice.config
    changes: dict[str, Any] = {}
    files: dict[str, Any] = {}
    if not options.get("threads"):
        changes["threads"] = _best_threads(config)
    if minutes is not None:
        costs, _ = _costs(config, changes.get("threads", config.threads), time.perf_counter() - started)
        left = minutes * (1 - YARDSTICKS_SHARE * _judged(config))
        changes["watch"], costs = _affordable(config, options, costs, left)
        steps = costs.steps_within(left, config.check_every)
        changes["recipe"] = config.recipe.model_copy(update={"steps": steps})
        files[ESTIMATE] = {"minutes": minutes, "steps": steps, "seconds": costs.seconds(steps, config.check_every)}
    config = config.model_copy(update=changes)
    if choice.tried:
        files[CHOICE] = [_finite(asdict(row)) for row in choice.tried]
    if choice.runner_up is not None:
        files[RUNNER_UP] = {"preset": choice.runner_up.preset, "scores": choice.runner_up.scores.plain()}
    files[CONFIG] = {"format_version": FORMAT_VERSION, "run": config.model_dump(mode="json")}
    source = config.make_problem()
    if isinstance(source, OwnSource):
        files[DATA] = source.about()
    for name, data in files.items():
        _write_json(directory / name, data)
    return config


def _affordable(config: RunConfig, options: Mapping[str, Any], costs: Costs, minutes: float) -> tuple[int, Costs]:
    """How many samples a check draws within this budget, where that was left open and a truth to compare them with."""
    if options.get("watch") is not None or config.data is not None:
        return config.watch, costs
    return costs.fewer_samples(minutes, config.check_every, config.watch)


def _finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same with None in place of numbers that JSON does not have."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


def _write_json(path: Path, data: Any) -> None:
    try:
        write_atomic(path, (json.dumps(data, indent=1) + "\n").encode())
    except OSError as error:
        raise OutputError(f"{path}: cannot write, {reason(error)}") from None


def _read_json(path: Path) -> Any:
    """What a run stored about itself, None where it did not."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _chosen(config: RunConfig, options: Mapping[str, Any], minutes: float | None, show: bool) -> Choice:
    """The run with its preset chosen, where that was left open, and with the structure its data shows."""
    if options.get("model") is not None:
        return Choice(config)
    say = _teller(show)
    if config.preset == AUTO:
        say("looking at the data")
        fields = {name: options[name] for name in Recipe.model_fields if options.get(name) is not None}
        seconds = None if minutes is None else 60 * minutes
        return choose(config, config.make_problem(), seconds, say, fields)
    if config.preset == FIRST:
        say("looking at the data")
        return Choice(with_structure(config, config.make_problem()))
    return Choice(config)


def _judged(config: RunConfig) -> bool:
    """Whether the run ends with a verdict: own data, registered problems, and the invertible model on any."""
    return config.problem not in PRESETS or isinstance(config.model, TransportConfig)


def _teller(show: bool) -> Callable[[str], None]:
    return (lambda text: print(f"compvae: {text}", file=sys.stderr, flush=True)) if show else (lambda text: None)


def _stored(directory: Path, options: Mapping[str, Any]) -> RunConfig:
    """The configuration of a run that is taken up again; what is asked for now must not contradict it."""
    if not (directory / CONFIG).is_file():
        raise CheckpointError(
            f"{directory} holds no {CONFIG}, there is no run to resume; leave out --resume to start one"
        )
    try:
        stored = read_run(read_options(directory / CONFIG), str(directory / CONFIG), stored=True)
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    known = {**stored.recipe.model_dump(mode="json"), **stored.model_dump(mode="json")}
    for name, value in _without_data(stored, options, directory).items():
        if value is not None and name in known and known[name] != value and (name, value) != ("preset", AUTO):
            raise ConfigError(
                f"{name} is {known[name]!r} in {directory / CONFIG}, not {value!r}; a resumed run keeps its settings"
            )
    return stored


def _without_data(stored: RunConfig, options: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """The options beside the data, whose paths must be those of the run; that files are the same is seen on opening."""
    if stored.data is None:
        return dict(options)
    asked = {name: value for name, value in options.items() if value is not None}
    if "data" not in asked and asked.get("problem") not in PROBLEMS:
        data = stored.data
        asked = with_data({"problem": data.path, "profiles": data.profiles, "context": data.context, **asked})
    given = asked.pop("data", None)
    now = {} if given is None else from_plain_data(OwnData, given, "data").places()
    for name, place in stored.data.places().items():
        if now.get(name) != place:
            other = now.get(name) or options.get("problem")
            raise ConfigError(f"{name} is {place} in {directory / CONFIG}, not {other}; a resumed run keeps its data")
    return asked


def _best_threads(config: RunConfig) -> int:
    """1, or as many as there are cores for this process: whichever does a few steps faster here and now."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores == 1:
        return 1
    trainer = Trainer(config, measured_only=True)
    with _threads(1):
        alone = step_seconds(trainer)[0]
    with _threads(cores):
        return 1 if alone <= step_seconds(trainer)[0] else cores


def _costs(config: RunConfig, threads: int, spent: float) -> tuple[Costs, float]:
    with _threads(threads):
        return measure(config, spent)


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Inside, torch works with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class _Failure:
    """An error of ours on its way from a process to another."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: CompVAEError) -> _Failure:
        """As plain data, which every process can read."""
        return cls(type(error).__name__, str(error))

    def error(self) -> CompVAEError:
        """The error again."""
        found: CompVAEError = getattr(errors, self.kind)(self.message)
        return found


def _in_main(engine: Engine, work: Callable[[], Found]) -> Found:
    """What the main process gets from this work, in every process; an error of ours is raised in all of them."""
    found: Found | _Failure | None = None
    if engine.main:
        try:
            found = work()
        except CompVAEError as error:
            found = _Failure.of(error)
    shared = engine.share(found)
    if isinstance(shared, _Failure):
        raise shared.error()
    return cast(Found, shared)


@dataclass(frozen=True)
class _Work:
    """What every process of a run does."""

    options: dict[str, Any]
    directory: Path
    resume: bool
    minutes: float | None
    show: bool
    tensorboard: bool

    def __call__(self, engine: Engine) -> Outcome | _Failure:
        try:
            return self._train(engine, _in_main(engine, self._config))
        except CompVAEError as error:
            if engine.world == 1:
                raise
            return _Failure.of(error)

    def _config(self) -> RunConfig:
        """The run's configuration; that of a new run is measured, and its directory made."""
        if self.resume:
            return _stored(self.directory, self.options)
        return _fresh(self.directory, self.options, self.minutes, self.show)

    def _train(self, engine: Engine, config: RunConfig) -> Outcome:
        torch.set_num_threads(config.threads)
        trainer = Trainer(config, engine, measured_only=self.resume)
        checkpoints = Checkpoints(self.directory / "checkpoints", config.keep)
        message = trainer.resume(checkpoints) if self.resume else ""
        if engine.main and self.show and isinstance(trainer.problem, OwnSource):
            print(trainer.problem.summary(), file=sys.stderr)
        observers: list[Observer] = []
        _in_main(engine, lambda: observers.extend(self._prepared(checkpoints, config, trainer.state.step)))
        try:
            stopped = trainer.run(checkpoints, observers)
        finally:
            for observer in observers:
                if isinstance(observer, ProgressBar):
                    observer.close()
        if not stopped:
            _in_main(engine, lambda: self._keep_model(trainer, checkpoints))
        state = trainer.state
        return Outcome(self.directory, state.step, stopped, state.skipped, state.rollbacks, state.best, message)

    def _prepared(self, checkpoints: Checkpoints, config: RunConfig, step: int) -> list[Observer]:
        """The directory cleared of what a killed run left behind, and the observers."""
        try:
            checkpoints.tidy()
            return self._observers(config, step)
        except OSError as error:
            where = error.filename or self.directory
            raise OutputError(f"{where}: cannot write, {reason(error)}") from None

    def _observers(self, config: RunConfig, step: int) -> list[Observer]:
        metrics = self.directory / METRICS
        found: list[Observer] = [MetricsFile(metrics, config.log_every, step)]
        if self.show:
            found.append(ProgressBar(config.recipe.steps, step))
            with suppress(MissingExtraError):  # the figure comes with the extra `report`
                found.append(CurvesFigure(metrics, self.directory / "curves.svg"))
        if self.tensorboard:
            found.append(TensorBoard(self.directory / "tensorboard", config.log_every))
        return found

    def _keep_model(self, trainer: Trainer, checkpoints: Checkpoints) -> None:
        """The model of the run: with patience the best by the held-out bound, otherwise the last."""
        config, state = trainer.config, trainer.state
        if config.patience and checkpoints.best.exists():
            tensors, _ = read(checkpoints.best)
            kind = "average." if trainer.average else "model."
            chosen = {k.removeprefix(kind): v for k, v in tensors.items() if k.startswith(kind)}
            trainer.model.load_state_dict(chosen)
            trainer.average.clear()
        notes = {
            "preset": config.preset,
            "seed": str(config.seed),
            "steps": f"{state.step} of {config.recipe.steps}",
        }
        if state.best is not None:
            notes["held-out bound"] = f"{state.best:.2f} nats"
        model = trainer.finished().float().cpu()
        try:
            self._fit(model, trainer)
            require_finite_samples(model.eval(), trainer.problem, config.seed, trainer.watched_wholes)
        except DivergenceError as error:
            raise DivergenceError(f"{error}, {_left_behind(trainer, checkpoints)}") from None
        if config.data is None and config.problem not in PRESETS:
            notes["registered by"] = PROBLEMS[config.problem].__module__
        provenance = Provenance(config.problem, config.settings, notes)
        if isinstance(trainer.problem, OwnSource):
            provenance = Provenance(None, {}, {**notes, **trainer.problem.notes()})
        if _judged(config):
            provenance = replace(provenance, notes={**provenance.notes, **self._verdict(model, trainer)})
        Model(model, provenance).save(self.directory / "model")

    def _verdict(self, model: Network, trainer: Trainer) -> dict[str, str]:
        """Judge the model, write verdict.json, show it; what the model's card keeps of it."""
        config = trainer.config
        budget = _read_json(self.directory / ESTIMATE)
        seconds = 60 * float(budget["minutes"]) if isinstance(budget, dict) else None
        choice = _read_json(self.directory / CHOICE) or []
        say, steps = _teller(self.show), trainer.state.step
        verdict = judge(model, trainer.problem, config.seed, seconds, steps, choice, self._runner_up(), say)
        _write_json(self.directory / VERDICT_FILE, verdict.model_dump(mode="json"))
        if self.show:
            print(f"\n{verdict}\n", file=sys.stderr)
        notes = {"verdict": str(verdict)}
        return {**notes, "warning": verdict.warning} if verdict.warning else notes

    def _runner_up(self) -> RunnerUp | None:
        """The second best of what was tried before the first step."""
        kept = _read_json(self.directory / RUNNER_UP)
        return RunnerUp(kept["preset"], Scores.of_plain(kept["scores"])) if isinstance(kept, dict) else None

    def _fit(self, model: Network, trainer: Trainer) -> None:
        """What is fitted when all steps are done, in place, and how far that is, where progress is shown."""
        if trainer.prior_fitted:
            return
        seed, steps = trainer.config.seed + CALIBRATION, trainer.state.step

        def draw(noise: Noise) -> Batch:
            return as_in_training(trainer.problem, noise)

        work = work_of(model, steps)
        if not (self.show and work):
            fit_prior(model, draw, seed, steps)
            return
        progress = FitProgress(work, seconds_of_batch(model, draw, seed))
        try:
            fit_prior(model, draw, seed, steps, progress)
        finally:
            progress.close()


def _left_behind(trainer: Trainer, checkpoints: Checkpoints) -> str:
    """The end of a sentence about a run whose model is not kept: how far it came, what is there, what to do."""
    state = trainer.state
    skipped = f", {state.skipped} of them skipped as not finite" if state.skipped else ""
    return (
        f"after {state.step} steps{skipped}; no model was written, the checkpoints in {checkpoints.directory} are "
        f"intact; lower the rate"
    )


def outcome_dict(outcome: Outcome, verdict: Verdict | None = None) -> dict[str, Any]:
    """An outcome as plain data, with the verdict where there is one."""
    told = None if verdict is None else verdict.model_dump(mode="json")
    return {**asdict(outcome), "directory": str(outcome.directory), "verdict": told}
