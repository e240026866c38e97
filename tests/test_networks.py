"""Blocks and trunks against direct evaluations of their formulas."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from compvae.errors import ConfigError
from compvae.nn.graph import GraphBlock, sum_of_others
from compvae.nn.residual import Residual, residual_stack
from compvae.nn.trunks import CurveIn, CurveOut, ImageIn, ImageOut

pytestmark = pytest.mark.usefixtures("double")


def test_residual_is_the_identity_plus_two_layers() -> None:
    block, h = Residual(5), torch.randn(4, 5)
    inner = h @ block.inner.weight.T + block.inner.bias
    expected = h + F.elu(inner) @ block.outer.weight.T + block.outer.bias
    torch.testing.assert_close(block(h), expected)


def test_the_sum_of_others_equals_a_double_loop() -> None:
    owner = torch.tensor([0, 2, 2, 0, 2, 1])
    value = torch.randn(6, 3)
    expected = torch.stack(
        [sum((value[j] for j in range(6) if j != i and owner[j] == owner[i]), torch.zeros(3)) for i in range(6)]
    )
    torch.testing.assert_close(sum_of_others(value, owner, 3), expected)


def test_a_graph_block_computes_each_part_from_itself_and_the_others_of_its_whole() -> None:
    block, owner, h = GraphBlock(3, 4), torch.tensor([0, 0, 0, 1, 1]), torch.randn(5, 3)
    out = block(h, owner, 2)
    for i in range(5):
        others = sum((block.message(h[j]) for j in range(5) if j != i and owner[j] == owner[i]), torch.zeros(3))
        joined = torch.cat([block.received(torch.tanh(others)), h[i]])
        torch.testing.assert_close(out[i], block.out(F.elu(block.join(joined))))


def test_doing_what_a_whole_shares_once_changes_nothing() -> None:
    block, owner = GraphBlock(5, 4), torch.tensor([0, 0, 0, 1, 1])
    whole, part = torch.randn(2, 3), torch.randn(5, 2)
    plain = block(torch.cat([whole[owner], part], -1), owner, 2)
    torch.testing.assert_close(block.first(whole, part, owner), plain)


def test_a_graph_block_has_no_tensor_that_grows_with_the_square_of_the_parts() -> None:
    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        numbers = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                self.numbers = max(self.numbers, out.numel())
            return out

    block, sizes = GraphBlock(3, 4), []
    for parts in (100, 1000):
        with Largest() as seen:
            block(torch.randn(parts, 3), torch.zeros(parts, dtype=torch.int64), 1)
        sizes.append(seen.numbers)
    assert sizes[1] == 10 * sizes[0]


@pytest.mark.parametrize("channels", [16, 32])
def test_trunks_have_the_papers_lengths_at_every_width(channels: int) -> None:
    assert CurveIn(channels)(torch.randn(2, 200)).shape == (2, 5 * channels)
    mean, log_variance = CurveOut(channels)(torch.randn(2, 5 * channels))
    assert mean.shape == log_variance.shape == (2, 200)
    assert ImageIn(channels)(torch.randn(2, 3, 32, 32)).shape == (2, 8 * channels)
    mean, log_variance = ImageOut(channels)(torch.randn(2, 16 * channels))
    assert mean.shape == (2, 3, 32, 32)
    assert log_variance.shape == (2, 1, 32, 32)


def test_a_stack_without_stem_needs_the_right_width() -> None:
    assert residual_stack(4, 4, 1, 2, stem=False)(torch.randn(3, 4)).shape == (3, 2)
    with pytest.raises(ConfigError, match="without stem"):
        residual_stack(5, 4, 1, 2, stem=False)
