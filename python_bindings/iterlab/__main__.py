"""Runs the command line as `python -m iterlab`."""

import sys

from iterlab.cli import main

sys.exit(main())
