"""One page about a model: ``compvae report``."""

from compvae.report.page import report, write_report

__all__ = ["report", "write_report"]
