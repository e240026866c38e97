"""Exhibits of loads: what a planner looks at, of one composition; a section of reports, and the page of a plan."""

from __future__ import annotations

from collections.abc import Iterator

from compvae.figures import loads
from compvae.model import Model
from compvae.parts import Multiset
from compvae.planning import Plan, Question, fan, make_plan, scale_of
from compvae.planning.plan import WORST
from compvae.report.exhibit import Exhibit

__all__ = ["default_question", "described", "load_exhibits", "plan_exhibits"]

DRAWS = 1000
EACH = 5  # of every category, where nothing better is known


def load_exhibits(model: Model, seed: int = 0) -> Iterator[Exhibit]:
    """The figures of a plan for a composition chosen beforehand; none for a model whose x is no load."""
    if scale_of(model).is_load:
        yield from plan_exhibits(make_plan(model, default_question(model, seed)))


def default_question(model: Model, seed: int = 0, n: int = DRAWS) -> Question:
    """40 flats and 12 heat pumps, 10 of the flats replaced; of other profiles five each, the first by the last."""
    names = model.parts.categories
    if {"flat", "heat_pump"} <= set(names):
        parts, gone, new = {"flat": 40, "heat_pump": 12}, {"flat": 10}, {"heat_pump": 10}
    else:
        parts, gone, new = dict.fromkeys(names, EACH), {names[0]: EACH}, {names[-1]: EACH}
    read = model.parts.parse
    if len(names) == 1:
        return Question(read(parts), n=n, seed=seed)
    return Question(read(parts), replace=read(gone), by=read(new), n=n, seed=seed)


def described(parts: Multiset) -> str:
    """40 flat, 12 heat_pump."""
    return ", ".join(
        f"{run['count']:,} {' '.join(str(value) for name, value in run.items() if name != 'count')}"
        for run in parts.counted()
    )


def plan_exhibits(plan: Plan) -> Iterator[Exhibit]:
    """All figures of a plan."""
    asked, scale = plan.question, plan.scale
    what, days = described(asked.parts), f"{len(plan.x):,} draws"
    yield Exhibit(
        "fan",
        "The day",
        f"Bands of quantiles of {scale.up} against {scale.across}, around the median.",
        f"{what}: quantiles of each interval over {days}. A band holds that share of days at each time; no single day "
        "runs along its edge.",
        loads.day_fan(scale, plan.fan, asked.rating),
    )
    yield _peaks(plan)
    yield Exhibit(
        "duration",
        "Load-duration curve",
        f"{scale.up} against the time for which it is reached, with a band over days.",
        f"{what}: the intervals of each day from the highest to the lowest, {days}.",
        loads.duration_curve(scale, plan.duration),
    )
    if plan.diversity:
        yield Exhibit(
            "diversity",
            f"After-diversity maximum demand against the number of {scale.parts}",
            f"Peak demand of one {scale.part} against the number of {scale.parts}, on a logarithmic axis.",
            f"P95 of the daily peak, divided by the number of {scale.parts}, in the proportions of {what}; bars: two "
            "standard errors. Where the curve stays flat, what is left is shared.",
            loads.diversity_curve(scale, plan.diversity),
        )
    yield from _changes(plan)
    if not isinstance(plan.worst, str):
        found = plan.worst
        yield Exhibit(
            "worst",
            "The worst days",
            "Days with the highest peaks, over the fan of all days.",
            f"{len(found.x)} days of the highest {1 - WORST:.0%} of peaks, above {found.threshold:.4g} {scale.unit} "
            f"(probability {found.probability:.3g}, relative error {found.cv:.0%}, by {found.method}).",
            loads.worst_days(scale, found.x, plan.fan, f"highest {1 - WORST:.0%} of days"),
        )


def _peaks(plan: Plan) -> Exhibit:
    found = {"now" if plan.fresh is None else "before": plan.peaks}
    if plan.fresh is not None:
        found["after"] = plan.fresh.peaks
    scale, rating = plan.scale, plan.question.rating
    return Exhibit(
        "peaks",
        "Daily peaks",
        f"Histogram of the {scale.peak}, and the probability of exceeding each value on a logarithmic axis.",
        f"Each of {len(plan.x):,} draws has one peak. Right: the probability that the peak of a day is higher.",
        loads.peak_distribution(scale, found, rating),
    )


def _changes(plan: Plan) -> Iterator[Exhibit]:
    asked, scale = plan.question, plan.scale
    if asked.replace is None or asked.by is None:
        return
    done = f"{described(asked.replace)} replaced by {described(asked.by)}"
    if plan.fresh is not None:
        yield Exhibit(
            "change",
            "Before and after",
            f"Two fans on one scale: before and after. {done}.",
            f"{done}, on the same days: both are drawn with one seed.",
            loads.before_after(scale, plan.fan, fan(plan.fresh.change.after), asked.rating),
        )
    if plan.observed is not None and asked.observed is not None:
        yield Exhibit(
            "same_day",
            "What if, on the observed day",
            "An observed day, and bands of what it would have been.",
            f"{done} on that day: what all share, and the {scale.parts} that stay, are those of the observed day.",
            loads.same_day(scale, asked.observed, fan(plan.observed.change.after)),
        )
