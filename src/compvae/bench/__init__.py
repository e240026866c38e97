"""Benchmarks by section; every timing is a ratio to something run in turn with it, in the same process and minute."""

from __future__ import annotations

from collections.abc import Callable

from compvae.bench.inference import inference
from compvae.bench.rows import Row, Scope, about, document, table
from compvae.bench.sampling import sampling
from compvae.bench.startup import startup
from compvae.bench.training import data, paper, posteriors, processes, sizes, training, widths
from compvae.errors import ConfigError

__all__ = ["DEFAULT", "SECTIONS", "Row", "Scope", "about", "chosen", "document", "measure", "table"]

SECTIONS: dict[str, Callable[[Scope], list[Row]]] = {
    "training": training,
    "sampling": sampling,
    "inference": inference,
    "startup": startup,
    "paper": paper,
    "sizes": sizes,
    "posteriors": posteriors,
    "widths": widths,
    "data": data,
    "processes": processes,
}
DEFAULT = "training,sampling,inference,startup"


def chosen(text: str) -> list[str]:
    """Sections by their names, separated by commas."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in SECTIONS:
            raise ConfigError(f"section {name!r} is unknown, the sections are {', '.join(SECTIONS)}")
    if not names:
        raise ConfigError(f"name a section to measure: {', '.join(SECTIONS)}")
    return names


def measure(names: list[str], scope: Scope) -> list[Row]:
    """The rows of these sections, on one thread."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [row for name in names for row in SECTIONS[name](scope)]
    finally:
        torch.set_num_threads(before)
