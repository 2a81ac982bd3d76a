# SPDX-License-Identifier: Apache-2.0
"""The command of benchmarks/start/command.py, which says what it measures and which arguments it takes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.start.command import main

if __name__ == "__main__":
    sys.exit(main())
