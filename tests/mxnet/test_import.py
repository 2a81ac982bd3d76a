# SPDX-License-Identifier: Apache-2.0
"""Without MXNet, the adapter's import error says which package to install."""

from __future__ import annotations

import subprocess
import sys

_IMPORT = """
import sys
sys.modules["mxnet"] = None  # as if MXNet were not installed
try:
    import hipress.mxnet
except Exception as error:
    print(type(error).__name__, error)
"""


def test_importing_without_mxnet_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Unsupported hipress.mxnet needs MXNet")
    assert "pip install 'mxnet==1.9.1' 'numpy<1.24'" in done.stdout
