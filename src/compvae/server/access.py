"""The access log: one JSON object a line, on stderr; no bodies, no tokens, no query."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import IO

__all__ = ["AccessLog"]

MAX_PATH = 200


class AccessLog:
    """Writes a line for each request.  stream: None for no log."""

    def __init__(self, stream: IO[str] | None = sys.stderr) -> None:
        self.stream = stream

    def write(self, method: str, path: str, status: int, seconds: float, received: int, sent: int, client: str) -> None:
        """received, sent: bytes of the bodies.  status: 0 where the client had gone before the answer began."""
        if self.stream is None:
            return
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "method": method,
            "path": path[:MAX_PATH],
            "status": status,
            "ms": round(1000 * seconds, 2),
            "received": received,
            "sent": sent,
            "client": client,
        }
        self.stream.write(json.dumps(line) + "\n")
        self.stream.flush()
