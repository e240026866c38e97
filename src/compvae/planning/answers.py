"""A plan as rows of numbers for people, and as plain data for machines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from compvae.measures.measured import Measured
from compvae.planning.daily import Peaks
from compvae.planning.exceeding import Chance
from compvae.planning.plan import Changed, Plan
from compvae.planning.quantities import Quantile
from compvae.planning.scales import Scale
from compvae.tails import TailSample

__all__ = ["Row", "plan_dict", "rows"]


@dataclass(frozen=True)
class Row:
    """One answer.  group: what it belongs to.  value, error: as text; an error is one standard error or an interval."""

    group: str
    label: str
    value: str
    error: str
    unit: str


def rows(plan: Plan) -> list[Row]:
    """All answers, in the order in which they are asked for."""
    scale, asked = plan.scale, plan.question
    found = [
        Row("now", "mean energy of a day" if scale.is_load else "mean of the sum", *_numbers(plan.energy), scale.energy)
    ]
    found += _peaks("now", plan.peaks, scale.unit) + _chance("now", plan.chance, asked.rating, scale)
    for group, changed in (("after, on fresh days", plan.fresh), ("after, on the observed day", plan.observed)):
        if changed is not None:
            found += _peaks(group, changed.peaks, scale.unit)
            found += _chance(group, changed.chance, asked.rating, scale) + _effect(group, changed, plan)
    found += [
        Row(f"{one.demand.name} peak a {scale.part}", f"{one.homes:,} {scale.parts}", *_numbers(one.demand), scale.unit)
        for one in plan.diversity
    ]
    return found + _worst(plan)


def _numbers(measured: Measured | Quantile) -> tuple[str, str]:
    """Value and standard error as text."""
    return f"{measured.value:.4g}", f"+- {measured.se:.2g}"


def _peaks(group: str, found: Peaks, unit: str) -> list[Row]:
    return [Row(group, f"{one.name} of the peak", *_numbers(one), unit) for one in found.quantiles]


def _chance(group: str, chance: Chance | None, rating: float | None, scale: Scale) -> list[Row]:
    if chance is None:
        return []
    label = f"chance of a peak above {rating:g} {scale.unit}"
    each = "a day" if scale.is_load else "a whole"
    if chance.value is None:
        bound = Row(group, label, "not known", f"below {chance.high:.2g}", each)
        return [bound, Row(group, f"the tail sampler refused: {chance.note}", "", "", "")]
    interval = f"{chance.low:.2g} to {chance.high:.2g}"
    return [Row(group, f"{label}, by {chance.method}", f"{chance.value:.3g}", interval, each)]


def _effect(group: str, changed: Changed, plan: Plan) -> list[Row]:
    unit = plan.scale.unit
    changes = [(f"change of P{100 * level:g} of the peak", one, unit) for level, one in changed.effect.peaks.items()]
    changes.append(("change of the mean energy", changed.effect.energy, plan.scale.energy))
    return [Row(group, label, f"{one.value:+.4g}", f"+- {one.se:.2g}", u) for label, one, u in changes]


def _worst(plan: Plan) -> list[Row]:
    found, unit = plan.worst, plan.scale.unit
    if isinstance(found, str):
        return [Row("worst days", "refused", found, "", "")]
    between = found.threshold_interval
    interval = "" if between is None else f"{between[0]:.4g} to {between[1]:.4g}"
    label = f"peak of the highest {found.probability:.2g} of days"
    return [Row("worst days", label, f"above {found.threshold:.4g}", interval, unit)]


def plan_dict(plan: Plan) -> dict[str, Any]:
    """The answers as plain data."""
    asked, scale = plan.question, plan.scale
    return {
        "parts": asked.parts.counted(),
        "context": None if asked.context is None else dict(asked.context),
        "rating": asked.rating,
        "n": asked.n,
        "seed": asked.seed,
        "unit": scale.unit,
        "step": scale.step,
        "energy": asdict(plan.energy),
        "energy_unit": scale.energy,
        "peaks": _peaks_dict(plan.peaks),
        "exceedance": None if plan.chance is None else asdict(plan.chance),
        "fan": {"levels": list(plan.fan.levels), "values": plan.fan.values.tolist()},
        "duration": {
            "time": plan.duration.hours.tolist(),
            "levels": list(plan.duration.levels),
            "values": plan.duration.values.tolist(),
        },
        "diversity": [{"homes": one.homes, **asdict(one.demand)} for one in plan.diversity],
        "worst_days": _worst_dict(plan.worst),
        "fresh_days": None if plan.fresh is None else _changed_dict(plan.fresh),
        "observed_day": None if plan.observed is None else _changed_dict(plan.observed),
    }


def _peaks_dict(found: Peaks) -> dict[str, Any]:
    return {"mean": asdict(found.mean), "quantiles": [asdict(one) for one in found.quantiles]}


def _changed_dict(changed: Changed) -> dict[str, Any]:
    return {
        "parts": changed.change.parts.counted(),
        "peaks": _peaks_dict(changed.peaks),
        "exceedance": None if changed.chance is None else asdict(changed.chance),
        "energy_change": asdict(changed.effect.energy),
        "peak_changes": {f"{level:g}": asdict(one) for level, one in changed.effect.peaks.items()},
    }


def _worst_dict(found: TailSample | str) -> dict[str, Any]:
    if isinstance(found, str):
        return {"refused": found}
    about = {name: value for name, value in asdict(found).items() if name not in ("x", "weights")}
    return {**about, "x": found.x.tolist(), "weights": found.weights.tolist()}
