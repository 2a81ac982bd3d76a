# SPDX-License-Identifier: Apache-2.0
"""The first release's command line starts a training."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

from tests.docs import pages

COMMAND = [sys.executable, "-W", "ignore", str(pages.ROOT / "examples" / "mxnet" / "data_parallel_train.py")]
#: A network and images that a test has time for.
SMALL = ("--model", "mobilenet0.25", "--image-size", "32", "--batch-size", "2", "--num-iterations", "3")


def test_a_ring_with_tbq_on_two_processes(tmp_path: Path) -> None:
    options = ("--numprocess", "2", "--servers", "localhost:2", "--topo", "Ring", "--comp-alg", "tbq")
    output = pages.run([*COMMAND, *options, "--comp-threshold", "4096", *SMALL], tmp_path)
    assert "mobilenet0.25, 2 processes, tbq, Ring: " in output
    megabytes = float(output.split(" MB sent")[0].split()[-1])
    assert 0.05 < megabytes < 0.3  # of 1.9 MB a sixteenth, twice half of it, and the gradients below 4096 bytes


def test_plans_are_refused() -> None:
    done = subprocess.run([*COMMAND, "--comprplan", "plan.txt"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Unsupported: --comprplan plan.txt" in done.stderr


def test_other_hosts_are_left_to_an_installed_launcher(tmp_path: Path) -> None:
    launchers = tmp_path / "bin"
    launchers.mkdir()
    fake = launchers / "horovodrun"
    fake.write_text("#!/bin/sh\necho started: $@\n")
    fake.chmod(0o755)
    hosts = ("--numprocess", "2", "--servers", "node1:1,node2:1", "--interface", "eth0")
    for options in (hosts, (*hosts, "--horovodrun")):
        done = subprocess.run(
            [*COMMAND, *options],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": f"{launchers}"},
        )
        assert "started: " in done.stdout, done.stderr
        assert "node1:1,node2:1" in done.stdout
        assert "eth0" in done.stdout
