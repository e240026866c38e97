"""What was done to a composition: {l_i} as observed, then parts taken away and put in, step by step.

Symbolic: no latents here.  Parts that came together (the observed ones, those of one ``add``) stay together in a group,
because given the sum of a group's w_i the model knows how any sub-sum is distributed (theory, section 4, the bridge).
"""

from __future__ import annotations

from dataclasses import dataclass

from compvae.errors import PartsError
from compvae.parts import Multiset, Part, PartsSchema

__all__ = ["History"]

Run = tuple[Part, int, int, Part]
"""(part, how many, number of the step that brought them, 0 where they were observed, the part as it came then)."""

Stages = tuple[tuple[int, Multiset], ...]
"""(number of the step, what was left after it), from the step that brought the parts on."""


@dataclass(frozen=True)
class History:
    """The parts of one whole, now and after every step.

    runs: as they stand now, in the caller's order.
    groups: for every step that brought parts (0: the observation), what was left of them after it and after each later
    step that took some away, in canonical order.
    """

    schema: PartsSchema
    runs: tuple[Run, ...]
    groups: dict[int, Stages]

    @classmethod
    def observed(cls, parts: Multiset) -> History:
        """The beginning."""
        return cls(parts.schema, (), {}).add(parts, 0)

    @property
    def now(self) -> Multiset:
        """The parts as they stand, in the caller's order."""
        return Multiset(self.schema, tuple((part, count) for part, count, _, _ in self.runs))

    def of_step(self, step: int) -> Multiset:
        """What is left of the parts that this step brought, in the caller's order; 0: of the observed ones."""
        return Multiset(self.schema, tuple((part, count) for part, count, origin, _ in self.runs if origin == step))

    def add(self, parts: Multiset, step: int) -> History:
        """Put parts in, behind the others."""
        runs = (*self.runs, *((part, count, step, part) for part, count in parts.runs))
        return History(self.schema, runs, {**self.groups, step: ((step, parts.canonical()),)})

    def remove(self, parts: Multiset, step: int, where: str) -> History:
        """Take parts away; those that came last go first, so that adding and removing again leads back."""
        left = self._without(parts, step, where)
        if not left.runs:
            raise PartsError(f"{where}: this would remove every part; a whole needs at least one")
        return left

    def replace(self, parts: Multiset, by: Multiset, step: int, where: str) -> History:
        """Put others in the place of parts, all of them perhaps."""
        return self._without(parts, step, where).add(by, step)

    def move(self, parts: Multiset, to: Multiset, where: str) -> History:
        """Give parts other attributes, the first of ``parts`` those of the first of ``to``; those that came last go."""
        old, new = parts.listed(), to.listed()
        if len(old) != len(new):
            raise PartsError(f"{where}: {len(old)} parts cannot move to {len(new)} places; give one for each")
        runs = list(self.runs)
        for before, after in zip(old, new, strict=True):
            if before.kind != after.kind:
                names = self.schema.describe(before), self.schema.describe(after)
                raise PartsError(f"{where}: {names[0]} cannot become {names[1]}, which is of another kind; use replace")
            found = [index for index, run in enumerate(runs) if run[0] == before]
            if not found:
                raise PartsError(f"{where}: cannot move {self.schema.describe(before)}, there is none left")
            at = found[-1]
            part, count, origin, came = runs[at]
            runs[at : at + 1] = [(part, count - 1, origin, came)] * (count > 1) + [(after, 1, origin, came)]
        return History(self.schema, tuple(runs), self.groups)

    def places_of(self, step: int) -> list[Part | None]:
        """What became of each part that this step brought, in canonical order; None where it went.

        Of alike ones the last went.
        """
        left: dict[Part, list[Part]] = {}
        for part, count, origin, came in self.runs:
            if origin == step:
                left.setdefault(came, []).extend([part] * count)
        found: list[Part | None] = []
        for came, count in self.groups[step][0][1].runs:
            there = left.get(came, [])
            found += [*there, *[None] * (count - len(there))]
        return found

    def only(self, index: int, step: int) -> History:
        """The part at this place of the listing, alone."""
        for part, count, origin, came in self.runs:
            if index < count:
                return self._left([(part, 1, origin, came)], step)
            index -= count
        raise AssertionError("the caller checks the index")

    def _without(self, parts: Multiset, step: int, where: str) -> History:
        left = list(self.runs)
        for part, count in parts.canonical().runs:
            missing = count
            for index in reversed(range(len(left))):
                if missing and left[index][0] == part:
                    taken = min(missing, left[index][1])
                    left[index] = (part, left[index][1] - taken, *left[index][2:])
                    missing -= taken
            if missing:
                there = f"there are {count - missing}" if missing < count else "there is none"
                raise PartsError(f"{where}: cannot take away {count} of {self.schema.describe(part)}, {there}")
        return self._left([run for run in left if run[1]], step)

    def _left(self, runs: list[Run], step: int) -> History:
        groups = {}
        for origin, stages in self.groups.items():
            own = tuple((came, count) for _, count, from_, came in runs if from_ == origin)
            kept = Multiset(self.schema, own).canonical()
            groups[origin] = stages if kept == stages[-1][1] else (*stages, (step, kept))
        return History(self.schema, tuple(runs), groups)
