"""compvae evaluate: every measure of a model with its error, beside baselines fitted in the same time."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compvae.commands.options import AsJson, Imported, ModelName, Seed, import_modules
from compvae.errors import CompVAEError, ConfigError

if TYPE_CHECKING:
    from compvae.evaluation import Evaluation, Row
    from compvae.model import Model
    from compvae.train.signals import Signals

    Measuring = Callable[["_Watch", Evaluation], object]

__all__ = ["evaluate"]

QUICK_STEPS = 20


def evaluate(
    model: ModelName,
    against: Annotated[
        str, typer.Option(help="Baselines: independent,gaussian,cvae,flow,matching,paper; or all that suit.")
    ] = "",
    minutes: Annotated[
        float, typer.Option(min=0.01, help="Of processor time, for which each baseline is fitted.")
    ] = 4.0,
    n: Annotated[
        int | None,
        typer.Option(
            "-n", min=10, help="Samples of each composition; 1000 if not given. Own data: of each held-out whole, 200."
        ),
    ] = None,
    compositions: Annotated[
        int | None, typer.Option(min=1, help="For each K; 8 if not given. Own data: held-out wholes, 200.")
    ] = None,
    sizes: Annotated[str | None, typer.Option(help="K at which samples are judged, as 1,2,4.")] = None,
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Little of everything: shows that all works.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    imported: Imported = None,
    as_json: AsJson = False,
) -> None:
    """Measure a model against the truth, or on what its run held out of own data; interrupted, it says what it has."""
    import compvae
    from compvae.api import load
    from compvae.evaluation import Evaluation
    from compvae.train.signals import Signals

    import_modules(imported)
    loaded, asked = load(model), _Asked(against, minutes, n, compositions, _numbers(sizes), seed, quick)
    own = loaded.provenance.problem is None
    name, measure = _on_held_out(model, loaded, asked) if own else _on_truth(loaded, asked)
    about = {"model": model, "problem": name, "seed": seed, "minutes": minutes if against else None}
    about |= {"options": asked.options(), "quick": quick, "version": compvae.__version__}
    result, stopped = Evaluation(about=about), 0
    with Signals() as signals, _Watch(signals, show=not quiet) as watch:
        try:
            measure(watch, result)
        except KeyboardInterrupt:
            stopped = signals.number or signal.SIGINT
        except CompVAEError:
            if result.measures:  # minutes of work are not thrown away
                print(result.model_dump_json() if as_json else _table(result))
            raise
    if stopped:
        print(f"compvae: stopped by signal {stopped}; what follows was measured before", file=sys.stderr)
    print(result.model_dump_json() if as_json else _table(result))
    if stopped:
        raise typer.Exit(128 + stopped)


@dataclass(frozen=True)
class _Asked:
    """The flags that decide what is measured."""

    against: str
    minutes: float
    n: int | None
    compositions: int | None
    sizes: tuple[int, ...] | None
    seed: int
    quick: bool

    def options(self) -> str:
        """As they were given, for the command that measures the same again."""
        given: dict[str, object] = {"--against": self.against, "--minutes": self.minutes} if self.against else {}
        sizes = None if self.sizes is None else ",".join(map(str, self.sizes))
        given |= {"--sizes": sizes, "-n": self.n, "--compositions": self.compositions, "--seed": self.seed}
        options = " ".join(f"{name} {value}" for name, value in given.items() if value is not None)
        return options + " --quick" * self.quick


def _on_truth(model: Model, asked: _Asked) -> tuple[str, Measuring]:
    """The name of the problem, and how its truth is asked."""
    from compvae.baselines import Budget, known_baselines
    from compvae.evaluation import evaluate, plan_for, problem_of

    problem = problem_of(model)
    names = known_baselines(asked.against, problem)
    plan = plan_for(problem, asked.quick, asked.n, asked.compositions, asked.sizes)
    length: dict[str, Any] = {"steps": QUICK_STEPS} if asked.quick else {"minutes": asked.minutes}

    def measure(watch: _Watch, into: Evaluation) -> None:
        budgets = {name: Budget(seed=asked.seed, watch=watch, **length) for name in names}
        evaluate(model, plan, budgets, asked.seed, watch, into)

    return problem.name, measure


def _on_held_out(name: str, model: Model, asked: _Asked) -> tuple[str, Measuring]:
    """The kind of own data, and how what was held out of it is asked."""
    from compvae.evaluation import effort_for, evaluate_own
    from compvae.train.runs import data_of

    if asked.against:
        raise ConfigError(
            "--against goes with built-in problems; a model of own meters is always put beside independent homes"
        )
    source = data_of(name)[-1]
    effort = effort_for(asked.quick, asked.compositions, asked.n, asked.sizes)
    return source.name, lambda watch, into: evaluate_own(model, source, effort, asked.seed, watch, into)


def _numbers(text: str | None) -> tuple[int, ...] | None:
    """Numbers separated by commas."""
    if text is None:
        return None
    try:
        return tuple(sorted({int(number) for number in text.split(",")}))
    except ValueError:
        raise ConfigError(f"--sizes takes whole numbers separated by commas, got {text!r}") from None


class _Watch:
    """A progress bar on stderr that also looks out for signals."""

    def __init__(self, signals: Signals, show: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.bar = Progress(*columns, console=Console(stderr=True), refresh_per_second=2, disable=not show)
        self.signals, self.task = signals, self.bar.add_task("", total=1)

    def __call__(self, what: str, done: int, total: int) -> None:
        """Hear how far things are."""
        self.bar.update(self.task, description=what, completed=done, total=total)
        if self.signals.number:
            raise KeyboardInterrupt

    def __enter__(self) -> _Watch:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()


def _table(result: Evaluation) -> str:
    """One line for each measure and K, then the comparisons."""
    wide = max([12, *(len(row.of) for row in result.measures)])
    long = max([20, *(len(row.name) for row in result.measures)])
    ranged = any(row.low is not None for row in result.measures)
    last = f"{'95% interval':>20}" if ranged else f"{'floor':>9}"
    lines = [f"{'':{wide}} {'measure':{long}} {'K':>5} {'value':>10} {'se':>9} {last}"]
    lines += [_line(row, wide, long) for row in result.measures]
    cases = "held-out wholes" if ranged else "compositions"
    for one in result.comparisons:
        error = f"standard error {one.se:.2g}" if one.low is None else f"95% interval {one.low:.2g} to {one.high:.2g}"
        lines.append(
            f"{one.verdict:5} against {one.against} on {one.name} at K = {one.K}: "
            f"difference {one.value:.4g}, {error} over {one.n} {cases}"
        )
    return "\n".join(lines)


def _line(row: Row, wide: int, long: int) -> str:
    size, last = ("" if row.K is None else str(row.K)), ("" if row.floor is None else f"{row.floor:.4f}")
    if row.low is not None:
        last = f"{row.low:.4f} to {row.high:.4f}"
    se = "" if row.se is None else f"{row.se:.4f}"
    return f"{row.of:{wide}} {row.name:{long}} {size:>5} {row.value:10.4f} {se:>9} {last:>{20 if row.low else 9}}"
