"""A report on a model of own data: what was read and left out, how it does on what was held out, what planners ask.

There is no exact generator, so there are no claims, no relED and no counterfactuals.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compvae.errors import DataFileError
from compvae.evaluation.rows import MODEL, Evaluation, Row
from compvae.evaluation.unseen import INDEPENDENT, KNOWN, REAL, UNSEEN_HOMES, Setting, by_model, peaks_of
from compvae.figures import unseen as draw
from compvae.measures import pit
from compvae.model import Model
from compvae.network import CompVAE
from compvae.planning import Scale, fan, scale_of
from compvae.problems.meters import MeterGroups
from compvae.problems.own import OwnData
from compvae.problems.source import OwnSource
from compvae.report.exhibit import Exhibit
from compvae.report.exhibits import live_exhibit, training_exhibit
from compvae.report.facts import Headline, model_facts, report_commands, training_command
from compvae.report.loads import load_exhibits
from compvae.report.measures import MEANINGS
from compvae.report.render import render
from compvae.train.observers import read_metrics
from compvae.train.runs import data_of
from compvae.verdict.verdict import Verdict

__all__ = ["OwnSubject", "own_report"]

DAYS = 4  # held-out wholes that are shown
DRAWS = 200
RANKED = 100  # held-out wholes behind a histogram of ranks
GROUP = 10  # homes in them, where there are so many
PERFECT = {"coverage of 90%": 0.9, "P95 peak, ratio": 1.0, "variance, ratio": 1.0}
SHOWN = (("P95 peak, ratio", "P95 of the peak over the real one"), ("variance, ratio", "variance over the real one"))


@dataclass(frozen=True)
class OwnSubject:
    """The model a report is about.  name: as the caller gave it.  directory: of its run.  lines: of metrics.jsonl."""

    name: str
    model: Model
    directory: Path
    data: OwnData
    source: OwnSource
    lines: list[dict[str, Any]]

    @classmethod
    def of(cls, name: str, model: Model) -> OwnSubject:
        """A run, or the model directory inside it; its data must still be where it was."""
        directory, data, source = data_of(name)
        return cls(name, model, directory, data, source, read_metrics(directory / "metrics.jsonl"))

    @property
    def kind(self) -> str:
        """By what evaluations know the data."""
        return self.source.name


@dataclass(frozen=True)
class Line:
    """One measure of one of those that were judged, by K; None where it was not."""

    of: str
    cells: list[Row | None]


def own_report(subject: OwnSubject, found: Evaluation, quick: bool, seed: int, evaluation: Path | None) -> str:
    """The page as HTML."""
    if not any(row.low is not None for row in found.measures):
        raise DataFileError(f"{evaluation or subject.name}: the evaluation holds no measure of held-out wholes")
    sizes = sorted({row.K for row in found.measures if row.K is not None})
    return render(
        "own.html.jinja",
        _exhibits(subject, found.measures, seed),
        name=subject.name,
        what=_what(subject),
        meters=isinstance(subject.source, MeterGroups),
        headlines=_headlines(found.measures),
        sizes=sizes,
        measures=_lines(found.measures, sizes),
        verdicts={(one.name, one.against, one.K): one.verdict for one in found.comparisons},
        meanings=_meanings(subject, found.measures),
        wholes=max(row.n or 0 for row in found.measures),
        data=_data_facts(subject),
        facts=model_facts(subject.model, subject.source.max_parts, subject.lines),
        commands=[*_training_command(subject), *report_commands(subject.name, quick, seed, evaluation, found)],
        quick=quick or bool(found.about.get("quick")),
        verdict=Verdict.read(subject.directory),
    )


def _what(subject: OwnSubject) -> str:
    source = subject.source
    if isinstance(source, MeterGroups):
        return f"{len(source.days.meters):,} meters"
    return f"wholes with parts, from {Path(subject.data.path).name}"


def _meanings(subject: OwnSubject, rows: Sequence[Row]) -> dict[str, str]:
    """What each measure is, in the unit of meters where x is theirs."""
    unit = "kW" if isinstance(subject.source, MeterGroups) else "the unit of x"
    return {row.name: MEANINGS[row.name.removesuffix(UNSEEN_HOMES)].replace("the unit of x", unit) for row in rows}


def _headlines(rows: Sequence[Row]) -> list[Headline]:
    """Of each measure with a right answer the value farthest from it, for the model that is told nothing."""
    found = []
    for name, right in PERFECT.items():
        ours = [row for row in rows if row.of == MODEL and row.name == name and row.value is not None]
        if ours:
            worst = max(ours, key=lambda row: abs((row.value or 0.0) - right))
            size = "all K" if worst.K is None else f"K = {worst.K}"
            interval = f"95%: {worst.low:.3g} to {worst.high:.3g}; {right:g} is right"
            found.append(Headline(f"{name}, farthest from {right:g} ({size})", f"{worst.value:.3g}", interval))
    return found


def _lines(rows: Sequence[Row], sizes: Sequence[int]) -> dict[str, list[Line]]:
    """By measure; K = None, where there is one, comes first."""
    columns = ([None] if any(row.K is None for row in rows) else []) + list(sizes)
    cells = {(row.name, row.of, row.K): row for row in rows}
    found: dict[str, list[Line]] = {}
    for name in dict.fromkeys(row.name for row in rows):
        for of in dict.fromkeys(row.of for row in rows if row.name == name):
            found.setdefault(name, []).append(Line(of, [cells.get((name, of, size)) for size in columns]))
    return found


def _data_facts(subject: OwnSubject) -> list[tuple[str, str]]:
    """What was read, what was left out, what was held out."""
    about = subject.source.about()
    files = [(f"file {Path(path).name}", f"SHA-256 {digest}") for path, digest in subject.data.sha256.items()]
    found = [("read", subject.source.summary()), *files]
    if isinstance(subject.source, MeterGroups):
        profiles = ", ".join(f"{name}: {count:,}" for name, count in about["profiles"].items())
        homes, days = about["split"]["held_out_homes"], about["split"]["held_out_days"]
        left = about["reading"]["meters_without_a_day"]
        found += [
            (
                "days",
                f"{about['dates'][0]} to {about['dates'][1]}, readings every {subject.source.days.minutes} minutes",
            ),
            ("homes by profile", profiles),
            ("homes held out", _listed(homes) or "none: there are too few"),
            ("days held out", f"{len(days):,}: {_listed(days)}"),
            ("clock changes, left out", _listed(about["reading"]["clock_changes"])),
            ("meters without a complete day, left out", _listed(left)),
        ]
        if about["band_limits_kwh_a_day"]:
            limits = ", ".join(f"{limit:.4g}" for limit in about["band_limits_kwh_a_day"])
            found.append(("limits of the bands", f"{limits} kWh a day"))
    context = ", ".join(attribute.name for attribute in subject.source.context)
    found.append(("context", context or "none was given"))
    return [(name, value) for name, value in found if value]


def _listed(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _training_command(subject: OwnSubject) -> list[str]:
    data = subject.data
    beside = [("--profiles", data.profiles), ("--context", data.context)]
    flags = "".join(f" {flag} {shlex.quote(value)}" for flag, value in beside if value is not None)
    return training_command(subject.model, f"{shlex.quote(data.path)}{flags}")


# -- figures -----------------------------------------------------------------------------------------------------


def _exhibits(subject: OwnSubject, rows: Sequence[Row], seed: int) -> Iterator[Exhibit]:
    model, source = subject.model, subject.source
    scale = scale_of(model) if len(model.shape) == 1 and model.parts.countable else None
    setting = _shown(source, seed)
    if scale is not None:
        yield _days(subject, scale, setting, seed)
    yield _ranks(subject, setting, seed)
    yield from _by_size(rows, scale)
    if scale is not None:
        yield from load_exhibits(model, seed)
    if isinstance(model.network, CompVAE):
        yield live_exhibit(model.network, source, seed)
    if any(line.get("bound") is not None for line in subject.lines):
        yield training_exhibit(subject.lines)


def _shown(source: OwnSource, seed: int) -> Setting:
    """Held-out wholes for figures."""
    if isinstance(source, MeterGroups):
        size = min(GROUP, int(source.pool("all").count.max()))
        return Setting(size, "", source.held_out(RANKED, size, seed, "all"))
    return Setting(None, "", source.held_out(RANKED, seed=seed))  # type: ignore[attr-defined]


def _days(subject: OwnSubject, scale: Scale, setting: Setting, seed: int) -> Exhibit:
    real, days = setting.real, []
    for i in range(min(DAYS, len(real.x))):
        drawn = subject.model.sample(real.parts[i], DRAWS, seed + i, real.context[i])
        days.append((real.dates[i] if setting.size else f"whole {i + 1}", real.x[i], fan(drawn)))
    size = f"{setting.size} {scale.parts} each" if setting.size else "as they come"
    given = ", given the context of the day" if subject.source.context else ""
    return Exhibit(
        "held_out",
        "Held-out wholes beside draws of the model",
        f"Observed curves over bands of quantiles of draws for the same {scale.parts}.",
        f"The first {len(days)} of the held-out wholes, {size}, over the quantiles of {DRAWS} draws for the same "
        f"{scale.parts}{given}. At 90% of its places an observed curve should lie between P5 and P95.",
        draw.real_days(scale, days),
    )


def _ranks(subject: OwnSubject, setting: Setting, seed: int) -> Exhibit:
    real = setting.real
    known = {MODEL: False, KNOWN: True} if subject.source.context else {MODEL: False}
    ranks = {}
    for name, given in known.items():
        drawn = by_model(subject.model, given)(real, DRAWS, seed)
        ranks[name] = pit(peaks_of(drawn, 2), peaks_of(real.x))
    homes = f" of {setting.size} homes" if setting.size else ""
    return Exhibit(
        "ranks",
        "Ranks of observed peaks among drawn ones (PIT)",
        "Histograms of ranks, with a dotted line where they would be flat.",
        f"For each of {len(real.x)} held-out wholes{homes}, the share of its {DRAWS} draws whose largest value is "
        "below the observed one. Flat: calibrated. A hump in the middle: too wide. High ends: too narrow.",
        draw.rank_histogram(ranks),
    )


def _by_size(rows: Sequence[Row], scale: Scale | None) -> Iterator[Exhibit]:
    parts, part, unit = ("parts", "part", "x") if scale is None else (scale.parts, scale.part, scale.unit)
    who = (REAL, MODEL, KNOWN, INDEPENDENT)

    def of(name: str) -> list[dict[str, Any]]:
        some = [row for row in rows if row.name == name and row.K is not None and row.of in who]
        return [row.model_dump() for row in sorted(some, key=lambda row: who.index(row.of))]

    caption = f"bars: 95% intervals over days and homes. {INDEPENDENT}: single real homes added up, each on a day of "
    if len({row["K"] for row in of("P95 peak a part")}) > 1:
        yield Exhibit(
            "demand",
            f"After-diversity maximum demand against the number of {parts}",
            f"P95 of the peak of one {part} against the number of {parts}, observed and drawn.",
            f"P95 of the peak divided by the number of {parts}, on held-out days; {caption}its own.",
            draw.by_size(of("P95 peak a part"), f"number of {parts}", f"P95 peak ({unit} a {part})"),
        )
        for name, title in SHOWN:
            yield Exhibit(
                name.split(",")[0].replace(" ", "_"),
                f"{title[0].upper()}{title[1:]} against the number of {parts}",
                f"{title} against the number of {parts}; 1 is right.",
                f"On held-out days; {caption}its own, which misses what homes share.",
                draw.by_size(of(name), f"number of {parts}", f"{name.split(',')[0]} / real (ratio)", 1.0),
            )
