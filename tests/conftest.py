"""Fixtures shared by all tests: one thread, a fixed global seed (torch's own layers draw from the global generator).

COMPVAE_TEST_THREADS=2 gives torch two threads in the tests of one process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import HealthCheck, settings

from compvae.train.runs import train_run
from runs import TINY

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# no check of wall-clock time: what is slow on a busy machine is not wrong
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

THREADS = int(os.environ.get("COMPVAE_TEST_THREADS", "1"))

# files of tests that compare numbers with a formula, a second computation or a distribution; they are marked
# `mathematics` and run under other instruction sets too (CONTRIBUTING.md, "Other processors")
MATHEMATICS = {
    "test_batch.py",
    "test_calibration.py",
    "test_composition.py",
    "test_context.py",
    "test_distributions.py",
    "test_held_noise.py",
    "test_households.py",
    "test_households_batches.py",
    "test_information.py",
    "test_live.py",
    "test_measures.py",
    "test_measures_samples.py",
    "test_measures_tails.py",
    "test_network.py",
    "test_networks.py",
    "test_newton.py",
    "test_noise.py",
    "test_objective.py",
    "test_problems.py",
    "test_recovered.py",
    "test_second_climb.py",
    "test_tails.py",
    "test_tails_models.py",
    "test_textbook.py",
    "test_transport.py",
    "test_transport_covariates.py",
    "test_transport_places.py",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the mathematical tests."""
    for item in items:
        if item.path.name in MATHEMATICS:
            item.add_marker(pytest.mark.mathematics)


@pytest.fixture(autouse=True)
def _reproducible() -> Iterator[None]:
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def double() -> Iterator[None]:
    """float64 by default, for comparisons to 1e-6 and better."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


CHROMIUM = "/usr/bin/chromium"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A real browser; where COMPVAE_REQUIRE_BROWSER is set, a missing one is a failure."""
    if not os.environ.get("COMPVAE_REQUIRE_BROWSER"):
        pytest.importorskip("playwright")
        if not Path(CHROMIUM).exists():
            pytest.skip(f"{CHROMIUM} is not here")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an uninterrupted tiny run."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    torch.set_num_threads(1)
    train_run(TINY, out)
    return out
