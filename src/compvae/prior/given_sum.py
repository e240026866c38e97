"""p(z | W, context), z below the parts: a network of the sum  (paper, section 3.1)."""

from __future__ import annotations

from torch import Tensor, nn

from compvae.config import ZNetworkConfig
from compvae.distributions import Normal
from compvae.nn.residual import residual_stack

__all__ = ["ZPrior"]


class ZPrior(nn.Module):
    """p(z | W, context), below the parts.  inputs: length of the vector it reads."""

    def __init__(self, inputs: int, z: int, network: ZNetworkConfig, floor: float) -> None:
        super().__init__()
        self.z, self.floor = z, floor
        self.network = residual_stack(inputs, network.width, network.blocks, 2 * z, network.stem)

    def forward(self, given: Tensor) -> Normal:
        """given: (B, inputs) -> normal over (B, Z)."""
        mean, log_variance = self.network(given).chunk(2, -1)
        return Normal.floored(mean, log_variance, self.floor)
