"""A missing extra is one sentence that names it."""

import sys

import numpy as np
import pytest

from compvae.errors import CompVAEError, MissingExtraError
from compvae.extras import need
from compvae.measures import c2st
from compvae.train.observers import CurvesFigure, TensorBoard


def test_what_is_installed_is_imported():
    assert need("math", "eval").pi == pytest.approx(np.pi)


def test_what_is_missing_is_named_with_its_extra():
    with pytest.raises(MissingExtraError, match=r"'no_such_package'.*pip install 'compvae\[eval\]'") as caught:
        need("no_such_package.inner", "eval")
    assert isinstance(caught.value, CompVAEError)


def test_measures_and_observers_say_which_extra_they_need(monkeypatch, tmp_path):
    for module in ("sklearn", "sklearn.model_selection", "matplotlib", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, module, None)  # how Python marks a module that cannot be imported
    with pytest.raises(MissingExtraError, match=r"compvae\[eval\]"):
        c2st(np.zeros((10, 1)), np.ones((10, 1)))
    with pytest.raises(MissingExtraError, match=r"compvae\[report\]"):
        CurvesFigure(tmp_path / "metrics.jsonl", tmp_path / "curves.svg")
    with pytest.raises(MissingExtraError, match=r"compvae\[track\]"):
        TensorBoard(tmp_path, 1)
