"""Whoever wants to know how a run goes: metrics.jsonl, a progress bar, a figure, TensorBoard."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

from compvae.errors import OutputError
from compvae.extras import need
from compvae.figures.numbers import training_curves
from compvae.files import reason, write_atomic
from compvae.progress import duration
from compvae.train.loop import Event

__all__ = ["CurvesFigure", "FitProgress", "MetricsFile", "ProgressBar", "TensorBoard", "read_metrics"]

BITS = 1 / math.log(2)


def as_metrics(event: Event) -> dict[str, Any]:
    """One line of metrics.jsonl; all but ``seconds`` are functions of the run's configuration."""
    line: dict[str, Any] = {
        "step": event.step, "size": event.size, "w_bits": event.result.w * BITS, "z_bits": event.result.z * BITS,
        "x": event.result.x, "bound": event.result.bound, "applied": event.result.applied,
    }  # fmt: skip
    if event.held_out is not None:
        line["held_out"] = event.held_out
    if event.rel_ed:
        line["rel_ed"] = {
            size: round(value, 5) if math.isfinite(value) else None for size, value in event.rel_ed.items()
        }
    if event.not_finite:
        line["not_finite"] = list(event.not_finite)
    if event.note:
        line["note"] = event.note
    # JSON has no NaN; a step that was not finite says so by "applied": false
    line = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in line.items()
    }
    return {**line, "seconds": round(event.seconds, 3)}


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl, up to the first that is torn or foreign."""
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            break
        if not isinstance(line, dict) or not isinstance(line.get("step"), int):
            break
        lines.append(line)
    return lines


class MetricsFile:
    """metrics.jsonl: a line every so many steps, and for whatever a person should know.  Resuming drops later lines."""

    def __init__(self, path: Path, every: int, step: int = 0) -> None:
        self.path, self.every = path, every
        kept = [line for line in read_metrics(path) if line["step"] <= step]
        write_atomic(path, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def __call__(self, event: Event) -> None:
        """Hear of a step."""
        if event.step % self.every and event.held_out is None and not event.note and event.result.applied:
            return
        try:
            with open(self.path, "a", encoding="utf-8") as handle:
                handle.write(json.dumps(as_metrics(event)) + "\n")
        except OSError as error:
            raise OutputError(f"{self.path}: cannot write, {reason(error)}; the last checkpoint is intact") from None


class ProgressBar:
    """K, bits in w and z, bound, rate and time left, on stderr."""

    def __init__(self, steps: int, start: int = 0) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[line]}"))
        self.bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), refresh_per_second=2)
        self.task, self.start = self.bar.add_task("training", total=steps, completed=start, line=""), start
        self.bar.start()

    def __call__(self, event: Event) -> None:
        """Hear of a step."""
        rate = (event.step - self.start) / max(event.seconds, 1e-9)
        line = (
            f"K <= {event.size}  w {event.result.w * BITS:.1f}  z {event.result.z * BITS:.1f} bits  "
            f"bound {event.result.bound:.1f}  {rate:.1f}/s"
        )
        self.bar.update(self.task, completed=event.step, line=line)
        if event.note:
            self.bar.console.print(event.note)

    def close(self) -> None:
        """Leave the last state on the screen."""
        self.bar.stop()


class FitProgress:
    """How far the fit of the prior's moments is when the steps are done, and the time left for it, on stderr."""

    def __init__(self, batches: int, seconds: float) -> None:
        """batches: that it will look at.  seconds: that one of them takes, as measured."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("fitting "), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=Console(stderr=True), refresh_per_second=2)
        self.task = self.bar.add_task("fitting", total=batches)
        self.bar.start()
        self.bar.console.print(
            f"all steps are done; now fitting the prior's moments ({batches:,}): about {duration(batches * seconds)}"
        )

    def __call__(self) -> None:
        """Hear of a batch that is done."""
        self.bar.advance(self.task)

    def close(self) -> None:
        """Leave the last state on the screen."""
        self.bar.stop()


class TensorBoard:
    """The same numbers for TensorBoard (extra ``track``)."""

    def __init__(self, directory: Path, every: int) -> None:
        writer = need("torch.utils.tensorboard", "track").SummaryWriter
        self.writer, self.every = writer(str(directory)), every

    def __call__(self, event: Event) -> None:
        """Hear of a step."""
        if event.step % self.every and event.held_out is None:
            return
        for name, value in as_metrics(event).items():
            if isinstance(value, int | float) and name not in ("step", "applied"):
                self.writer.add_scalar(name, value, event.step)


class CurvesFigure:
    """curves.svg in the run directory, redrawn at every held-out check."""

    def __init__(self, metrics: Path, path: Path) -> None:
        need("matplotlib", "report")  # missed now, not at the first check
        self.metrics, self.path = metrics, path

    def __call__(self, event: Event) -> None:
        """Hear of a step."""
        if event.held_out is not None:
            self.draw()

    def draw(self) -> None:
        """Write the figure from metrics.jsonl."""
        buffer = io.BytesIO()
        training_curves(read_metrics(self.metrics)).savefig(buffer, format="svg", facecolor="white")
        write_atomic(self.path, buffer.getvalue())
