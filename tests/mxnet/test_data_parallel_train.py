# SPDX-License-Identifier: Apache-2.0
"""The command line of the first release starts a training."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import mxnet as mx

from tests.docs import pages

COMMAND = [sys.executable, "-W", "ignore", str(pages.ROOT / "examples" / "mxnet" / "data_parallel_train.py")]
#: A network and images that are small enough for a test.
SMALL = ("--model", "mobilenet0.25", "--image-size", "32", "--batch-size", "2", "--num-iterations", "3")


def test_a_ring_with_tbq_on_two_processes(tmp_path: Path) -> None:
    options = ("--numprocess", "2", "--servers", "localhost:2", "--topo", "Ring", "--comp-alg", "tbq")
    output = pages.run([*COMMAND, *options, "--comp-threshold", "1024", *SMALL], tmp_path)
    assert "mobilenet0.25, 2 processes, tbq, Ring: " in output
    megabytes = float(output.split(" MB sent")[0].split()[-1])
    assert 0.05 < megabytes < 0.3  # of 1.9 MB a sixteenth, twice half of it, and the gradients below 1024 floats


def test_a_plan_in_the_lines_of_the_original_is_followed(tmp_path: Path) -> None:
    """Only the last layer is compressed."""
    network = mx.gluon.model_zoo.vision.get_model("mobilenet0.25", classes=1000, prefix="mobilenet0_")
    network.initialize()
    network(mx.nd.zeros((1, 3, 32, 32)))
    trained = [each for each in network.collect_params().values() if each.grad_req != "null"]
    largest = max(trained, key=lambda each: each.data().size)
    lines = [f"{each.name},{each.data().size},{'y' if each is largest else 'n'},1\n" for each in trained]
    (tmp_path / "SeCoPaPlan.txt").write_text("".join(lines))
    options = ("--numprocess", "2", "--topo", "PS", "--comp-alg", "tbq", "--comprplan", "SeCoPaPlan.txt")
    output = pages.run([*COMMAND, *options, *SMALL], tmp_path)
    megabytes = float(output.split(" MB sent")[0].split()[-1])
    raw = 4 * sum(each.data().size for each in trained)
    assert megabytes == pytest.approx((raw - 15 / 16 * 4 * largest.data().size) / 1e6, rel=0.05)


def test_a_plan_that_is_not_there_is_said_before_anything_starts() -> None:
    done = subprocess.run([*COMMAND, "--comprplan", "plan.txt"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "--comprplan plan.txt: there is no such file" in done.stderr


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
