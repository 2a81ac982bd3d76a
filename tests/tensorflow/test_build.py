# SPDX-License-Identifier: Apache-2.0
"""`hipress build tensorflow` builds operators from the installed sources if the installed HiPress has none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hipress
from tests.ranks import clean_environment

pytestmark = pytest.mark.slow

_USE = """
import tensorflow as tf
import hipress.tensorflow as hp
hp.init()
assert hp.allreduce(tf.ones(3), name="x").numpy().tolist() == [1, 1, 1]
"""


def _installed_without_operators(folder: Path) -> Path:
    """A folder for PYTHONPATH with a copy of the package that lacks TensorFlow's operators."""
    package = Path(hipress.__path__[0])
    copy = folder / "hipress"
    (copy / "tensorflow").mkdir(parents=True)
    (folder / "libucx").symlink_to((package.parent / "libucx").resolve())
    for source, target in ((package, copy), (package / "tensorflow", copy / "tensorflow")):
        for entry in source.iterdir():
            if entry.name != "tensorflow" and not entry.name.startswith("libhipress_tensorflow"):
                (target / entry.name).symlink_to(entry)
    return folder


def _python(folder: Path, cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = clean_environment(PYTHONPATH=str(folder), HIPRESS_CACHE=str(cache), TF_CPP_MIN_LOG_LEVEL="3")
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, cwd=folder, check=False)


# One compilation with TensorFlow's headers takes a minute, and longer on a busy machine.
@pytest.mark.timeout(900)
@pytest.mark.thorough
def test_operators_are_built_once_and_found_from_then_on(tmp_path: Path) -> None:
    folder, cache = _installed_without_operators(tmp_path / "installed"), tmp_path / "cache"
    before = _python(folder, cache, "-c", _USE)
    assert "hipress build tensorflow" in before.stderr
    assert before.returncode != 0
    for _ in range(2):
        built = _python(folder, cache, "-m", "hipress.cli", "build", "tensorflow")
        assert built.returncode == 0, built.stderr
        (library,) = [file for file in os.listdir(cache) if file.endswith(".so")]
        assert library in built.stdout
    after = _python(folder, cache, "-c", _USE)
    assert after.returncode == 0, after.stderr
