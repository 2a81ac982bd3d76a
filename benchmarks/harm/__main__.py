# SPDX-License-Identifier: Apache-2.0
"""Runs benchmarks/harm/command.py; its docstring describes the benchmark and its arguments."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.harm.command import main

if __name__ == "__main__":
    sys.exit(main())
