"""``python -m ucpo`` is ``ucpo``."""

from ucpo.cli.main import main

main()
