"""Numbers that judge samples and edits (theory, section 6), each tested on known answers before it judges a model."""

from compvae.measures.classifier import C2ST, c2st
from compvae.measures.curves import Phasors, ks_amplitude, ks_phase, recover_phasors
from compvae.measures.edits import edit_ratio, measured_edit_ratio
from compvae.measures.energy import (
    RelED,
    distances_among,
    energy_score,
    rel_ed,
    rel_ed_floor,
    rel_ed_splits,
    shadows,
    sliced_wasserstein,
    wasserstein_of_shadows,
)
from compvae.measures.fitting import off_manifold
from compvae.measures.images import Sharpness, glitch_fraction, recover_sharpness
from compvae.measures.information import Bits, bits
from compvae.measures.ks import ks_distance, ks_uniform
from compvae.measures.measured import Measured, floor_of, mean_of, paired
from compvae.measures.moments import MomentErrors, measured_period_violation, moment_errors, period_violation, rmse
from compvae.measures.recovery import Recovery, specifics_error
from compvae.measures.tails import Exceedance, coverage, exceedance, pit

__all__ = [
    "C2ST",
    "Bits",
    "Exceedance",
    "Measured",
    "MomentErrors",
    "Phasors",
    "Recovery",
    "RelED",
    "Sharpness",
    "bits",
    "c2st",
    "coverage",
    "distances_among",
    "edit_ratio",
    "energy_score",
    "exceedance",
    "floor_of",
    "glitch_fraction",
    "ks_amplitude",
    "ks_distance",
    "ks_phase",
    "ks_uniform",
    "mean_of",
    "measured_edit_ratio",
    "measured_period_violation",
    "moment_errors",
    "off_manifold",
    "paired",
    "period_violation",
    "pit",
    "recover_phasors",
    "recover_sharpness",
    "rel_ed",
    "rel_ed_floor",
    "rel_ed_splits",
    "rmse",
    "shadows",
    "sliced_wasserstein",
    "specifics_error",
    "wasserstein_of_shadows",
]
