"""The households: homes of eight profiles on one feeder, which share the day.  See docs/households.md."""

from compvae.problems.households.feeder import Households

__all__ = ["Households"]
