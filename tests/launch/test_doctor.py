# SPDX-License-Identifier: Apache-2.0
"""`hipress doctor` always gives an answer, even with missing or broken parts."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

from hipress.cli import doctor
from hipress.cli.doctor import Check, Report
from hipress.network.devices import LOOPBACK, NO_RDMA
from tests.launch.conftest import HIPRESS, clean_environment

NAMES = ["core", "UCX", "network", "codecs", "CPU", "GPUs", "torch", "tensorflow", "mxnet", "shared memory"]


@pytest.mark.slow
def test_json_on_this_machine() -> None:
    done = subprocess.run([*HIPRESS, "doctor", "--json"], env=clean_environment(), capture_output=True, timeout=120)
    report = json.loads(done.stdout)
    assert [check["name"] for check in report["checks"]] == NAMES
    core = report["checks"][0]
    assert report["ok"] == (core["status"] == "ok")
    assert done.returncode == (0 if report["ok"] else 1)
    assert not [check for check in report["checks"] if "the check itself failed" in check["detail"]]
    assert not [check for check in report["checks"] if check["status"] == "failed" and not check["advice"]]
    assert {"model", "cores", "instruction_sets"} <= report["checks"][4]["data"].keys()


def test_text_is_plain_when_not_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    checks = (Check("core", "failed", "[red]no[/red] " + "x" * 300, "do [this]"), Check("CPU", "ok", "fast"))
    doctor.print_report(Report("1.2", checks), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "hipress 1.2"
    assert lines[1].split() == ["failed", "core", "[red]no[/red]", "x" * 300]
    assert lines[2].strip() == "-> do [this]"
    assert lines[3].split() == ["ok", "CPU", "fast"]


def test_a_check_that_raises_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("unexpected")

    for name in (
        "check_core",
        "check_ucx",
        "check_network",
        "check_codecs",
        "check_cpu",
        "check_gpus",
        "check_framework",
    ):
        monkeypatch.setattr(doctor, name, broken)
    monkeypatch.setattr(doctor, "check_shared_memory", broken)
    monkeypatch.setattr(doctor, "run_probe", lambda *_, **__: {})
    report = doctor.examine("1")
    assert [check.name for check in report.checks] == NAMES
    assert {check.detail for check in report.checks} == {"the check itself failed: RuntimeError: unexpected"}
    assert not report.ok


class TestProbe:
    """The doctor examines native code in another process, so a crash or a hang does not end the doctor."""

    @pytest.fixture(autouse=True)
    def _frameworks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "crashing.py").write_text("import os; os.kill(os.getpid(), 11)\n")
        (tmp_path / "hanging.py").write_text("import time; time.sleep(300)\n")
        (tmp_path / "exiting.py").write_text("import sys; print('no licence', file=sys.stderr); sys.exit(3)\n")
        (tmp_path / "raising.py").write_text("raise ImportError('libfoo.so not found')\n")
        (tmp_path / "chatting.py").write_text("__version__ = '1.5'\nprint('welcome')\n")
        monkeypatch.syspath_prepend(tmp_path)

    def test_crash(self) -> None:
        assert "killed by signal 11" in doctor.run_probe("framework", "crashing", timeout=60)["error"]

    def test_hang(self) -> None:
        begin = time.monotonic()
        assert "no answer within 0.5 s" in doctor.run_probe("framework", "hanging", timeout=0.5)["error"]
        assert time.monotonic() - begin < 30

    def test_exit(self) -> None:
        error = doctor.run_probe("framework", "exiting", timeout=60)["error"]
        assert error == "the process exited with 3 no licence"

    def test_error(self) -> None:
        check = doctor.check_framework("raising", 60)
        assert (check.status, check.detail) == ("failed", "installed, but does not import: libfoo.so not found")

    def test_output_of_its_own(self) -> None:
        check = doctor.check_framework("chatting", 60)
        assert check.status == "failed"
        assert check.detail.startswith("1.5, but hipress.chatting does not import: ModuleNotFoundError")

    def test_an_adapter_that_says_what_to_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        facts = {"version": "9.8", "advice": "no operators for 9.8; build them: hipress build chatting"}
        monkeypatch.setattr(doctor, "run_probe", lambda *_, **__: facts)
        check = doctor.check_framework("chatting", 60)
        assert (check.status, check.advice) == ("failed", facts["advice"])
        assert check.detail == "9.8, but hipress.chatting does not work with it"
        facts["error"] = "numpy has no bool"
        check = doctor.check_framework("chatting", 60)
        assert (check.detail, check.advice) == ("installed, but does not import: numpy has no bool", facts["advice"])


def test_framework_not_installed() -> None:
    assert doctor.check_framework("no_such_framework", 60).detail == "not installed"


def test_core() -> None:
    assert doctor.check_core({"file": "/x/_core.so"}).status == "ok"
    check = doctor.check_core({"error": "why"})
    assert (check.status, check.detail) == ("failed", "why")
    assert check.advice


def test_network_lists_devices_the_fastest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIPRESS_NET", raising=False)
    devices = [
        {"name": "mlx5_0:1", "kind": "rdma", "fabric": "fe80", "rate": 200_000.0, "problem": NO_RDMA},
        {"name": "lo", "kind": "tcp", "address": "127.0.0.1/8", "problem": LOOPBACK},
        {"name": "eth0", "kind": "tcp", "address": "10.0.0.1/24", "rate": 1000.0},
        {"name": "eth1", "kind": "tcp", "address": "10.1.0.1/24", "rate": 25_000.0},
        {"name": "eth2", "kind": "tcp", "address": "10.2.0.1/24", "problem": "is down"},
    ]
    check = doctor.check_network({"network": devices[1:]})
    assert (check.status, check.advice) == ("ok", "")
    assert check.detail == (
        "to other hosts: eth1 (10.1.0.1/24, 25 Gbit/s); eth0 (10.0.0.1/24, 1 Gbit/s); "
        "not: eth2 (10.2.0.1/24, rate unknown, is down)"
    )
    check = doctor.check_network({"network": devices})
    assert check.status == "warning"
    assert "mlx5_0:1 (fe80, 200 Gbit/s, this UCX was built without RDMA)" in check.detail
    assert "UCX" in check.advice

    monkeypatch.setenv("HIPRESS_NET", "10.0.0.0/16")
    assert "to other hosts: eth0 (10.0.0.1/24, 1 Gbit/s); not:" in doctor.check_network({"network": devices[1:]}).detail
    for wrong in ("eth7", "10.0.0.0/99"):
        monkeypatch.setenv("HIPRESS_NET", wrong)
        check = doctor.check_network({"network": devices[1:]})
        assert (check.status, wrong in check.detail) == ("failed", True)
        assert "HIPRESS_NET" in check.advice
    assert doctor.check_network({"error": "why"}).status == "info"


def test_ucx(monkeypatch: pytest.MonkeyPatch) -> None:
    ucx = {"version": "1.22.0", "library": "/x/libucp.so.0", "transports": ["tcp", "posix"]}
    known = doctor.check_ucx({"ucx": ucx})
    assert known.status == "ok"
    assert known.detail.startswith("1.22.0 from /x/libucp.so.0")
    assert known.detail.endswith("transports: tcp, posix")
    assert doctor.check_ucx({"ucx": ucx | {"transports": []}}).status == "failed"
    assert doctor.check_ucx({}).detail.startswith("unknown: the core does not say")

    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    assert doctor.check_ucx({"error": "x"}).advice == "pip install libucx-cu12"


@pytest.mark.parametrize(
    "codecs", [["onebit", "none"], {"onebit": {}, "none": {}}, [{"name": "onebit"}, {"name": "none"}]]
)
def test_codecs(codecs: object) -> None:
    assert doctor.check_codecs({"codecs": codecs}).detail == "none, onebit"
    assert doctor.check_codecs({"codecs": codecs, "isa": "avx2"}).detail == "none, onebit (vector code: avx2)"


def test_codecs_unknown() -> None:
    assert doctor.check_codecs({}).status == "info"


def test_gpus() -> None:
    found = {"driver": "CUDA 12.8", "gpus": ["H", "H"], "nvrtc": "12.8"}
    assert doctor.check_gpus({"driver": None, "gpus": []}).status == "info"
    assert doctor.check_gpus({"error": "cuInit failed"}).status == "warning"
    assert doctor.check_gpus(found).status == "ok"
    assert doctor.check_gpus(found).detail == "2 (H, H), driver for CUDA 12.8, kernels compiled by NVRTC 12.8"
    unusable = doctor.check_gpus({**found, "unusable": "pip install nvidia-cuda-nvrtc-cu12"})
    assert (unusable.status, "pip install" in unusable.detail) == ("warning", True)


def test_shared_memory_for_a_number_of_ranks() -> None:
    facts = {"folder": "/dev/shm", "size": 64 << 20, "free": 32 << 20, "needed": 544 << 20}
    ample = doctor.check_shared_memory({**facts, "kind": "posix"}, 2)
    assert (ample.status, ample.detail) == ("ok", "/dev/shm: 64 MiB, 32 MiB free; 2 ranks take it")
    other = doctor.check_shared_memory({**facts, "kind": "system_v"}, 4)
    assert (other.status, "4 ranks take System V" in other.detail) == ("ok", True)
    tight = doctor.check_shared_memory({**facts, "kind": "tight_posix"}, 2)
    assert (tight.status, "544 MiB (docker run --shm-size)" in tight.advice) == ("warning", True)
    missing = doctor.check_shared_memory({**facts, "problem": "2 ranks need 544 MiB"}, 2)
    assert (missing.status, missing.advice) == ("failed", "2 ranks need 544 MiB")
    assert doctor.check_shared_memory({"error": "killed"}, 2).status == "info"


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_the_doctor_itself_imports_no_framework() -> None:
    script = "import sys; from hipress.cli import doctor; doctor.examine('1', timeout=0.01)"
    script += "; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], env=clean_environment(), capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
