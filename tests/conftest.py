"""Fixtures shared by all tests: one thread, a fixed global seed (torch's own layers draw from the global generator)."""

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
