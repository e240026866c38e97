"""HTTP/1.1 for impatient servers: a connection whose request does not come within its time is closed.

Uvicorn waits for the headers of a request for ever, once the first byte of it has come.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["impatient"]


def impatient(seconds: float) -> type[H11Protocol]:
    """The protocol with this patience."""

    class Impatient(H11Protocol):
        """Closes what stays half a request."""

        _due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._due = self.loop.call_later(seconds, self._close_idle)

        def data_received(self, data: bytes) -> None:
            if self._due is None and self._waiting:
                self._due = self.loop.call_later(seconds, self._close_idle)
            super().data_received(data)
            if not self._waiting:
                self._rest()

        def connection_lost(self, exc: Exception | None) -> None:
            self._rest()
            super().connection_lost(exc)

        def eof_received(self) -> bool | None:  # type: ignore[override]
            """A client that says no more still gets the answer to what it asked; half a request is dropped."""
            return True if not self._waiting and not self.cycle.more_body else None

        @property
        def _waiting(self) -> bool:
            """No request is being answered."""
            return self.cycle is None or self.cycle.response_complete

        def _rest(self) -> None:
            if self._due is not None:
                self._due.cancel()
                self._due = None

        def _close_idle(self) -> None:
            self._due = None
            if self._waiting:
                self.transport.close()

    return Impatient
