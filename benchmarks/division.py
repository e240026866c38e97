"""What decides the division of labour between w and z in the paper's form, and its stability: one change at a time.

    taskset -c 1 env OMP_NUM_THREADS=1 python benchmarks/division.py "z 32" --steps 6000 --seed 1 --out runs/division
    taskset -c 1 env OMP_NUM_THREADS=1 python benchmarks/division.py "rate 0.003" --problem colours --steps 3000
    python benchmarks/division.py --list

Each row trains the paper's form, narrowed (presets.py, ``paper-narrow``), with one change, and writes DIR/ROW.json:
bits in w and z of fresh wholes with their standard errors along training, the held-out bound, at the end relED and edit
ratios on compositions of a seed of their own, beside the command, seed, steps, processor and seconds.  Switches that
are in no recipe of the package are made here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from compvae import problems
from compvae.batch import Batch
from compvae.config import ModelConfig
from compvae.evaluation.observed import Observation
from compvae.evaluation.plan import Plan, compositions, derived, plan_for
from compvae.measures import bits, measured_edit_ratio, rel_ed
from compvae.measures.measured import mean_of
from compvae.model import Model
from compvae.network import CompVAE, seeded_network, structured
from compvae.noise import Noise
from compvae.objective import elbo
from compvae.posterior.base import Reader
from compvae.presets import structured_preset
from compvae.prior.network import NetworkPrior
from compvae.problems import Problem
from compvae.storage import Provenance
from compvae.train.schedule import largest_size, learning_rate, recipe_for

BASE = (("posterior.embedding_noise", 0.1),)  # what the rows depart from, beside the preset
POINTS = 24  # of each curve
WHOLES = 128  # behind each point
HELD_OUT = -1  # the fold of held-out wholes, as in training
JUDGED = 7_000  # the seed of compositions that rows are compared on; reports use another
SIZES = {"sines": (1, 2, 4, 8, 16, 30), "colours": (2, 4, 8, 16)}
EDITED = {"sines": (2, 4, 8), "colours": (3, 4, 8)}
LARGE = (100, 1000)  # K at which samples need only be finite
SPREAD_OVER = 1024  # parts
NARROW = -6.0  # log-variance that p(z | W) starts with, where it starts narrow

Weights = Callable[[float], tuple[float, float]]
"""Share of the steps done -> weights of KL_w and KL_z."""


def both(share: float) -> tuple[float, float]:
    """No warm-up."""
    return 1.0, 1.0


@dataclass(frozen=True)
class Row:
    """One change to the baseline.

    model: dotted names of the configuration -> values.  recipe: fields of the recipe -> values.
    weights: of the two KLs along training.  optimiser: of the parameters.  begin: changes the network before the first
    step.  composed: q(z | x) sees the composition too.  one_k: all wholes of a batch have the same K.
    """

    says: str
    model: tuple[tuple[str, Any], ...] = ()
    recipe: tuple[tuple[str, Any], ...] = ()
    weights: Weights = both
    optimiser: type[torch.optim.Adam | torch.optim.Adamax] = torch.optim.Adam
    begin: Callable[[CompVAE], None] | None = None
    composed: bool = False
    one_k: bool = False


def z_starts_at(log_variance: float) -> Callable[[CompVAE], None]:
    """p(z | W) = N(0, exp log_variance), whatever W, at the first step."""

    def begin(network: CompVAE) -> None:
        assert network.z_prior is not None
        last = [layer for layer in network.z_prior.modules() if isinstance(layer, nn.Linear)][-1]
        assert last.bias is not None
        with torch.no_grad():
            last.weight.zero_()
            last.bias.zero_()
            last.bias[len(last.bias) // 2 :] = log_variance

    return begin


@torch.no_grad()
def parts_start_apart(network: CompVAE) -> None:
    """The means of p(w | l) have mean 0 and variance 1 over random parts, coordinate by coordinate, at the first step.

    A table starts so (``PriorConfig.spread``); a network's means hardly depend on the part then.
    """
    prior = network.prior
    assert isinstance(prior, NetworkPrior)
    last = prior.network[-1]
    assert isinstance(last, nn.Linear)
    noise, width = Noise(0, 1), network.config.latent.w
    kind = noise.integers("kind", 0, network.config.parts.n_kinds - 1, SPREAD_OVER)[0]
    places = 2 * noise.uniform("place", SPREAD_OVER, network.config.parts.n_features)[0] - 1
    mean = prior.network(prior.embedding(kind, places))[:, :width]
    scale = 1 / mean.std(0)
    last.weight[:width] *= scale[:, None]
    last.bias[:width] = (last.bias[:width] - mean.mean(0)) * scale


ROWS = {
    "baseline": Row("the preset, with noise 0.1 on the embeddings"),
    "noise 0": Row("no noise on the embeddings", model=(("posterior.embedding_noise", 0.0),)),
    "noise 1": Row("noise 1 on the embeddings", model=(("posterior.embedding_noise", 1.0),)),
    "adamax": Row("Adamax in place of Adam", optimiser=torch.optim.Adamax),
    "z 32": Row("z of 32 coordinates", model=(("latent.z", 32),)),
    "z 32, w first": Row(
        "z 32; KL_z is weighed 4 at first, 1 from half of the steps on",
        model=(("latent.z", 32),),
        weights=lambda share: (1.0, max(1.0, 4.0 - 6.0 * share)),
    ),
    "kl together": Row(
        "both KLs rise from 0.02 to 1 over half of the steps", weights=lambda share: (_warm(share),) * 2
    ),
    "kl of w alone": Row("KL_w rises from 0.02 to 1 over half of the steps", weights=lambda share: (_warm(share), 1.0)),
    "kl dear": Row(
        "both KLs are weighed 20 at first, 1 from half of the steps on",
        weights=lambda share: (20.0 ** max(0.0, 1.0 - 2.0 * share),) * 2,
    ),
    "parts apart": Row("the means of p(w | l) start apart", begin=parts_start_apart),
    "z composed": Row("q(z | x, composition) in place of q(z | x)", composed=True),
    "floor 0.02": Row("floor of the observation 0.02 in place of 0.001", model=(("decoder.floor", 0.02),)),
    "p(z) narrow": Row("p(z | W) starts at N(0, 0.05^2)", begin=z_starts_at(NARROW)),
    "one K": Row("one K for each batch", one_k=True),
    "sum-controlled": Row("our family over the parts", model=(("posterior.family", "sum_controlled"),)),
    "rate 0.003": Row("rate 0.003", recipe=(("rate", 3e-3),)),
    "rate 0.002": Row("rate 0.002", recipe=(("rate", 2e-3),)),
    "rate 0.001": Row("rate 0.001", recipe=(("rate", 1e-3),)),
    "z 1": Row("z of 1 coordinate", model=(("latent.z", 1),)),
}


def _warm(share: float) -> float:
    return min(1.0, 0.02 + 0.98 * share / 0.5)


def changed(config: ModelConfig, changes: tuple[tuple[str, Any], ...]) -> ModelConfig:
    """The configuration with these fields at other values."""
    data = config.model_dump(mode="json")
    for name, value in changes:
        piece, field = name.split(".")
        data[piece][field] = value
    return ModelConfig.read(data)


@contextlib.contextmanager
def reading(composed: bool) -> Iterator[None]:
    """Inside, graph posteriors are built with a reader that sees the composition."""
    if not composed:
        yield
        return
    with patch("compvae.posterior.graph.Reader", lambda config, with_parts: Reader(config, True)):
        yield


class Training:
    """A row being trained."""

    def __init__(self, problem: str, row: Row, steps: int, seed: int) -> None:
        self.row, self.seed, self.problem = row, seed, problems.get(problem)
        config = changed(structured_preset(self.problem, "paper-narrow"), BASE + row.model)
        base = recipe_for(problem, "paper-narrow")
        self.recipe = base.model_copy(update={"steps": steps, **dict(row.recipe)})
        with reading(row.composed):
            self.network = structured(seeded_network(config, seed))
        if row.begin is not None:
            row.begin(self.network)
        self.optimiser = row.optimiser(self.network.parameters(), lr=self.recipe.rate, betas=self.recipe.betas)
        self.skipped = 0
        self.norms: list[float] = []  # of the gradient, since they were last told

    def step(self, step: int) -> None:
        """Climb the weighted bound once."""
        noise = Noise(self.seed, self.recipe.batch, step)
        size = largest_size(self.recipe, step, self.problem.max_parts)
        batch = one_size(self.problem, size, noise) if self.row.one_k else self.problem.draw(size, noise)
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.recipe, step)
        self.network.train()
        bound = elbo(self.network, batch, noise)
        w, z = self.row.weights(step / self.recipe.steps)
        self.optimiser.zero_grad()
        (w * bound.w + z * bound.z - bound.x).mean().backward()
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), self.recipe.clip)
        self.norms.append(float(norm))
        if torch.isfinite(norm):
            self.optimiser.step()
        else:
            self.skipped += 1

    @torch.no_grad()
    def seen(self, step: int) -> dict[str, float]:
        """Bits in fresh wholes of the whole training range, and the held-out bound."""
        self.network.eval()
        found = bits(self.network, self.problem, WHOLES, self.seed + JUDGED)
        noise = Noise(self.seed + JUDGED, WHOLES, HELD_OUT)
        bound = elbo(self.network, self.problem.draw(self.problem.max_parts, noise), noise)
        held = mean_of(bound.total.double().numpy())
        norms, self.norms = np.array(self.norms or [math.nan]), []
        return {
            "norm": float(np.median(norms)), "norm_max": float(norms.max()),
            "step": step, "w": found.w.value, "w_se": found.w.se, "z": found.z.value, "z_se": found.z.se,
            "held_out": held.value, "held_out_se": held.se, "x": float(bound.x.mean()),
        }  # fmt: skip


def one_size(problem: Problem, most: int, noise: Noise) -> Batch:
    """A batch whose wholes all have one K, uniform on 1..most."""
    size = int(noise.common().integers("sizes", 1, most)[0])
    sizes = torch.full((len(noise),), size)
    parts = problem.draw_parts(sizes, noise)
    return Batch(problem.combine(parts, problem.draw_specifics(parts, noise)), parts.counted())


def judged(network: CompVAE, problem: Problem, n: int, sets: int) -> dict[str, dict[str, float]]:
    """relED and edit ratios, means over compositions with standard errors."""
    model = Model(network.eval(), Provenance(problem.name))
    plan = plan_for(problem, n=n, compositions=sets, sizes=SIZES[problem.name])
    found: dict[str, dict[str, float]] = {"relED": {}, "relED_se": {}, "edit": {}, "edit_se": {}, "not_finite": {}}
    for size in LARGE:
        x = np.concatenate(
            [model.sample(parts.dicts(), n, derived(JUDGED, 4, size)) for parts in _of(problem, size, plan)]
        )
        found["not_finite"][str(size)] = float(1 - np.isfinite(x).mean())
    for size in SIZES[problem.name]:
        values = [relative(model, problem, parts.dicts(), n, i) for i, parts in enumerate(_of(problem, size, plan))]
        _put(found, "relED", size, values)
    for size in EDITED[problem.name]:
        values = [
            removal(model, problem, parts, plan, i) for i, parts in enumerate(_of(problem, size, plan, single=True))
        ]
        _put(found, "edit", size, values)
    return found


def _of(problem: Problem, size: int, plan: Plan, single: bool = False) -> list[Any]:
    return list(compositions(problem, size, plan, JUDGED, single))


def _put(found: dict[str, dict[str, float]], name: str, size: int, values: list[float]) -> None:
    """The mean with its standard error; undefined cases are left out, relED that is not finite is not."""
    kept = [value for value in values if name == "relED" or not math.isnan(value)]
    found[name][str(size)] = float(np.mean(kept))
    found[f"{name}_se"][str(size)] = float(np.std(kept, ddof=1) / math.sqrt(len(kept)))


def relative(model: Model, problem: Problem, parts: Any, n: int, index: int) -> float:
    """relED of one composition; NaN where a sample is not finite."""
    x = model.sample(parts, n, derived(JUDGED, 1, len(parts), index))
    if not np.isfinite(x).all():
        return math.nan
    return rel_ed(problem.truth(parts, n, derived(JUDGED, 2, len(parts), index)), x).value


def removal(model: Model, problem: Problem, parts: Any, plan: Plan, index: int) -> float:
    """Error of a removal over that of forgetting the whole; NaN where what is left has one colour, all of it known."""
    seed = derived(JUDGED, 3, parts.size, index)
    seen = Observation(problem, parts, plan.wholes, seed)
    edited = model.infer(seen.x, seen.parts).remove([seen.parts[seen.chosen]]).decode()
    resampled = problem.truth(seen.rest(), plan.wholes, derived(seed, 2))
    exact = seen.without()
    return math.nan if np.array_equal(resampled, exact) else measured_edit_ratio(edited, exact, resampled).value


def run(problem: str, name: str, steps: int, seed: int, out: Path, n: int, sets: int) -> None:
    """Train one row, writing what is known so far at every point."""
    training, started = Training(problem, ROWS[name], steps, seed), time.perf_counter()
    place = out / f"{problem} {name} seed {seed}"
    path = place.with_name(f"{place.name}.json")
    out.mkdir(parents=True, exist_ok=True)
    every = max(1, steps // POINTS)
    document = {**about(problem, name, steps, seed), "curve": [training.seen(0)]}
    for step in range(steps):
        training.step(step)
        if (step + 1) % every == 0 or step + 1 == steps:
            document["curve"].append(training.seen(step + 1))
            document["seconds"] = round(time.perf_counter() - started, 1)
            document["skipped"] = training.skipped
            path.write_text(json.dumps(document, indent=1) + "\n")
            print(name, json.dumps(document["curve"][-1]), flush=True)
    if not ROWS[name].composed:  # no configuration says so
        provenance = Provenance(problem, {}, {"row": name, "steps": str(steps), "seed": str(seed)})
        Model(training.network.eval(), provenance).save(place)
    document.update(judged(training.network, training.problem, n, sets))
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(
        name,
        json.dumps({key: document[key] for key in ("seconds", "skipped", "relED", "edit", "not_finite")}),
        flush=True,
    )


def about(problem: str, name: str, steps: int, seed: int) -> dict[str, Any]:
    """Where the numbers come from."""
    return {
        "problem": problem, "row": name, "says": ROWS[name].says, "seed": seed, "steps": steps,
        "command": "python benchmarks/division.py " + shlex.join(sys.argv[1:]),
        "processor": processor(), "threads": torch.get_num_threads(), "torch": torch.__version__,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }  # fmt: skip


def commit() -> str:
    """The commit this file stands at."""
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def processor() -> str:
    """Name, family and model of this processor, as /proc/cpuinfo says."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    told = dict(line.split(":", 1) for line in lines if ":" in line)
    said = {key.strip(): value.strip() for key, value in told.items()}
    return f"{said.get('model name', '?')}, family {said.get('cpu family', '?')} model {said.get('model', '?')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=sorted(ROWS), nargs="?")
    parser.add_argument("--problem", choices=sorted(SIZES), default="sines")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-n", type=int, default=400, help="samples of each composition")
    parser.add_argument("--sets", type=int, default=6, help="compositions of each K")
    parser.add_argument("--out", type=Path, default=Path("runs/division"))
    parser.add_argument("--list", action="store_true", help="print the rows")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.list or args.row is None:
        print("\n".join(f"{name}: {row.says}" for name, row in ROWS.items()))
        return
    run(args.problem, args.row, args.steps, args.seed, args.out, args.n, args.sets)


if __name__ == "__main__":
    main()
