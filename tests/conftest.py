"""Fixtures shared by all tests: one thread, a fixed global seed (torch's own layers draw from the global generator)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _reproducible() -> Iterator[None]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def double() -> Iterator[None]:
    """float64 by default, for comparisons to 1e-6 and better."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
