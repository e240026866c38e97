"""compvae evaluate: every measure of a model with its Monte-Carlo error, beside baselines fitted in the same time."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from compvae.evaluation import Evaluation, Row
    from compvae.train.signals import Signals

__all__ = ["evaluate"]

QUICK_STEPS = 20


def evaluate(
    model: Annotated[str, typer.Argument(help="A shipped model by name, or a run or model directory.")],
    against: Annotated[
        str, typer.Option(help="Baselines: independent,gaussian,cvae,flow,matching,paper; or all that suit.")
    ] = "",
    minutes: Annotated[
        float, typer.Option(min=0.01, help="Of processor time, for which each baseline is fitted.")
    ] = 4.0,
    n: Annotated[int | None, typer.Option("-n", min=10, help="Samples of each composition; 1000 if not given.")] = None,
    compositions: Annotated[int | None, typer.Option(min=1, help="For each K; 8 if not given.")] = None,
    sizes: Annotated[str | None, typer.Option(help="K at which samples are judged, as 1,2,4.")] = None,
    seed: Annotated[int, typer.Option(help="Decides everything random.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Little of everything: shows that all works.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout.")] = False,
) -> None:
    """Measure a model against the truth; interrupted, it says what it has measured so far."""
    import compvae
    from compvae.api import load
    from compvae.baselines import Budget, known_baselines
    from compvae.errors import CompVAEError
    from compvae.evaluation import Evaluation, plan_for, problem_of
    from compvae.evaluation import evaluate as run
    from compvae.train.signals import Signals

    loaded = load(model)
    problem = problem_of(loaded)
    names = known_baselines(against, problem)
    plan = plan_for(problem, quick, n, compositions, _numbers(sizes))
    about = {"model": model, "problem": problem.name, "seed": seed, "minutes": minutes if names else None}
    given: dict[str, object] = {"--against": ",".join(names), "--minutes": minutes} if names else {}
    given |= {"--sizes": sizes, "-n": n, "--compositions": compositions, "--seed": seed}
    options = " ".join(f"{name} {value}" for name, value in given.items() if value is not None)
    about |= {"options": options + " --quick" * quick, "quick": quick, "version": compvae.__version__}
    result, stopped = Evaluation(about=about), 0
    with Signals() as signals, _Watch(signals, show=not quiet) as watch:
        length: dict[str, Any] = {"steps": QUICK_STEPS} if quick else {"minutes": minutes}
        budgets = {name: Budget(seed=seed, watch=watch, **length) for name in names}
        try:
            run(loaded, plan, budgets, seed, watch, result)
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


def _numbers(text: str | None) -> tuple[int, ...] | None:
    """Numbers separated by commas."""
    from compvae.errors import ConfigError

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
    lines = [f"{'':12} {'measure':20} {'K':>5} {'value':>10} {'se':>9} {'floor':>9}"]
    lines += [_line(row) for row in result.measures]
    for one in result.comparisons:
        lines.append(
            f"{one.verdict:5} against {one.against} on {one.name} at K = {one.K}: "
            f"difference {one.value:.4g}, standard error {one.se:.2g} over {one.n} compositions"
        )
    return "\n".join(lines)


def _line(row: Row) -> str:
    size, floor = ("" if row.K is None else str(row.K)), ("" if row.floor is None else f"{row.floor:.4f}")
    se = "" if row.se is None else f"{row.se:.4f}"
    return f"{row.of:12} {row.name:20} {size:>5} {row.value:10.4f} {se:>9} {floor:>9}"
