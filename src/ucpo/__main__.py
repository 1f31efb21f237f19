"""``python -m ucpo`` is ``ucpo``."""

from ucpo.cli import main

main()
