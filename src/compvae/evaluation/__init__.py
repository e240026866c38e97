"""How good a model is, against the truth and beside baselines: ``compvae evaluate``."""

from compvae.evaluation.harness import MODEL, Evaluation, Truth, evaluate, evaluate_samplers, problem_of
from compvae.evaluation.plan import Plan, plan_for
from compvae.evaluation.rows import Comparison, Judged, Row

__all__ = [
    "MODEL",
    "Comparison",
    "Evaluation",
    "Judged",
    "Plan",
    "Row",
    "Truth",
    "evaluate",
    "evaluate_samplers",
    "plan_for",
    "problem_of",
]
