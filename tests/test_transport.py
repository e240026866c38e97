"""The invertible model against independent computations: dense Gaussians, autograd, quadrature; all in float64."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import MultivariateNormal

import compvae
from compvae.batch import Batch, CountedParts, Shared
from compvae.model import Model
from compvae.noise import Noise, Still
from compvae.parts import Categorical, PartsSchema
from compvae.transport import flow
from compvae.transport.base import Base, with_whole
from compvae.transport.config import LinkName, TransportConfig
from compvae.transport.correlating import correct_shared_, scale_shared_
from compvae.transport.expectation import fit_base
from compvae.transport.link import CURVES, Link
from compvae.transport.network import Transport, _times
from compvae.transport.structure import Candidate, best_of, find_structure, nonnegative_kinds, undetermined_kinds

KINDS, VALUES, RANK, FACTORS = 3, 4, 2, 2
FIXTURES = Path(__file__).parent / "fixtures"
SCHEMA = PartsSchema(attributes=(Categorical(name="kind", categories=("a", "b", "c")),))


def normal(*shape: int, seed: int = 0) -> Tensor:
    return Noise(seed, 1).normal("test", *shape, dtype=torch.float64)[0]


def random_base(covariates: int = 0, seed: int = 0) -> Base:
    base = Base(KINDS, VALUES, RANK, FACTORS, covariates).double()
    base.means.copy_(normal(KINDS + 1, 1 + covariates, VALUES, seed=seed))
    base.loadings.copy_(normal(KINDS + 1, VALUES, RANK, seed=seed + 1))
    base.noise.copy_(0.1 + normal(KINDS + 1, VALUES, seed=seed + 2).square())
    base.shared.copy_(0.5 * normal(KINDS, VALUES, FACTORS, seed=seed + 3))
    base.spread_by.copy_(0.3 * normal(covariates, seed=seed + 4))
    return base


def random_transport(seed: int = 0, strength: float = 0.5, **fields: object) -> Transport:
    """A model with a random base and a map that is far from the identity."""
    config = TransportConfig(
        parts=SCHEMA, shape=(VALUES,), rank=RANK, factors=FACTORS, width=8, depth=1, steps=6
    ).with_changes(**fields)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Transport(config).double()
    network.base.load_state_dict(random_base(seed=seed).state_dict())
    network.field.last.weight.data.copy_(strength * normal(VALUES, 8, seed=seed + 9))
    return network.eval().requires_grad_(False)


def counts_of(*rows: tuple[int, int, int]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def covariances(base: Base, counts: Tensor) -> tuple[list[Tensor], Tensor]:
    """S_c n_c of each kind and of the whole, and the loading of z, of one composition.  counts: (C,)."""
    n = with_whole(counts[None])[0]
    own = [n[c] * (base.loadings[c] @ base.loadings[c].T + base.noise[c].diag()) for c in range(KINDS + 1)]
    return own, torch.einsum("c,ctz->tz", counts, base.shared)


# -- the base --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_the_posterior_of_the_terms_and_of_z_is_dense_conditioning(size: int) -> None:
    base = random_base()
    counts = counts_of(*[(size - k // 2, k // 2, k % 2) for k in range(min(size, 3))])
    groups = Shared(torch.zeros(len(counts), dtype=torch.int64), 1)  # all of them share one z
    deviation = normal(len(counts), VALUES, seed=7)
    found = base.posterior_mean(deviation, counts, counts[:, :0], groups)

    own = [covariances(base, row)[0] for row in counts]
    loading = torch.cat([covariances(base, row)[1] for row in counts])  # (B T, Z)
    total = torch.block_diag(*(sum(terms) for terms in own)) + loading @ loading.T
    pull = torch.linalg.solve(total, deviation.flatten())
    torch.testing.assert_close(found.z, (loading.T @ pull).expand(len(counts), -1), rtol=1e-8, atol=1e-10)
    for row in range(len(counts)):
        for kind in range(KINDS + 1):
            expected = own[row][kind] @ pull[row * VALUES : (row + 1) * VALUES]
            torch.testing.assert_close(found.each[row, kind], expected, rtol=1e-8, atol=1e-10)


def test_the_log_density_is_that_of_the_dense_gaussian_jointly_where_z_is_shared() -> None:
    base, counts = random_base(), counts_of((2, 1, 0), (0, 3, 1), (1, 1, 1))
    deviation, groups = normal(3, VALUES, seed=3), Shared(torch.tensor([0, 0, 1]), 2)
    alone = base.log_prob(deviation, counts, counts[:, :0])
    joint = base.log_prob(deviation, counts, counts[:, :0], groups)
    for row in range(3):
        own, loading = covariances(base, counts[row])
        dense = MultivariateNormal(torch.zeros(VALUES).double(), sum(own) + loading @ loading.T)
        torch.testing.assert_close(alone[row], dense.log_prob(deviation[row]), rtol=1e-9, atol=1e-9)
    loading = torch.cat([covariances(base, row)[1] for row in counts[:2]])
    total = torch.block_diag(*(sum(covariances(base, row)[0]) for row in counts[:2])) + loading @ loading.T
    together = MultivariateNormal(torch.zeros(2 * VALUES).double(), total).log_prob(deviation[:2].flatten())
    torch.testing.assert_close(joint[:2].sum(), together, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(joint[2], alone[2], rtol=1e-12, atol=1e-12)


def test_draws_have_the_moments_of_the_base_and_spread_by_context() -> None:
    base, rows = random_base(covariates=2), 40_000
    counts, context = counts_of((2, 0, 3)).expand(rows, -1), torch.tensor([[0.5, -1.0]]).double().expand(rows, -1)
    drawn = base.draw(counts, context, Noise(1, rows))
    own, loading = covariances(base, counts[0])
    factor = float((context[0] @ base.spread_by).exp())
    expected = (sum(own) + loading @ loading.T) * factor**2
    torch.testing.assert_close(drawn.T.cov(), expected, rtol=0.0, atol=0.05 * float(expected.diagonal().max()))
    torch.testing.assert_close(
        base.spread(counts[:1], context[:1])[0], expected.diagonal().sqrt(), rtol=1e-12, atol=1e-12
    )


def test_draws_of_the_posterior_add_up_to_w_and_have_its_means() -> None:
    base, rows = random_base(), 20_000
    counts, deviation = counts_of((2, 1, 0)).expand(rows, -1), normal(1, VALUES, seed=5).expand(rows, -1)
    terms = base.posterior(deviation, counts, counts[:, :0], None, Noise(2, rows))
    summed = terms.each.sum(1) + base.of_z(counts, counts[:, :0], terms.z)
    torch.testing.assert_close(summed, deviation, rtol=0.0, atol=1e-9)
    mean = base.posterior_mean(deviation[:1], counts[:1], counts[:1, :0])
    spread = terms.each.std(0) / math.sqrt(rows)
    assert ((terms.each.mean(0) - mean.each[0]).abs() <= 5 * spread + 1e-9).all()
    still = base.posterior(deviation[:1], counts[:1], counts[:1, :0], None, Still(1))
    torch.testing.assert_close(still.each, mean.each, rtol=0.0, atol=1e-12)


def test_em_finds_what_parts_share_where_wholes_are_known_to_share_it() -> None:
    truth, rows = random_base(seed=20), 3000
    counts = Noise(4, rows).integers("counts", 0, 3, KINDS).double() + counts_of((1, 0, 0))
    groups = Shared(torch.arange(rows) // 3, rows // 3)
    z = Noise(5, rows).normal("z", FACTORS, dtype=torch.float64)[groups.first][groups.group]
    w = truth.mean(counts, counts[:, :0]) + truth.draw(counts, counts[:, :0], Noise(6, rows), z)
    base = fit_base(Base(KINDS, VALUES, RANK, FACTORS, 0), w, counts, counts[:, :0], groups, 30, rows).double()
    typical = counts.mean(0)  # what two wholes of average composition have in common
    found, expected = (torch.einsum("c,ctz->tz", typical, one.shared) for one in (base, truth))
    common, known = found @ found.T * base.scale[:, None] * base.scale, expected @ expected.T
    assert (common - known).norm() < 0.15 * known.norm()
    predicted = base.mean(counts, counts[:, :0]).mean(0) * base.scale
    assert ((predicted - w.mean(0)).abs() < 5 * w.std(0) / math.sqrt(groups.size)).all()


def test_more_shared_leaves_the_variance_of_each_value_where_it_was() -> None:
    base, counts = random_base(seed=30), Noise(4, 400).integers("counts", 0, 3, KINDS).double() + counts_of((1, 0, 0))
    size = counts.sum(1, keepdim=True)

    def variance(of: Base) -> Tensor:
        return (of.spread(counts, counts[:, :0]).square() / size).mean(0)

    before, shared, factors = variance(base), base.shared.clone(), torch.tensor([1.1, 0.9, 1.05]).double()
    scale_shared_(base, counts, factors)
    assert torch.allclose(base.shared, shared * factors[:, None, None])
    assert torch.allclose(variance(base), before)


@pytest.mark.parametrize("stretch", [(0.8, 0.8, 0.8), (1.0, 1.0, 1.0), (1.2, 1.2, 0.8)])
def test_what_wholes_share_is_corrected_to_that_of_real_pairs(stretch: tuple[float, ...]) -> None:
    rows = 16_000
    network = random_transport(seed=40, strength=0.0)
    counts = Noise(4, rows).integers("counts", 0, 3, KINDS).double() + counts_of((1, 0, 0))
    groups = Shared(torch.arange(rows) // 2, rows // 2)
    z = Noise(5, rows).normal("z", FACTORS, dtype=torch.float64)[groups.first][groups.group]
    x = network.draw(CountedParts(counts), None, Noise(6, rows), z).double()
    scale_shared_(network.base, counts, 1 / torch.tensor(stretch).double())  # pairs go together too much or too little
    for round_ in range(5):
        correct_shared_(network, Batch(x, CountedParts(counts), shared=groups), round_)
    typical, truth = counts.mean(0), random_base(seed=40)
    found, known = (torch.einsum("c,ctz->tz", typical, base.shared) for base in (network.base, truth))
    assert (found @ found.T - known @ known.T).norm() < 0.15 * (known @ known.T).norm()  # the error of 8,000 pairs
    assert (network.base.shared / truth.shared - 1).abs().max() < 0.25


# -- link and map ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extensive", [True, False])
@pytest.mark.parametrize("name", ["identity", *CURVES])
def test_a_link_is_inverted_and_its_slope_is_that_of_autograd(name: str, extensive: bool) -> None:
    sizes = torch.tensor([[1.0], [4.0], [100.0]]).double()
    data = Noise(0, 50).uniform("x", VALUES, dtype=torch.float64) * 3 + 0.05
    link = Link(name, VALUES, extensive).double().fit_(data, torch.ones(50, 1).double())  # type: ignore[arg-type]
    x = torch.linspace(-0.5, 4.0, 3 * VALUES).double().view(3, VALUES).requires_grad_()  # beyond the limits too
    y = link(x, sizes)
    torch.testing.assert_close(link.inverse(y, sizes), x, rtol=1e-7, atol=1e-7)
    slope = torch.autograd.grad(y.sum(), x)[0]
    torch.testing.assert_close(link.log_slope(x, sizes), slope.log(), rtol=1e-7, atol=1e-7)


def test_a_map_that_was_not_trained_is_the_identity_at_any_number_of_steps() -> None:
    network = random_transport(strength=0.0)
    u = normal(5, VALUES, seed=1)
    embedded = network.field.embed(network.given(CountedParts(counts_of((1, 1, 0)).expand(5, -1)), None).condition())
    for steps in (1, 2, 16):
        torch.testing.assert_close(flow.apply(network.field, u, embedded, steps), u, rtol=0.0, atol=0.0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.1, 1.0))
def test_the_inverse_is_solved_and_the_determinant_is_that_of_autograd(seed: int, strength: float) -> None:
    network = random_transport(seed, strength)
    given_ = network.given(CountedParts(counts_of((2, 0, 1), (1, 1, 1))), None)
    u, embedded = normal(2, VALUES, seed=seed), network.field.embed(given_.condition())
    mapped, slope = flow.log_determinant(network.field, u, embedded, 6)
    torch.testing.assert_close(flow.invert(network.field, mapped, embedded, 6), u, rtol=0.0, atol=1e-4)
    for row in range(2):
        jacobian = torch.autograd.functional.jacobian(
            lambda v, r=row: flow.apply(network.field, v[None], embedded[r : r + 1], 6)[0], u[row]
        )
        torch.testing.assert_close(slope[row], torch.linalg.slogdet(jacobian)[1], rtol=1e-8, atol=1e-8)


def test_the_estimated_determinant_is_near_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    network = random_transport(3, 0.2)
    given_ = network.given(CountedParts(counts_of((2, 0, 1))), None)
    u, embedded = normal(1, VALUES, seed=3), network.field.embed(given_.condition())
    exact = flow.log_determinant(network.field, u, embedded, 6)[1]
    monkeypatch.setattr(flow, "EXACT_VALUES", 0)
    monkeypatch.setattr(flow, "PROBES", 400)
    assert abs(float(flow.log_determinant(network.field, u, embedded, 6)[1] - exact)) < 0.05


def test_times_of_a_batch_are_uniform_and_evenly_spread() -> None:
    times = torch.cat([_times(Noise(1, 64, step)) for step in range(400)], 1)  # (64, 400)
    assert (times.mean(1) - 0.5).abs().max() < 5 / math.sqrt(12 * 400)  # of one row
    gaps = times.sort(0).values.diff(dim=0)
    assert float(gaps.max()) < 3 / 64
    assert torch.equal(_times(Noise(1, torch.arange(32, 64), 5)), _times(Noise(1, 64, 5))[32:])  # of another process


# -- the whole -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whitened", [False, True])
def test_the_units_of_the_map_are_undone_and_do_not_depend_on_the_wholes_beside(whitened: bool) -> None:
    network, counts = random_transport(whitened=whitened, quiet=0.5), counts_of((2, 1, 0), (0, 0, 3), (40, 1, 9))
    units, deviation = network._units(network.given(CountedParts(counts), None)), normal(3, VALUES, seed=3)
    torch.testing.assert_close(units.back(units.into(deviation)), deviation, rtol=1e-10, atol=1e-10)
    alone = network._units(network.given(CountedParts(counts[:1]), None))
    torch.testing.assert_close(alone.into(deviation[:1]), units.into(deviation)[:1], rtol=1e-10, atol=1e-12)


def test_whitened_units_are_the_root_of_the_dense_covariance() -> None:
    network, counts = random_transport(whitened=True), counts_of((2, 1, 0), (0, 0, 3))
    units = network._units(network.given(CountedParts(counts), None))
    for row in range(2):
        own, loading = covariances(network.base, counts[row])
        root = torch.stack([units.back(one.expand(2, -1))[row] for one in torch.eye(VALUES, dtype=torch.float64)], 1)
        torch.testing.assert_close(root @ root, sum(own) + loading @ loading.T, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(root, root.T, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("whitened", [False, True])
def test_log_prob_is_the_dense_gaussian_where_the_map_is_the_identity(whitened: bool) -> None:
    network, counts = random_transport(strength=0.0, whitened=whitened), counts_of((2, 1, 0), (0, 0, 3))
    x = network.base.mean(counts, counts[:, :0]) + normal(2, VALUES, seed=1)
    found = network.log_density(Batch(x, CountedParts(counts)), None)
    for row in range(2):
        own, loading = covariances(network.base, counts[row])
        mean = network.base.mean(counts[row : row + 1], counts[:1, :0])[0]
        dense = MultivariateNormal(mean, sum(own) + loading @ loading.T)
        torch.testing.assert_close(found[row], dense.log_prob(x[row]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("link", "whitened"), [("identity", False), ("identity", True), ("bend", False), ("saturation", False)]
)
def test_the_density_integrates_to_one(link: str, whitened: bool) -> None:
    config = TransportConfig(
        parts=SCHEMA, shape=(2,), rank=1, factors=1, width=8, depth=1, steps=6, whitened=whitened
    ).with_changes(link=link)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        network = Transport(config).double().eval()
    network.base.means[:, 0] = 0.3
    network.base.loadings.copy_(0.5 * normal(KINDS + 1, 2, 1, seed=2))
    network.base.noise.fill_(0.2)
    network.field.last.weight.data.copy_(0.4 * normal(2, 8, seed=4))
    network.requires_grad_(False)
    low, high, points = (-9.0, 9.0, 361) if link != "saturation" else (-14.0, 1.4, 309)
    axis = torch.linspace(low, high, points).double()
    grid = torch.cartesian_prod(axis, axis)
    counts = counts_of((1, 1, 0)).expand(len(grid), -1)
    with torch.no_grad():
        density = network.log_density(Batch(grid, CountedParts(counts)), None).exp()
    assert abs(float(density.sum() * (axis[1] - axis[0]) ** 2) - 1) < 1e-3


@pytest.mark.parametrize("whitened", [False, True])
def test_edits_that_change_nothing_give_x_back_and_removals_are_dense_conditioning(whitened: bool) -> None:
    network = random_transport(strength=0.3, whitened=whitened).float()
    model = Model(network)
    x = model.sample({"a": 3, "b": 1}, n=6, seed=1)
    posterior = model.infer(x, {"a": 3, "b": 1})
    spread = x.std()
    assert np.abs(posterior.decode() - x).max() < 1e-4 * spread
    assert np.abs(posterior.decode(n=3, seed=2) - x).max() < 2e-4 * spread
    assert np.abs(posterior.add({"c": 1}).remove({"c": 1}).decode() - x).max() < 1e-4 * spread
    # one of three alike goes: of their term two thirds stay in the mean; the rest of W as it was
    given_ = network.given(CountedParts(counts_of((3, 1, 0)).expand(6, -1)), None)
    deviation = network.deviations(torch.from_numpy(x), given_)
    base = network.base
    terms = base.posterior_mean(deviation, given_.counts, given_.context)
    after = network.given(CountedParts(counts_of((2, 1, 0)).expand(6, -1)), None)
    kept = terms.each * torch.tensor([2 / 3, 1.0, 0.0, 1.0])[:, None]
    expected = network.wholes(kept.sum(1) + base.of_z(after.counts, after.context, terms.z), after)
    np.testing.assert_allclose(posterior.remove({"a": 1}).decode(), expected.numpy(), atol=1e-5)


def test_rows_depend_on_nothing_beside_them_and_parts_have_no_order() -> None:
    model = Model(random_transport().float())
    many = model.sample({"a": 2, "c": 1}, n=300, seed=4)
    assert (model.sample([{"kind": "c"}, {"kind": "a", "count": 2}], n=10, seed=4) == many[:10]).all()
    elsewhere = model.infer(many[3:9], {"a": 2, "c": 1}).decode()[0]
    np.testing.assert_array_equal(model.infer(many[:40], {"c": 1, "a": 2}).decode()[3], elsewhere)
    alone = model.infer(many[3], {"a": 2, "c": 1}).decode()  # one whole is not put into a tile: other sums, last bits
    np.testing.assert_allclose(alone, elsewhere, rtol=0, atol=1e-5)


def test_a_million_parts_ask_for_as_many_numbers_as_ten() -> None:
    class Counting(Noise):
        asked = 0

        def normal(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            Counting.asked += math.prod(shape)
            return super().normal(name, *shape, dtype=dtype)

    asked = []
    for size in (10, 1_000_000):
        Counting.asked = 0
        random_transport().draw(CountedParts(counts_of((size, 0, 0))), None, Counting(0, 1))
        asked.append(Counting.asked)
    assert asked[0] == asked[1]


def test_limits_and_whole_numbers_hold_in_every_draw() -> None:
    bounded = Model(random_transport(lower=0.0, upper=1.5).float()).sample({"a": 3}, n=500)
    assert bounded.min() == 0.0
    assert bounded.max() == 1.5
    whole = Model(random_transport(integers=True, lower=0.0).float()).sample({"a": 3}, n=200)
    assert (whole == np.round(whole)).all()


# -- what data shows -------------------------------------------------------------------------------------------------


def wholes_of(kind: str, rows: int = 3000) -> Batch:
    """Sums of kinds with their own levels, seen as they are, through a limit, as products, as whole numbers."""
    noise = Noise(9, rows)
    counts = noise.integers("counts", 0, 2, KINDS).double() + counts_of((1, 0, 0))
    levels = torch.tensor([[0.2, 0.5, 0.3, 0.1], [0.6, 0.1, 0.2, 0.4], [0.1, 0.3, 0.6, 0.5]]).double()
    total = counts @ levels + 0.1 * counts.sum(1, keepdim=True).sqrt() * noise.normal("x", VALUES, dtype=torch.float64)
    shown = {
        "sum": total,
        "average": total / counts.sum(1, keepdim=True),
        "limit": 1 - torch.exp(-total.clamp(min=0)),
        "product": (2 * total).exp(),
        "whole": (5 * total).round().clamp(min=0),
    }[kind]
    return Batch(shown.float(), CountedParts(counts))


@pytest.mark.parametrize(
    ("kind", "link", "extensive"),
    [
        ("sum", "identity", True),
        ("average", "identity", False),
        ("limit", "saturation", True),
        ("product", "log", True),
        ("whole", "identity", True),
    ],
)
def test_the_structure_of_data_is_found(kind: str, link: str, extensive: bool) -> None:
    batch = wholes_of(kind)
    plain = TransportConfig(parts=SCHEMA, shape=(VALUES,))
    found = find_structure(plain, batch.rows(torch.arange(2000)), batch.rows(torch.arange(2000, 3000))).config
    assert (found.link, found.extensive, found.integers) == (link, extensive, kind == "whole")


@pytest.mark.parametrize(("thin", "on_limit"), [(False, False), (True, False), (False, True)])
def test_few_values_that_all_vary_on_their_own_are_whitened_unless_some_lie_on_a_limit(
    thin: bool, on_limit: bool
) -> None:
    batch = wholes_of("sum")
    x = batch.x.clone()
    x[:, 3] = x[:, :3].sum(1) if thin else x[:, 3]
    x = x.clamp(min=float(x.quantile(0.05))) if on_limit else x
    batch = Batch(x - x.mean(), batch.parts)
    plain = TransportConfig(parts=SCHEMA, shape=(VALUES,))
    found = find_structure(plain, batch.rows(torch.arange(2000)), batch.rows(torch.arange(2000, 3000))).config
    assert found.whitened == (not thin and not on_limit)


def test_kinds_that_were_never_below_zero_are_found_among_others_that_were() -> None:
    counts = counts_of(*[(1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (0, 1, 1)] * 40)
    x = normal(len(counts), VALUES).abs() - 5 * counts[:, 2:]  # c alone brings what is below 0
    assert nonnegative_kinds(x, counts) == (0, 1)
    assert nonnegative_kinds(x.abs(), counts) == ()  # a limit on all wholes says it already
    assert nonnegative_kinds(x - 5, counts) == ()
    mixed = counts[:, 2] + counts[:, 1] == 2  # nobody knows which of both it was
    assert nonnegative_kinds(
        torch.where(mixed[:, None], x, x.abs())[mixed | (counts[:, 0] > 0)], counts[mixed | (counts[:, 0] > 0)]
    ) == (0,)
    assert nonnegative_kinds(x[:60], counts[:60]) == ()  # too few to know


def test_wholes_of_kinds_that_are_never_below_zero_are_never_below_zero() -> None:
    parts = CountedParts(counts_of((5, 0, 0), (2, 1, 0), (1, 0, 4)).long().repeat_interleave(300, 0))
    plain = random_transport().draw(parts, None, Noise(3, 900))
    held = random_transport(nonnegative=(0, 1)).draw(parts, None, Noise(3, 900))
    assert all((plain[rows] < 0).any() for rows in (slice(300), slice(300, 600), slice(600, 900)))
    assert (held[:600] == plain[:600].clamp(min=0)).all()
    assert (held[600:] == plain[600:]).all()


@pytest.mark.parametrize(
    ("bend", "saturation", "link"),
    [
        (0.97, 1.0, "bend"),
        (0.99, 1.0, "identity"),
        (0.97, 0.95, "bend"),
        (0.99, 0.95, "identity"),
        (0.97, 0.9, "saturation"),
    ],
)
def test_a_bend_must_be_barely_and_an_upper_limit_clearly_better_than_none(
    bend: float, saturation: float, link: str
) -> None:
    scores: dict[LinkName, float] = {"identity": 1.0, "bend": bend, "saturation": saturation}
    ranked = sorted((Candidate(name, True, score, math.nan) for name, score in scores.items()), key=lambda c: c.total)
    assert best_of(ranked).link == link


def test_kinds_that_the_data_does_not_tell_apart_are_named() -> None:
    kinds = ["a", "b", "c"]
    counts = counts_of((1, 2, 2), (2, 0, 0), (0, 1, 1), (3, 1, 1))
    assert undetermined_kinds(kinds, counts, shared=False) == {
        "b": "it always comes together with c",
        "c": "it always comes together with b",
    }
    once = counts_of((2, 1, 0), (1, 0, 0), (0, 1, 0), (3, 0, 0))
    assert undetermined_kinds(kinds, once, shared=False) == {"b": "no whole has two of it", "c": "it does not occur"}
    assert undetermined_kinds(kinds, once, shared=True) == {"c": "it does not occur"}
    constant = counts_of((2, 0, 1), (0, 1, 2), (1, 2, 0))
    assert set(undetermined_kinds(kinds, constant, shared=False)) == set(kinds)


# -- files written until now ------------------------------------------------------------------------------------------


def test_a_model_saved_before_there_were_these_settings_does_what_it_did() -> None:
    """Of commit e4e86b4, a random network with a limit and a context; the numbers it gave then."""
    model = compvae.load(FIXTURES / "transport-2026-11-18")
    expected, parts = np.load(FIXTURES / "transport-2026-11-18.npz"), {"a": 2, "b": 1}
    found = model.sample(parts, n=6, seed=1)
    np.testing.assert_allclose(found, expected["unknown"], rtol=1e-4, atol=1e-4)
    warm = model.sample(parts, n=6, seed=1, context={"temperature": 20.0})
    np.testing.assert_allclose(warm, expected["known"], rtol=1e-4, atol=1e-4)
    edited = model.infer(expected["unknown"], parts).remove({"b": 1}).decode()
    np.testing.assert_allclose(edited, expected["edited"], rtol=1e-3, atol=1e-3)
