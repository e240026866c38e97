"""Errors a user can cause: one sentence each, saying what came, where, and what is allowed.

Everything a caller can get wrong derives from :class:`CompVAEError`, itself a ``ValueError``; anything else that
escapes from this package is a defect of ours.
"""

__all__ = [
    "CheckpointError", "CompVAEError", "ConfigError", "DataError", "DataFileError", "DivergenceError",
    "MissingExtraError", "ModelFileError", "OtherProcessError", "OutputError", "PartsError", "TailError",
    "UnknownModelError",
]  # fmt: skip


class CompVAEError(ValueError):
    """Base class of all errors caused by what the caller gave."""


class PartsError(CompVAEError):
    """A composition, or the schema it is read with, is not valid."""


class ConfigError(CompVAEError):
    """A configuration is not valid, or combines pieces that cannot work together."""


class DataError(CompVAEError):
    """An array given as observed data does not have the form the model expects."""


class DataFileError(DataError):
    """A file of data does not hold what it should; the message names file, row and column."""


class OutputError(CompVAEError):
    """Something cannot be written: no space, no permission, or files are in the way."""


class OtherProcessError(OutputError):
    """Process 0 of a run could not write, and says why; this process ends with it."""


class CheckpointError(CompVAEError):
    """A checkpoint cannot be read, or does not belong to this run."""


class DivergenceError(CompVAEError):
    """Training went on diverging after rollbacks with a lower rate, or samples of the trained model are not finite."""


class MissingExtraError(CompVAEError):
    """Something was asked for that needs a package which comes with an extra."""


class ModelFileError(CompVAEError):
    """A model directory cannot be read or written, or its contents do not fit together."""


class UnknownModelError(ModelFileError):
    """No model has this name, and no directory."""


class TailError(CompVAEError):
    """An estimate of a tail is too poor to be handed out, or the event was never seen."""
