"""The shape k of a generalised Pareto tail, density (1/s) (1 + k y / s)^(-1/k - 1), for the largest of some weights.

Estimated as by Zhang & Stephens (2009): with theta = -k/s the likelihood has, for given theta, its maximum at
k(theta) = mean ln(1 - theta y); theta is averaged over a fixed grid by its profile likelihood.  Weights with k > 0.7
cannot be trusted at any practical sample size (Vehtari et al. 2024).
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["pareto_shape", "tail_shape"]


def pareto_shape(excess: np.ndarray) -> float:
    """k of excesses over a threshold.  excess: (m,), positive."""
    y = np.sort(excess)
    grid = 30 + math.isqrt(len(y))
    quartile = y[math.floor(len(y) / 4 + 0.5) - 1]
    j = np.arange(1, grid + 1)
    theta = 1 / y[-1] + (1 - np.sqrt(grid / (j - 0.5))) / (3 * quartile)
    shape = np.log1p(-theta[:, None] * y).mean(1)
    log_likelihood = len(y) * (np.log(-theta / shape) - shape - 1)
    weight = np.exp(log_likelihood - log_likelihood.max())
    mean = float((theta * weight).sum() / weight.sum())
    return float(np.log1p(-mean * y).mean())


def tail_shape(weights: np.ndarray) -> float:
    """k of the largest min(S/5, 3 sqrt(S)) of S weights; 0 where they do not differ.  weights: (S,)."""
    ordered = np.sort(weights)
    size = math.ceil(min(len(ordered) / 5, 3 * math.sqrt(len(ordered))))
    excess = ordered[-size:] - ordered[-size - 1]
    positive = excess[excess > 1e-9 * ordered[-1]]
    return pareto_shape(positive) if len(positive) >= 5 else 0.0
