"""What planners look at: fans, peaks, diversity, durations, ratings, what-if; functions of draws in the unit of x."""

from compvae.planning.answers import Row, plan_dict, rows
from compvae.planning.changes import Change, Effect, effect, on_fresh_days, on_observed_day, replaced
from compvae.planning.curves import Duration, Fan, duration, fan
from compvae.planning.daily import Peaks, daily_energy, daily_peaks, peaks
from compvae.planning.diversity import Diversity, after_diversity, demand_a_home, scaled
from compvae.planning.exceeding import Chance, by_counting, chance_of_exceeding, wilson
from compvae.planning.plan import Plan, Question, make_plan
from compvae.planning.quantities import Quantile, quantile, quantile_change
from compvae.planning.scales import Scale, scale_of

__all__ = [
    "Chance", "Change", "Diversity", "Duration", "Effect", "Fan", "Peaks", "Plan", "Quantile", "Question", "Row",
    "Scale", "after_diversity", "by_counting", "chance_of_exceeding", "daily_energy", "daily_peaks", "demand_a_home",
    "duration", "effect", "fan", "make_plan", "on_fresh_days", "on_observed_day", "peaks", "plan_dict", "quantile",
    "quantile_change", "replaced", "rows", "scale_of", "scaled", "wilson",
]  # fmt: skip
