"""What requests and answers hold.  Strict: no text for a number, no NaN, nothing unknown; what came is never echoed."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from compvae.composing.walks import MAX_KEYS

__all__ = [
    "EditIn", "EditOut", "EditStep", "Encoding", "ErrorOut", "InferIn", "InferOut", "ModelOut", "ModelsOut", "PartsIn",
    "SampleIn", "SampleOut", "TailIn", "TailOut", "TruthIn",
]  # fmt: skip

MAX_SEED = 2**53 - 1  # what JavaScript counts exactly
MAX_RUNS = 1000

Name = Annotated[str, Field(min_length=1, max_length=60)]
Number = Annotated[float, Field(allow_inf_nan=False)]
AsWhole = BeforeValidator(lambda value: _whole(value))  # behind the limits of a number: before them, it hides them
Count = Annotated[int, Field(ge=0, le=10**9), AsWhole]
Rows = Annotated[int, Field(ge=1, le=10**6), AsWhole]
PartIn = Annotated[dict[Name, str | int | Number], Field(max_length=10)]
PartsIn = Annotated[
    dict[Name, Count] | list[PartIn],
    Field(
        description="One composition: name -> count, or a list of dicts, one a part (or with its count).",
        examples=[{"3": 2, "7": 1}],
        max_length=MAX_RUNS,
    ),
]
ContextIn = Annotated[dict[Name, str | int | Number | None], Field(max_length=10)]
Wholes = list[Number] | list[list[Number]] | list[list[list[Number]]]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED, description="Decides everything random."), AsWhole]
Encoding = Literal["list", "base64", "npz", "csv"]
Event = Literal["peak", "energy", "ramp"]


def _whole(value: object) -> object:
    """JSON knows one kind of number: 3.0 is 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class _In(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, str_max_length=60)


class _Asked(_In):
    model: Name = Field(description="A served model, as /api/models names it.", examples=["sines"])
    parts: PartsIn
    context: ContextIn | None = Field(None, description="Covariates of the whole; what is absent or null is unknown.")
    seed: Seed = 0
    encoding: Encoding = Field(
        "list", description="Arrays as nested lists, as base64 of little-endian float32, or the answer as a file."
    )


class SampleIn(_Asked):
    """n wholes ~ p(x | parts)."""

    n: Rows = 32
    noise: bool = Field(True, description="With the observation noise.")
    by_part: bool = Field(False, description="Latents belong to parts: with one seed, what is not changed stays.")
    keys: list[Annotated[int, Field(ge=0, lt=MAX_KEYS), AsWhole]] | None = Field(
        None, max_length=MAX_RUNS, description="Identities of the parts, in their order; with by_part."
    )

    @model_validator(mode="after")
    def _keys_by_part(self) -> Self:
        if self.keys is not None and not self.by_part:
            raise ValueError("keys need by_part")
        return self


class TruthIn(_Asked):
    """n exact wholes, where the true process is known."""

    n: Rows = 1


class InferIn(_Asked):
    """The parts of one observed whole: x itself, or the exact whole of these parts with the seed ``drawn``."""

    x: Wholes | None = Field(None, description="The whole, in the shape of the model.")
    drawn: Seed | None = Field(None, description="Seed of an exact whole, in place of x.")

    @model_validator(mode="after")
    def _one_whole(self) -> Self:
        if (self.x is None) == (self.drawn is None):
            raise ValueError("give the whole as x, or the seed of an exact one as drawn, one of them")
        return self


class EditStep(_In):
    """Parts that go, parts that come, or others in the place of some."""

    remove: PartsIn | None = None
    add: PartsIn | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.remove is None and self.add is None:
            raise ValueError("a step needs remove, add or both")
        return self


class EditIn(InferIn):
    """Take parts of one observed whole away, put others in, step by step."""

    edits: list[EditStep] = Field(default_factory=list, max_length=MAX_RUNS)
    n: Annotated[int, Field(ge=0, le=10**6), AsWhole] = Field(
        0, description="Draws of the edited whole, beside its mean."
    )
    noise: bool = Field(False, description="Draws with the observation noise.")


class TailIn(_Asked):
    """n wholes ~ p(x | parts, event(x) >= t), with the probability of it."""

    event: Event = "peak"
    quantile: float = Field(0.99, gt=0, lt=1)
    n: Rows = 32
    noise: bool = True
    method: Literal["auto", "rejection", "subset", "importance"] = "auto"


class _Out(BaseModel):
    model_config = ConfigDict(extra="forbid")


class EncodedArray(_Out):
    """base64: little-endian float32, row by row."""

    shape: list[int]
    base64: str


Array = EncodedArray | list[Any]


class ErrorOut(_Out):
    """What was wrong, in one sentence."""

    error: str


class _Answer(_Out):
    model: str
    parts: list[dict[str, Any]] = Field(description="Runs of alike parts, each with its count.")
    seed: int


class SampleOut(_Answer):
    """x: (n, *shape)."""

    x: Array
    milliseconds: float = Field(description="Time in the model.")


class InferOut(_Answer):
    """whole: x as the model sees it.  alone: each run of parts, one of them decoded alone.

    bound: nats; of an invertible model the total alone.
    """

    x: Array
    whole: Array
    alone: Array
    bound: dict[str, float | None]
    rmse: float


class EditOut(_Answer):
    """before, after: at the means.  draws: (n, *shape).  exact: counterfactuals (m, *shape), where the truth is known:
    the parts that stayed as they truly were, fresh ones in the place of added ones."""

    x: Array
    before: Array
    after: Array
    draws: Array | None
    exact: Array | None
    rmse: float | None = Field(description="Of after against the exact counterfactual, where that is one.")
    milliseconds: float


class TailOut(_Answer):
    """x: (n, *shape), with weights."""

    x: Array
    weights: list[float]
    event: str
    quantile: float
    threshold: float
    threshold_interval: list[float] | None
    probability: float
    cv: float
    ess: float
    method: str
    draws: int


class Example(_Out):
    """An observed whole to edit: parts and the seed of its exact draw."""

    title: str
    parts: list[dict[str, Any]]
    drawn: int


class ModelOut(_Out):
    """What a page needs to know about a model to build itself."""

    name: str
    source: str
    problem: str | None
    summary: str
    shape: list[int]
    attributes: list[dict[str, Any]]
    context: list[dict[str, Any]]
    countable: bool
    truth: bool
    trained_parts: int | None
    unit: str
    start: list[dict[str, Any]]
    examples: list[Example]
    events: list[str]
    limits: dict[str, float]


class ModelsOut(_Out):
    """What is served."""

    version: str
    models: list[ModelOut]
