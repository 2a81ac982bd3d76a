# SPDX-License-Identifier: Apache-2.0
"""Each training process imports hipress.torch, so it imports none of torch's slow modules for itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Each takes about a second beside torch itself.
SLOW = ("torch.distributed.fsdp", "torch.distributed.tensor", "torch.distributed.checkpoint", "torch._dynamo", "sympy")


@pytest.mark.slow
def test_slow_modules_of_torch_are_left_to_those_who_use_them() -> None:
    program = f"import sys, hipress.torch; print([name for name in {SLOW} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "[]"
