"""How good a model is, against the truth and beside baselines: ``compvae evaluate``."""

from compvae.evaluation.averages import Judged
from compvae.evaluation.harness import Truth, evaluate, evaluate_samplers, problem_of
from compvae.evaluation.plan import Plan, plan_for
from compvae.evaluation.rows import MODEL, Comparison, Evaluation, Row, read_evaluation

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
    "read_evaluation",
]
