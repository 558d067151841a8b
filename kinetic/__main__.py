"""`python -m kinetic`: the command line."""

import sys

from kinetic.cli import main

sys.exit(main())
