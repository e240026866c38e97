"""C2ST: how often a classifier tells held-out true samples from generated ones  (Lopez-Paz & Oquab 2017).

    accuracy = 1/2 P(says true | true) + 1/2 P(says model | model), 0.5 where nothing can be told

On recovered features (phasors of a curve, sharpness of a site), never on raw x: the data are noise-free, and any
observation noise would be told at a glance.

Every sample is judged once, but by classifiers that share most of what they were trained on, so that their mistakes go
together: errors are widened by sqrt(1 + k/(k - 1)), k folds (Nadeau & Bengio 2003).  For equal distributions 1.1 to
1.4 was measured, 1.5 is what 5 folds get: the floor is exceeded in less than 5% of cases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from compvae.checks import at_least_one
from compvae.errors import DataError
from compvae.extras import need
from compvae.measures.measured import Measured, check_alike, samples
from compvae.noise import Noise

__all__ = ["C2ST", "c2st"]

TREES = 50
ONE_SIDED_95 = 1.645


@dataclass(frozen=True)
class C2ST:
    """Classifier two-sample test.  accuracy: 0.5 is indistinguishable.  auc: the same by ranking, without a threshold.

    floor of both: 0.5 and 1.645 standard errors, which equal distributions exceed in 5% of cases or fewer.
    """

    accuracy: Measured
    auc: Measured


def c2st(truth: np.ndarray, model: np.ndarray, seed: int = 0, folds: int = 5) -> C2ST:
    """Tell samples apart by their features, judged on folds held out in turn.  truth, model: (n, *shape), equal n."""
    check_alike(truth, model, ("truth", "model"), rows=True)
    x, y = samples(truth, "truth", 2 * at_least_one(folds, "folds")), samples(model, "model")
    if folds < 2:
        raise DataError("folds must be at least 2: one fold is trained on, another is judged")
    features, labels = np.concatenate([x, y]), np.repeat([0, 1], len(x))
    number = int(Noise(seed, 1).integers("c2st", 0, 2**31 - 1))
    split = need("sklearn.model_selection", "eval").StratifiedKFold(folds, shuffle=True, random_state=number)
    says, aucs = np.empty(len(labels)), []
    for train, test in split.split(features, labels):
        fitted = _classifier(number).fit(features[train], labels[train])
        says[test] = fitted.predict_proba(features[test])[:, 1]
        aucs.append(_auc(says[test][labels[test] == 0], says[test][labels[test] == 1]))
    right = np.where(labels == 1, says > 0.5, says < 0.5) + 0.5 * (says == 0.5)
    widening = math.sqrt(1 + folds / (folds - 1))
    return C2ST(_accuracy(right[labels == 0], right[labels == 1], widening), _average(aucs, 2 * len(x), widening))


def _classifier(seed: int) -> Any:
    """A quadratic logistic regression, which sees moments, and a forest, which sees shapes; their mean probability."""
    pipeline, scale = need("sklearn.pipeline", "eval"), need("sklearn.preprocessing", "eval")
    ensemble, linear = need("sklearn.ensemble", "eval"), need("sklearn.linear_model", "eval")
    quadratic = pipeline.make_pipeline(
        scale.StandardScaler(), scale.PolynomialFeatures(2), scale.StandardScaler(), linear.LogisticRegression(C=0.1)
    )
    forest = ensemble.RandomForestClassifier(TREES, min_samples_leaf=5, random_state=seed)
    return ensemble.VotingClassifier([("quadratic", quadratic), ("forest", forest)], voting="soft")


def _accuracy(right_true: np.ndarray, right_model: np.ndarray, widening: float) -> Measured:
    """Mean over the two classes; binomial errors, never below those of one case judged otherwise.  (n,) each."""
    n = len(right_true)
    value = float(right_true.mean() + right_model.mean()) / 2
    shares = [(float(right.sum()) + 1) / (n + 2) for right in (right_true, right_model)]
    se = widening * 0.5 * math.sqrt(sum(share * (1 - share) for share in shares) / n)
    return Measured(value, se, 2 * n, 0.5 + ONE_SIDED_95 * widening * 0.5 / math.sqrt(2 * n))


def _auc(true: np.ndarray, model: np.ndarray) -> tuple[float, float]:
    """P(model scores above true), ties count half, and its variance (DeLong et al. 1988).  true: (n,).  model: (m,)."""
    above = (model > true[:, None]) + 0.5 * (model == true[:, None])
    variance = sum(float(above.mean(axis).var(ddof=1)) / above.shape[1 - axis] for axis in (0, 1))
    return float(above.mean()), variance


def _average(aucs: list[tuple[float, float]], n: int, widening: float) -> Measured:
    """Mean over folds: scores of different folds come from different classifiers and are not compared."""
    values, variances = zip(*aucs, strict=True)
    each = n / len(aucs) / 2  # of either class in a fold
    chance = widening * math.sqrt((2 * each + 1) / (12 * each**2) / len(aucs))  # Mann-Whitney, equal distributions
    se = widening * math.sqrt(sum(variances)) / len(aucs)
    return Measured(float(np.mean(values)), se, n, 0.5 + ONE_SIDED_95 * chance)
