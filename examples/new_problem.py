"""A problem of your own: chords.  x = sum_i a_i sum_h h^(-b_i) bump(f - f_i - 12 log2 h), the spectrum of K notes.

A part is a note (C to B); hidden in each are its loudness a_i and its dullness b_i.  python examples/new_problem.py
"""

import math
import sys

import torch
from torch import Tensor

import compvae
from compvae.batch import PaddedParts
from compvae.noise import Noise

NOTES = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}  # semitones above C
HARMONICS = torch.arange(1.0, 6.0)
SEMITONES = torch.arange(-2.0, 42.0)


@compvae.problems.register
class Chords(compvae.problems.Problem):
    name, summary = "chords", "spectra of notes that sound together"
    specific_names = ("loudness", "dullness")
    extensive = True  # x grows with the number of notes
    max_parts = 6  # trained on one to six notes
    schema = compvae.PartsSchema(attributes=(compvae.Categorical(name="note", categories=tuple(NOTES)),))
    shape = (len(SEMITONES),)

    def draw_specifics(self, parts: PaddedParts, noise: Noise) -> Tensor:  # (B, K, 2)
        return torch.tensor([1.0, 1.0]) + torch.tensor([0.25, 0.2]) * noise.normal(
            "specifics", *parts.mask.shape[1:], 2
        )

    def combine(self, parts: PaddedParts, specifics: Tensor, factors: Tensor | None = None) -> Tensor:  # (B, 44)
        pitch = torch.tensor([float(n) for n in NOTES.values()])[parts.kind]
        height = (specifics[..., :1] * HARMONICS ** -specifics[..., 1:]) * parts.mask[..., None]  # (B, K, 5)
        peak = pitch[..., None] + 12 * HARMONICS.log2()
        return (height[..., None] * torch.exp(-((SEMITONES - peak[..., None]) ** 2))).sum((1, 2))


def main(out: str = "runs/chords", steps: int | None = None) -> tuple[float, float]:  # None: three minutes
    """relED of a chord's samples, and the RMS error of taking a note out of an observed chord, over forgetting it."""
    run = compvae.fit("chords", out=out, steps=steps, watch=0)  # tries what suits, trains the best, judges it
    print(run.verdict)
    model = run.model
    chords, chord = compvae.problems.get("chords"), {"C": 1, "E": 1, "G": 1}
    distance = compvae.measures.rel_ed(chords.truth(chord, 1000, seed=1), model.sample(chord, 1000, seed=2)).value
    hidden = chords.specifics(chord, 100, seed=3)  # of the notes in the order given
    exact = chords.whole({"C": 1, "G": 1}, hidden[:, [0, 2]])
    edited = model.infer(chords.whole(chord, hidden), chord).remove({"E": 1}).decode()
    ratio = math.sqrt(((edited - exact) ** 2).mean() / ((exact - exact.mean(0)) ** 2).mean())
    print(f"relED of C-E-G: {distance:.4f} (0 is equal); E taken out: error {ratio:.3f} of the spread of C-G")
    return distance, ratio


if __name__ == "__main__":
    main(*sys.argv[1:2])
