# SPDX-License-Identifier: Apache-2.0
"""The published wheel has the right tag and libraries, and works without a framework and without a compiler."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from auditwheel.lddtree import ldd

from distribution.repair import OUTSIDE, repaired
from distribution.wheels import VERSIONS
from tests.distribution import installed
from tests.docs import pages
from tests.docs.test_requirements import VERSIONS as PROMISED

#: The first test downloads the packages that HiPress requires.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

#: Libraries that every Linux system of the wheel's tag has.
_OF_THE_SYSTEM = ("libc.so.", "libstdc++.so.", "libgcc_s.so.", "libm.so.", "ld-linux")
_STEP = Path(__file__).with_name("step.py")
_mounts = shutil.which("unshare") is not None and os.geteuid() == 0
needs_mounts = pytest.mark.skipif(not _mounts, reason="only root can mount")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that make has built, repaired for publication; without one, the wheel of `make wheels`."""
    built = list((pages.ROOT / "build" / "wheel").glob("*.whl"))
    if built:
        return repaired(built[0], tmp_path_factory.mktemp("dist"))
    published = list((pages.ROOT / "build" / "dist").glob("*.whl"))
    assert published, "there is no wheel: run make wheel"
    return published[0]


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Path:
    return installed.install(wheel)


def test_it_is_for_a_range_of_linux_systems_and_has_no_library_of_others(wheel: Path) -> None:
    assert re.search(r"-manylinux_2_\d+_x86_64\.whl$", wheel.name), wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    assert not [name for name in names if ".libs/" in name]
    libraries = {name.rpartition("/")[2] for name in names if ".so" in name}
    assert {"libhipress.so", "libhipress_torch.so"} <= libraries
    # The wheel requires a package with UCX, but no framework.
    required = [line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    assert [one for one in required if one.startswith("libucx-cu12")]
    assert not [one for one in required if one.startswith(("torch", "tensorflow", "mxnet")) and "extra ==" not in one]


def test_each_library_needs_those_that_are_there(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    outside = {library for libraries in OUTSIDE.values() for library in libraries}
    found = sorted(tmp_path.rglob("*.so"))
    assert found
    for library in found:
        for needed in ldd(library).needed:
            known = needed in outside or needed.startswith(_OF_THE_SYSTEM) or needed == "libhipress.so"
            assert known, f"{library.name} needs {needed}"
            assert needed not in outside or needed in OUTSIDE["libucx-cu12"] or library.name != "libhipress.so"


def test_it_works_without_a_compiler_in_path(environment: Path, tmp_path: Path) -> None:
    told = json.loads(installed.run(environment, ["hipress", "doctor", "--json"], tmp_path))
    states = {check["name"]: check["status"] for check in told["checks"]}
    assert "failed" not in states.values(), states
    printed = installed.run(environment, ["hipress", "run", "-np", "2", "python", str(_STEP)], tmp_path)
    assert printed.count("average 1.50") == 2


@needs_mounts
def test_it_works_in_a_root_folder_of_libraries_alone(environment: Path, tmp_path: Path) -> None:
    look = ["python", "-c", "import os, shutil; print(os.path.exists('/bin/sh'), shutil.which('cc'))"]
    assert installed.run(environment, look, tmp_path, small_root=True).split() == ["False", "None"]
    step = shutil.copy(_STEP, tmp_path)
    asked = ["hipress", "run", "-np", "2", str(environment / "bin" / "python"), str(step)]
    assert installed.run(environment, asked, tmp_path, small_root=True).count("average 1.50") == 2
    assert installed.run(environment, ["hipress", "doctor"], tmp_path, small_root=True)


@pytest.mark.thorough
def test_the_source_distribution_has_what_building_needs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", str(tmp_path), "."]
    done = subprocess.run(command, cwd=pages.ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path)
    (source,) = (path for path in tmp_path.iterdir() if path.is_dir())
    ours = subprocess.run(["git", "ls-files"], cwd=pages.ROOT, capture_output=True, text=True, check=True).stdout
    needed = ("core/", "compll/", "secopa/", "bindings/", "frameworks/", "cmake/", "benchmarks/models/")
    missing = [name for name in ours.splitlines() if name.startswith(needed) and not (source / name).exists()]
    assert not missing
    assert not (source / "build").exists()


def test_wheels_are_for_the_promised_versions_of_python() -> None:
    assert list(VERSIONS) == PROMISED
