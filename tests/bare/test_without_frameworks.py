# SPDX-License-Identifier: Apache-2.0
"""Without a framework the common parts of HiPress work, and each adapter says which package to install."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hipress
from hipress import runtime
from hipress._library import load_core
from hipress.errors import Unsupported
from tests.launch.conftest import HIPRESS

FRAMEWORKS = [name for name in ("torch", "tensorflow", "mxnet") if (Path(hipress.__file__).parent / name).is_dir()]
pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) for name in FRAMEWORKS), reason="for the environment without frameworks"
)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_adapter_says_what_to_install(framework: str) -> None:
    with pytest.raises(Unsupported, match=rf"hipress\.{framework} needs .*pip install '"):
        importlib.import_module(f"hipress.{framework}")


def test_the_package_carries_the_operators_of_all() -> None:
    package = Path(hipress.__file__).parent
    assert FRAMEWORKS
    for framework in FRAMEWORKS:
        assert list((package / framework).glob(f"libhipress_{framework}*.so")), framework


def test_codecs_work() -> None:
    values = np.linspace(-1, 1, 1000, dtype=np.float32)
    codec = load_core().create_codec("fp16")
    np.testing.assert_allclose(codec.decode(codec.encode(values), values.size), values, atol=1e-3)


def test_a_world_of_one_begins_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("HIPRESS_", "OMPI_", "PMI", "MPI_", "SLURM_", "HOROVOD_")):
            monkeypatch.delenv(name)
    runtime.init()
    assert (runtime.rank(), runtime.size(), runtime.cross_rank(), runtime.cross_size()) == (0, 1, 0, 1)
    runtime.shutdown()


def test_the_doctor_is_content() -> None:
    done = subprocess.run([*HIPRESS, "doctor", "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    states = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    for framework in FRAMEWORKS:
        assert (states[framework]["status"], states[framework]["detail"]) == ("info", "not installed")


def test_compll_needs_no_framework() -> None:
    done = subprocess.run([sys.executable, "-m", "hipress.cli", "compll", "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
