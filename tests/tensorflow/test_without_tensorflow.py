# SPDX-License-Identifier: Apache-2.0
"""Without TensorFlow, or with a version without HiPress operators, the adapter's error says how to get them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_EMPTY = """
__version__ = "9.8.7"
class errors:
    class OpError(Exception): pass
"""


def _error(program: str, *path: Path, **variables: str) -> str:
    script = f"import sys\nsys.path[:0] = {[str(folder) for folder in path]}\n{program}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode != 0, done.stdout
    return done.stderr.strip().splitlines()[-1]


def test_without_tensorflow_the_import_says_what_to_install() -> None:
    hide = "sys.modules['tensorflow'] = None; import importlib.util as u\n"
    hide += "found = u.find_spec; u.find_spec = lambda name, *a: None if name == 'tensorflow' else found(name, *a)\n"
    message = _error(hide + "import hipress.tensorflow")
    assert "pip install 'tensorflow>=2.16'" in message


def test_a_version_without_operators_is_named_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text(_EMPTY)
    message = _error("import hipress.tensorflow", tmp_path)
    assert "no operators for TensorFlow 9.8.7" in message
    assert "hipress build tensorflow" in message
