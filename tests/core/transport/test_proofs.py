# SPDX-License-Identifier: Apache-2.0
"""A message's proof shows its sender: a C++ program checks this with the installed library."""

from __future__ import annotations

import subprocess

from tests.core.transport.programs import program


def test_proofs_replays_and_allowances() -> None:
    result = subprocess.run([str(program("proofs"))], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (0, "")
