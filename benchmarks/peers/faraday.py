"""Train Faraday (opensynth-energy) on single homes and draw from it.  Run with the Python of its own environment.

.peers/faraday/bin/python benchmarks/peers/faraday.py runs/singles.npz --out runs/faraday.npz --minutes 10

Its VAE and its loss as they come, with its default settings, on standardised days and the profile as label; then a
Gaussian mixture over (code, label), drawn from and decoded.  The loop is ours: theirs reads files of its own form.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch


def parts_of_faraday() -> tuple[Any, Any]:
    """Its VAE and its loss, wherever this release keeps them."""
    from opensynth.models.faraday.losses import calculate_training_loss  # type: ignore[import-not-found]

    try:
        from opensynth.models.faraday.vae_model import FaradayVAE  # type: ignore[import-not-found]
    except ImportError:
        from opensynth.models.faraday.model import FaradayVAE  # type: ignore[import-not-found]
    return FaradayVAE, calculate_training_loss


def train(x: torch.Tensor, label: torch.Tensor, minutes: float, batch: int) -> Any:
    """The VAE after so many minutes of processor time.  x: (n, T), standardised.  label: (n, 1)."""
    vae_class, loss_of = parts_of_faraday()
    vae = vae_class(class_dim=1, input_dim=x.shape[1])
    optimiser = torch.optim.Adam(vae.parameters(), lr=vae.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=vae.tmax, eta_min=vae.learning_rate / 5)
    start, epoch = time.process_time(), 0
    while time.process_time() - start < 60 * minutes:
        for rows in torch.randperm(len(x)).split(batch):
            some = {"kwh": x[rows], "features": {"profile": label[rows]}}
            total, *_ = loss_of(
                x_hat=vae(some), x=some["kwh"], lower_quantile=vae.lower_quantile, upper_quantile=vae.upper_quantile,
                mse_weight=vae.mse_weight, quantile_upper_weight=vae.quantile_upper_weight,
                quantile_lower_weight=vae.quantile_lower_weight, quantile_median_weight=vae.quantile_median_weight,
            )  # fmt: skip
            optimiser.zero_grad()
            total.backward()
            optimiser.step()
        schedule.step()
        epoch += 1
    print(f"{epoch} epochs, last loss {float(total):.4f}")
    return vae.eval()


@torch.no_grad()
def mixture_of(vae: Any, x: torch.Tensor, label: torch.Tensor, components: int, seed: int) -> Any:
    """A mixture over codes and labels.  x: (n, T), standardised.  label: (n, 1)."""
    from sklearn.mixture import GaussianMixture  # type: ignore[import-untyped]

    code = vae.encode(torch.cat([x, label], 1))
    mixture = GaussianMixture(components, covariance_type="full", random_state=seed, reg_covar=1e-5)
    return mixture.fit(torch.cat([code, label], 1).numpy().astype(np.float64))


@torch.no_grad()
def draw(vae: Any, mixture: Any, labels: int, n: int) -> tuple[Any, Any]:
    """At most n draws, standardised, with their labels: those whose label is one of 0..labels - 1."""
    drawn = torch.from_numpy(mixture.sample(n)[0]).float()
    kind = drawn[:, -1:].round()
    allowed = (kind[:, 0] >= 0) & (kind[:, 0] < labels)
    drawn, kind = drawn[allowed], kind[allowed]
    return vae.decode(torch.cat([drawn[:, :-1], kind], 1)).numpy(), kind[:, 0].long().numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("singles", help="what benchmarks/peers/export.py wrote")
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=10.0, help="of processor time")
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--components", type=int, default=50)
    parser.add_argument("-n", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    with np.load(args.singles, allow_pickle=False) as file:
        kw, profile = file["x"].astype(np.float32), file["profile"]
    names, label = np.unique(profile, return_inverse=True)
    mean, spread = float(kw.mean()), float(kw.std())
    x, kinds = torch.from_numpy((kw - mean) / spread), torch.from_numpy(label)[:, None].float()
    vae = train(x, kinds, args.minutes, args.batch)
    drawn, kind = draw(vae, mixture_of(vae, x, kinds, args.components, args.seed), len(names), args.n)
    np.savez(args.out, x=(drawn * spread + mean).astype(np.float32), profile=names[kind])
    print(f"{len(drawn):,} draws of {len(names)} profiles are in {args.out}")


if __name__ == "__main__":
    main()
