"""Baselines: known answers on a problem whose p(x | parts) is a Gaussian; order, seeds and prefixes for all of them."""

from __future__ import annotations

import math
import sys
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from compvae import problems
from compvae.baselines import (
    BASELINES,
    Budget,
    ConditionalVAE,
    Flow,
    FlowMatching,
    Gaussian,
    Independent,
    Sampler,
    fitted,
    known_baselines,
)
from compvae.baselines.flow import NOISE
from compvae.baselines.inputs import Coordinates
from compvae.baselines.learned import Learned
from compvae.baselines.matching import heun
from compvae.baselines.paper import narrowed, parameters_of
from compvae.batch import PaddedParts, collate
from compvae.errors import CompVAEError, ConfigError, MissingExtraError
from compvae.evaluation import Truth
from compvae.measures import rel_ed, rel_ed_floor
from compvae.model import Model
from compvae.network import CompVAE
from compvae.noise import Noise
from compvae.parts import Categorical, PartsSchema
from compvae.presets import preset
from compvae.problems.base import Problem, Settings

MEANS = torch.tensor([[1.0, -0.5], [-0.3, 0.8]])
ROOTS = torch.tensor([[[0.5, 0.0], [0.3, 0.2]], [[0.2, 0.1], [0.0, 0.6]]])


class Sums(Problem):
    """x = sum_i m_c + A_c u_i, u_i ~ N(0, I): a Gaussian whose moments are linear in the counts."""

    name: ClassVar[str] = "sums"
    summary: ClassVar[str] = "sums of Gaussian vectors"
    specific_names: ClassVar[tuple[str, ...]] = ("u", "v")
    extensive: ClassVar[bool] = True
    max_parts: ClassVar[int] = 4
    settings_class: ClassVar[type[Settings]] = Settings

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.schema = PartsSchema(attributes=(Categorical(name="kind", categories=("a", "b")),))
        self.shape = (2,)

    def draw_parts(self, sizes: Tensor, noise: Noise) -> PaddedParts:
        mask = torch.arange(int(sizes.max())) < sizes[:, None]
        kind = noise.integers("kind", 0, 1, mask.shape[1]).masked_fill_(~mask, 0)
        return PaddedParts(kind, torch.zeros(*mask.shape, 0), mask, 2)

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:
        return noise.normal("specifics", parts.kind.shape[1], 2)

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:
        each = MEANS[parts.kind] + torch.einsum("bkij,bkj->bki", ROOTS[parts.kind], specifics)
        return (each * parts.mask[..., None]).sum(1)


def exact_moments(counts: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    n = np.array([counts.get("a", 0), counts.get("b", 0)], float)
    roots = ROOTS.numpy().astype(float)
    return n @ MEANS.numpy(), np.einsum("c,cij,ckj->ik", n, roots, roots)


@pytest.mark.parametrize("counts", [{"a": 1}, {"a": 2, "b": 1}, {"a": 30, "b": 70}])
def test_the_gaussian_finds_moments_that_are_linear_in_the_counts(counts):
    gaussian = Gaussian(Sums()).fit(Budget(steps=150))
    mean, covariance = exact_moments(counts)
    found_mean, found = gaussian.moments(collate([Sums().schema.parse(counts)]))
    scale = covariance.trace()
    np.testing.assert_allclose(found_mean, mean, atol=0.02 * np.linalg.norm(mean))
    np.testing.assert_allclose(found, covariance, atol=0.03 * scale)
    x = gaussian.sample(counts, 4000)
    np.testing.assert_allclose(np.cov(x.T), covariance, atol=0.08 * scale)
    np.testing.assert_allclose(x.mean(0), mean, atol=4 * math.sqrt(scale / 4000) + 0.02 * np.linalg.norm(mean))


def test_the_gaussian_of_a_feeder_sees_the_shared_day():
    """Var(x) of K homes grows like K^2 where homes share a day: the Gaussian has that term."""
    problem = problems.get("households")
    gaussian = Gaussian(problem).fit(Budget(steps=60))
    kinds = len(problem.schema.categories)
    parts = {"heat_pump": 20, "flat": 20}
    exact, found = problem.truth(parts, 1000, 1), gaussian.sample(parts, 1000)
    assert 0.6 < found.sum(1).std() / exact.sum(1).std() < 1.6
    gaussian.covariances[kinds:] = 0
    assert gaussian.sample(parts, 1000).sum(1).std() < 0.5 * exact.sum(1).std()
    with pytest.raises(ConfigError, match="gaussian knows counts alone"):
        gaussian.sample(parts, 2, context={"temperature": 3.0})


def test_heun_solves_a_known_equation_to_second_order():
    start = torch.tensor([[1.0], [-2.0]], dtype=torch.float64)
    errors = []
    for steps in (16, 32, 64):
        found = heun(lambda y, t: y * math.cos(t), start, steps)  # y = y0 exp(sin t)
        errors.append(float((found / start - math.exp(math.sin(1.0))).abs().max()))
    assert errors[1] < 1e-3
    assert 3.5 < errors[0] / errors[1] < 4.5
    assert 3.5 < errors[1] / errors[2] < 4.5


@cache
def learned(kind: type[Learned]) -> Any:
    torch.set_num_threads(1)
    narrow = type(kind.__name__, (kind,), {"width": 64, "batch": 128, "transforms": 3})  # two numbers need no more
    return narrow(Sums()).fit(Budget(steps=200))


def test_the_flow_is_a_density_and_comes_near_the_true_one():
    problem, flow, counts = Sums(), learned(Flow), {"a": 1, "b": 2}
    given = flow.condition(collate([problem.schema.parse(counts)]), torch.zeros(1, 0))
    coordinates = flow.coordinates
    mean, covariance = (torch.from_numpy(m).float() / 3**power for power, m in enumerate(exact_moments(counts), 1))
    basis, scale = coordinates.basis, coordinates.scale
    noise = NOISE**2 * torch.eye(2)
    true = torch.distributions.MultivariateNormal(
        (mean - coordinates.mean) @ basis / scale, basis.T @ covariance @ basis / scale**2 + noise
    )
    line = torch.linspace(-8, 8, 161)
    grid = torch.cartesian_prod(line, line)
    with torch.no_grad():
        density = flow.log_density(grid, given.expand(len(grid), -1))
        y = true.sample((4000,))
        gap = true.log_prob(y) - flow.log_density(y, given.expand(len(y), -1))
    assert float(density.double().exp().sum()) * 0.1**2 == pytest.approx(1, abs=0.01)
    assert -0.02 < float(gap.mean()) < 0.1  # KL(true || flow), nats


@pytest.mark.parametrize("kind", [ConditionalVAE, Flow, FlowMatching])
def test_networks_learn_a_gaussian(kind):
    problem, counts = Sums(), {"a": 2, "b": 1}
    truth = problem.truth(counts, 1000, 1)
    before, after = (rel_ed(truth, one.sample(counts, 1000)).value for one in (kind(problem), learned(kind)))
    assert after < 0.02 < 0.1 < before


def test_coordinates_keep_x():
    problem = problems.get("sines")
    coordinates = Coordinates.of(problem, 0)
    x = torch.from_numpy(problem.truth({"2": 1, "7": 2}, 50, 3))
    unit = torch.full((50, 1), 3.0, dtype=torch.float64)
    y = coordinates.of_x(x, unit)
    assert y.shape[1] < 120
    assert float((coordinates.to_x(y, unit) - x).square().mean().sqrt()) < 0.03 * float(x.square().mean().sqrt())
    torch.testing.assert_close(coordinates.basis.T @ coordinates.basis, torch.eye(y.shape[1]), atol=1e-5, rtol=0)


def test_parts_alone_add_up_to_the_truth_where_the_whole_is_their_sum_and_nowhere_else():
    parts, n = {"2": 1, "5": 2, "9": 1}, 300
    for strength, linear in ((0.01, True), (3.0, False)):
        problem = problems.get("sines", C=strength)
        scaled = 1 / strength  # relED calls what hardly varies undefined
        truth = problem.truth(parts, n, 1) * scaled
        found = Independent(problem, Truth(problem)).sample(parts, n, 2) * scaled
        floor = rel_ed_floor(lambda seed, p=problem, s=scaled: p.truth(parts, n, 100 + seed) * s, 20)
        value = rel_ed(truth, found).value
        assert value < 2 * floor if linear else value > 20 * floor


def test_images_alone_are_averaged():
    problem = problems.get("colours", size=4)
    sites = [{"colour": "white", "x": 0.1, "y": 0.2}, {"colour": "black", "x": -0.4, "y": 0.3}]
    np.testing.assert_allclose(Independent(problem, Truth(problem)).sample(sites, 2), 0.5)  # alone, a site is flat


# -- what all of them promise ------------------------------------------------------------------------------------

CURVES = problems.get("sines", timesteps=12, resolution=6)
IMAGES = problems.get("colours", size=4)
ORDERS = {
    "sines": ([{"frequency": "3"}, {"frequency": "1"}, {"frequency": "3"}], {"1": 1, "3": 2}),
    "colours": (
        [{"colour": "red", "x": 0.5, "y": -0.4}, {"colour": "blue", "x": -0.2, "y": 0.1}],
        [{"colour": "blue", "x": -0.2, "y": 0.1}, {"colour": "red", "x": 0.5, "y": -0.4}],
    ),
}
CASES = [(name, problem.name) for problem in (CURVES, IMAGES) for name in BASELINES]
CASES.remove(("gaussian", "colours"))


@cache
def baseline(name: str, problem_name: str) -> Sampler:
    problem = CURVES if problem_name == "sines" else IMAGES
    torch.set_num_threads(1)
    model = Model(CompVAE.seeded(preset(problem, "small"), 0))
    return fitted(name, problem, model, Budget(steps=2))


@pytest.mark.parametrize(("name", "problem"), CASES)
def test_rows_depend_on_the_seed_and_their_number_alone(name, problem):
    sampler, (parts, _) = baseline(name, problem), ORDERS[problem]
    many, few, other = sampler.sample(parts, 300, 7), sampler.sample(parts, 5, 7), sampler.sample(parts, 5, 8)
    assert many.dtype == np.float32
    assert np.isfinite(many).all()
    assert many.shape == (300, *(CURVES if problem == "sines" else IMAGES).shape)
    np.testing.assert_array_equal(many[:5], few)
    assert not np.allclose(few, other)


@pytest.mark.parametrize(("name", "problem"), CASES)
def test_the_order_of_parts_does_not_matter(name, problem):
    sampler, (one, other) = baseline(name, problem), ORDERS[problem]
    np.testing.assert_array_equal(sampler.sample(one, 4, 7), sampler.sample(other, 4, 7))


def test_fitting_is_a_function_of_the_seed():
    def sample(seed: int) -> np.ndarray:
        return FlowMatching(CURVES, seed).fit(Budget(steps=2, seed=seed)).sample({"1": 2}, 3)

    np.testing.assert_array_equal(sample(1), sample(1))
    assert not np.allclose(sample(1), sample(2))


def test_covariates_reach_a_baseline():
    problem = problems.get("households")
    sampler = FlowMatching(problem).fit(Budget(steps=2))
    cold, unknown = (sampler.sample({"flat": 3}, 4, 1, context) for context in ({"temperature": -10.0}, None))
    assert not np.allclose(cold, unknown)
    with pytest.raises(CompVAEError, match="unknown covariate 'wind'"):
        sampler.sample({"flat": 3}, 4, 1, {"wind": 3})


@pytest.mark.parametrize("name", ["sines", "colours", "households"])
def test_the_paper_is_narrowed_to_a_given_size(name):
    problem = problems.get(name)
    for parameters in (1_000_000, 3_000_000):
        config = narrowed(problem, parameters)
        assert config.posterior.kind == "graph"
        assert config.latent.z_place == "below"
        with torch.device("meta"):
            assert parameters_of(CompVAE(config)) == pytest.approx(parameters, rel=0.35)


# -- what they refuse --------------------------------------------------------------------------------------------


def test_wrong_names_and_budgets_are_refused():
    with pytest.raises(ConfigError, match="baseline 'gaussion' is unknown, the baselines are independent, gaussian"):
        known_baselines("flow,gaussion", CURVES)
    assert known_baselines(" flow, gaussian,flow ", CURVES) == ["flow", "gaussian"]
    assert known_baselines("all", CURVES) == list(BASELINES)
    assert set(BASELINES) - set(known_baselines("all", IMAGES)) == {"gaussian"}
    for budget in ({}, {"steps": 1, "minutes": 1.0}, {"steps": 0}, {"minutes": math.nan}):
        with pytest.raises(CompVAEError, match=r"minutes|steps"):
            Budget(**budget)
    with pytest.raises(ConfigError, match="gaussian needs parts that are counted"):
        Gaussian(IMAGES)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "zuko", None)
    monkeypatch.setitem(sys.modules, "zuko.flows", None)
    with pytest.raises(MissingExtraError, match=r"zuko.*compvae\[baselines\]"):
        Flow(Sums())


def test_minutes_are_measured_once():
    heard: list[tuple[str, int, int]] = []
    FlowMatching(Sums()).fit(Budget(minutes=0.002, watch=lambda *news: heard.append(news)))
    done, total = zip(*[(news[1], news[2]) for news in heard], strict=True)
    assert set(total) == {len(heard)}
    assert done == tuple(range(1, len(heard) + 1))
