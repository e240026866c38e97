"""What the server answers where it cannot do what was asked: a status and one sentence, as {"error": ..}."""

from __future__ import annotations

import json
from collections.abc import Mapping

from compvae.errors import CompVAEError

__all__ = [
    "RETRY", "BusyError", "FaultError", "TooMuchError", "TooSlowError", "UnknownNameError", "error_body", "too_slow",
]  # fmt: skip

RETRY = {"retry-after": "1"}  # seconds, beside every 503


class FaultError(CompVAEError):
    """An answer other than 200."""

    status = 422

    def headers(self) -> Mapping[str, str]:
        """What stands beside the sentence."""
        return RETRY if self.status == 503 else {}


class UnknownNameError(FaultError):
    """A model that is not served, a problem whose truth is not known."""

    status = 404


class TooMuchError(FaultError):
    """More than the limits allow."""


class BusyError(FaultError):
    """The queue is full."""

    status = 503


class TooSlowError(FaultError):
    """The work took longer than a request may."""

    status = 503


def too_slow(seconds: float) -> str:
    """What is said where the time of a request is over."""
    return f"no answer within {seconds:g} s; ask for fewer wholes or parts, or for a less extreme tail"


def error_body(message: str) -> bytes:
    """The sentence as JSON."""
    return json.dumps({"error": message}).encode()
