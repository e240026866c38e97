"""How good a model is, against the truth or on what was held out, and beside baselines: ``compvae evaluate``."""

from compvae.evaluation.averages import Judged
from compvae.evaluation.harness import Truth, evaluate, evaluate_samplers, problem_of
from compvae.evaluation.plan import Plan, plan_for
from compvae.evaluation.rows import MODEL, Comparison, Evaluation, Row, read_evaluation
from compvae.evaluation.unseen import Effort, effort_for, evaluate_own

__all__ = [
    "MODEL",
    "Comparison",
    "Effort",
    "Evaluation",
    "Judged",
    "Plan",
    "Row",
    "Truth",
    "effort_for",
    "evaluate",
    "evaluate_own",
    "evaluate_samplers",
    "plan_for",
    "problem_of",
    "read_evaluation",
]
