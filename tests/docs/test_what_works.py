# SPDX-License-Identifier: Apache-2.0
"""README's table of features agrees with `hipress doctor --json`, the core and the package's metadata."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import metadata, requires
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from hipress import _core
from tests.docs import pages


def works(row: str) -> str:
    """The cell "Works" of the row `row`."""
    (cell,) = re.findall(rf"^\| {row} \| (.*?) \|", (pages.ROOT / "README.md").read_text(), re.MULTILINE)
    return cell


def names(row: str) -> list[str]:
    """The names in code type in the cell "Works" of the row `row`."""
    return re.findall(r"`([^`]+)`", works(row))


@pytest.fixture(scope="module")
def checks() -> dict[str, dict[str, Any]]:
    """The doctor's findings by name."""
    report = pages.run([sys.executable, "-m", "hipress.cli", "doctor", "--json"], pages.ROOT)
    return {check["name"]: check for check in json.loads(report)["checks"]}


@pytest.mark.slow
def test_codecs_and_topologies(checks: dict[str, dict[str, Any]]) -> None:
    listed = checks["codecs"]["data"]["codecs"]
    built = {codec["name"] if isinstance(codec, dict) else codec for codec in listed}
    assert set(names("Codecs")) == built
    assert names("Topologies") == list(_core.topology_names())


@pytest.mark.slow
def test_frameworks(checks: dict[str, dict[str, Any]]) -> None:
    frameworks = [name for name in names("Frameworks") if " " not in name]
    assert frameworks == [name for name in checks if "installed" in checks[name]["data"]]
    for name in frameworks:
        if checks[name]["data"]["installed"]:
            assert checks[name]["status"] == "ok", checks[name]["detail"]


def test_versions_are_the_packages() -> None:
    python = metadata("hipress")["Requires-Python"]
    assert works("Python").startswith(f"{python.removeprefix('>=')} or newer")
    wanted = {Requirement(text).name: Requirement(text).specifier for text in requires("hipress") or []}
    cell = works("Frameworks").replace("`", "")
    for name, text in (("torch", "{} or newer"), ("tensorflow", "{} or newer"), ("mxnet", "{}")):
        (specifier,) = wanted[name]
        said = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cell)
        assert f"{name} {text.format(specifier.version)}" in said
    (built,) = re.findall(r"built for ([\d.]+)", cell)
    pin = next(
        line for line in (pages.ROOT / "requirements/tensorflow.txt").read_text().splitlines() if "cpu==" in line
    )
    assert SpecifierSet(f"=={built}.*").contains(pin.partition("==")[2])


@pytest.mark.slow
def test_gpus_and_networks_are_not_promised_beyond_the_build(checks: dict[str, dict[str, Any]]) -> None:
    if not checks["GPUs"]["data"].get("gpus") and "GPU" in works("Devices"):
        assert "(docs/devices.md)" in works("Devices")  # the page that says what has run, and on which GPUs
    transports = checks["UCX"]["data"]["transports"]
    assert any(name.startswith("tcp/") for name in transports)
    assert "TCP" in works("Network")
    assert "RDMA" not in works("Network")


@pytest.mark.slow
def test_the_commands_of_planning_exist() -> None:
    commands = [name.removeprefix("hipress ") for name in names("Planning") if name.startswith("hipress ")]
    assert commands
    help_text = pages.run([sys.executable, "-m", "hipress.cli", "--help"], pages.ROOT)
    assert set(commands) <= set(help_text.split())
