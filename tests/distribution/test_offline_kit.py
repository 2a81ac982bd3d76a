# SPDX-License-Identifier: Apache-2.0
"""The kit for a machine that has a GPU and no network."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from distribution import offline_kit


def test_all_packages_have_versions() -> None:
    assert {line.partition("==")[0] for line in offline_kit.pinned()} == set(offline_kit.PACKAGES)


def test_a_package_without_a_version_is_named(tmp_path: Path) -> None:
    (tmp_path / "some.txt").write_text("lark==1.3.1\n")
    with pytest.raises(SystemExit, match="requirements/ names no version of annotated-types"):
        offline_kit.pinned(tmp_path)


def test_libraries_are_unpacked_once_and_without_developers_files(tmp_path: Path) -> None:
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "libucx_cu12-1-py3-none-any.whl", "w") as wheel:
        for name in ("lib/libucp.so", "lib/libucp.so.0", "lib/libucp.a", "bin/ucx_info", "lib/ucx/libucx_perftest.so"):
            wheel.writestr(f"libucx/{name}", "content")
    offline_kit.unpack(wheels, site)
    assert sorted(each.name for each in site.rglob("*") if each.is_file()) == ["libucp.so", "libucp.so.0"]
    assert (site / "libucx" / "lib" / "libucp.so.0").is_symlink()


@pytest.mark.skipif(shutil.which("ip") is None, reason="ip is not here")
def test_a_program_runs_with_the_libraries_that_were_carried(tmp_path: Path) -> None:
    offline_kit.carry(["ip"], tmp_path / "programs")
    moved = (tmp_path / "programs").rename(tmp_path / "moved")
    assert "iproute2" in subprocess.run([moved / "ip", "-V"], capture_output=True, text=True, check=True).stdout


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no-such-program is not here"):
        offline_kit.carry(["no-such-program"], tmp_path / "programs")


def test_it_runs_the_tests_of_make() -> None:
    assert all(Path(each).exists() for each in offline_kit.tests().split())
