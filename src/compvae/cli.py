"""The command line: thin over the package, torch imported only by the commands that need it."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from compvae.commands.bench import bench
from compvae.commands.data import data
from compvae.commands.evaluate import evaluate
from compvae.commands.generating import sample, tail
from compvae.commands.observing import edit, infer
from compvae.commands.options import AsJson, Imported, NoSeed, import_modules, tell
from compvae.commands.plan import plan
from compvae.commands.report import report
from compvae.commands.serve import serve
from compvae.errors import (
    CheckpointError,
    CompVAEError,
    ConfigError,
    DataFileError,
    DivergenceError,
    ModelFileError,
    OtherProcessError,
    OutputError,
    TailError,
    UnknownModelError,
)

__all__ = ["app", "main"]

app = typer.Typer(
    name="compvae",
    help="A programmable generative model: sample wholes from their parts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes as long to import as all the rest of --help
)


PRESET_HELP = (
    "auto (the default for own data: what suits is tried, the best on held-out wholes is trained), transport "
    "(invertible), small (structured; the default for built-in problems), sums, or paper (layer for layer)."
)


@app.callback()
def _root() -> None:
    """A programmable generative model: sample wholes from their parts."""


@app.command()
def problems(seed: NoSeed = 0, as_json: AsJson = False) -> None:
    """List the problems that come with the package: parts, shape of x, presets."""
    from compvae.presets import presets_of
    from compvae.problems import PROBLEMS

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "summary": problem.summary,
            "attributes": [attribute.model_dump() for attribute in problem().schema.attributes],
            "shape": list(problem().shape),
            "hidden": list(problem.specific_names),
            "context": [covariate.name for covariate in problem.context],
            "presets": list(presets_of(problem())),
        }
        for name, problem in PROBLEMS.items()
    ]
    if as_json:
        print(json.dumps({"problems": rows}))
        return
    for row in rows:
        print(f"{row['name']}: {row['summary']}")
        print(
            f"  parts   {', '.join(a['name'] for a in row['attributes'])}; hidden in each: {', '.join(row['hidden'])}"
        )
        print(f"  x       shape {tuple(row['shape'])}")
        if row["context"]:
            print(f"  context {', '.join(row['context'])}")
        print(f"  presets {', '.join(row['presets'])}")


@app.command()
def train(
    problem: Annotated[
        str | None, typer.Argument(help="A problem by name (compvae problems), a file of meter readings, a dataset.")
    ] = None,
    profiles: Annotated[
        str | None, typer.Option(help="Table meter, profile; or auto:4 for four bands by size. For meter readings.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Table date, <columns>, for meter readings.")] = None,
    out: Annotated[Path, typer.Option(help="Directory of the run.")] = Path("runs/mine"),
    preset: Annotated[str | None, typer.Option(help=PRESET_HELP)] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps; the preset has a default.")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="Of the whole run; turned into steps by a measurement, once.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Decides everything random.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest readable checkpoint.")] = False,
    config: Annotated[Path | None, typer.Option(help="TOML file of options, or another run's config.json.")] = None,
    devices: Annotated[int | None, typer.Option(min=1, help="Processes, one a device.")] = None,
    accelerator: Annotated[str | None, typer.Option(help="cpu, cuda, mps, auto.")] = None,
    precision: Annotated[str | None, typer.Option(help="32, 64 or bf16-mixed.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of each process; measured if not given.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Wholes a step, over all processes.")] = None,
    rate: Annotated[float | None, typer.Option(help="Adam's rate.")] = None,
    average: Annotated[float | None, typer.Option(help="Decay of a moving average of the weights, 0 for none.")] = None,
    patience: Annotated[int | None, typer.Option(help="Held-out checks without gain before stopping.")] = None,
    checkpoint_every: Annotated[int | None, typer.Option(min=1, help="Steps between checkpoints.")] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write for TensorBoard too (extra track).")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Build, do a little of everything, say sizes and time; write nothing.")
    ] = False,
    tflops: Annotated[
        float | None, typer.Option(min=1e-3, help="For --dry-run: hours on a device of so many TFLOP/s.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    imported: Imported = None,
    as_json: AsJson = False,
) -> None:
    """Train a model on a problem, or on own data; interrupted, it saves and can be resumed exactly.

    A run of own data ends with a verdict: how good the model is on what was held out, beside yardsticks.

    compvae train sines --out runs/sines; compvae train meters.csv --profiles homes.csv --context days.csv; compvae
    train DIRECTORY with wholes and parts.
    """
    from dataclasses import asdict

    from compvae.train.needs import GTX_1080
    from compvae.train.runs import estimate, estimate_lines, outcome_dict, train_run
    from compvae.train.settings import read_options
    from compvae.verdict.verdict import Verdict

    import_modules(imported)

    flags = {
        "problem": problem, "profiles": profiles, "context": context, "preset": preset,
        "steps": steps, "seed": seed, "devices": devices, "batch": batch,
        "accelerator": accelerator, "precision": precision, "threads": threads, "rate": rate, "average": average,
        "patience": patience, "checkpoint_every": checkpoint_every,
    }  # fmt: skip
    if steps is not None and minutes is not None:
        raise ConfigError("--steps and --minutes both say how long to train; give one of them")
    given = {key: value for key, value in flags.items() if value is not None}
    options = {**(read_options(config) if config else {}), **given}
    if not resume and "problem" not in options:
        raise ConfigError("name a problem (compvae problems lists them), or a run to go on with by --resume --out DIR")
    if tflops is not None and not dry_run:
        raise ConfigError("--tflops does nothing without --dry-run; leave it out")
    if dry_run:
        found = estimate(options, minutes, GTX_1080 if tflops is None else tflops)
        tell(asdict(found), "; ".join(estimate_lines(found)), as_json)
        return
    outcome = train_run(options, out, resume, minutes, show=not quiet, tensorboard=tensorboard)
    if outcome.message:
        print(outcome.message, file=sys.stderr)
    skipped = f", {outcome.skipped} steps skipped as not finite" if outcome.skipped else ""
    ended = f"stopped by signal {outcome.stopped}, saved" if outcome.stopped else f"the model is in {out / 'model'}"
    verdict = None if outcome.stopped else Verdict.read(out)
    if quiet and verdict is not None and not as_json:
        print(f"{verdict}\n", file=sys.stderr)
    tell(outcome_dict(outcome, verdict), f"{outcome.steps} steps done{skipped}; {ended}", as_json)
    if outcome.stopped:
        raise typer.Exit(128 + outcome.stopped)


for command in (sample, infer, edit, tail, plan, evaluate, report, serve, bench, data):
    app.command()(command)


EXIT_CODES: tuple[tuple[type[CompVAEError], int], ...] = (
    (OutputError, 1),
    (UnknownModelError, 2),
    (CheckpointError, 3),
    (DataFileError, 3),
    (ModelFileError, 3),
    (DivergenceError, 4),
    (TailError, 5),
    (CompVAEError, 2),
)
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
# typer's own errors (an unknown flag, a number out of range), by way of one that typer exports
UsageMistake: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main() -> None:
    """Run a command; an error is one line on stderr and an exit code that says of which kind it was."""
    signal.signal(signal.SIGTERM, _end)
    try:
        code = app(standalone_mode=False)
    except OtherProcessError:  # of the processes torchrun starts, the one that failed says why
        raise SystemExit(1) from None
    except CompVAEError as error:
        _fail(str(error), next(code for kind, code in EXIT_CODES if isinstance(error, kind)))
    except UsageMistake as error:
        _fail(" ".join(error.format_message().split()), error.exit_code)  # type: ignore[attr-defined]
    except MemoryError:
        _fail("not enough memory; ask for fewer wholes at a time", 1)
    except (KeyboardInterrupt, typer.Abort):
        raise SystemExit(INTERRUPTED) from None
    raise SystemExit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> NoReturn:
    if message:  # there is none where help was shown in its place
        print(f"compvae: {message}", file=sys.stderr)
    raise SystemExit(code) from None


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """SIGTERM as an exception, so that files begun are cleared away."""
    raise SystemExit(TERMINATED)
