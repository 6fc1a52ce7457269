"""The evenflow command as a program for ``spark-submit``: ``spark-submit examples/submit.py run pipeline.toml``."""

import sys

from evenflow.cli.main import main

sys.exit(main())
