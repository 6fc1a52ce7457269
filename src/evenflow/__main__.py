"""``python -m evenflow`` is the ``evenflow`` command."""

import sys

from evenflow.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
