"""The command line called in this process: arguments in, exit code, stdout and stderr out."""

from __future__ import annotations

import io
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from compvae.cli import main


def call(*arguments: object) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of ``compvae arguments``."""
    out, err, before = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGTERM)
    try:
        with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", ["compvae", *map(str, arguments)]):
            main()
    except SystemExit as end:
        return int(end.code or 0), out.getvalue(), err.getvalue()
    finally:
        signal.signal(signal.SIGTERM, before)
    raise AssertionError("main ends by SystemExit")
