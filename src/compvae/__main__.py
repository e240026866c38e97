"""``python -m compvae``."""

from compvae.cli import main

main()
