# SPDX-License-Identifier: Apache-2.0
"""The MXNet systems of benchmarks/train.py: the network is ResNet-50, and dist_sync starts the processes that it
needs."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

ROOT = Path(__file__).parents[2]

#: A kvstore program: the servers add both workers' values. With 2 bits, values below the threshold wait for a later
#: step.
KVSTORE = f"""
import gc, sys
sys.path.insert(0, {str(ROOT)!r})
import mxnet as mx
import hipress.mxnet as hp
from benchmarks.training.dist_kvstore import KvstoreProcesses, deadline
from benchmarks.harness.meeting import HipressMeeting
hp.init()
with KvstoreProcesses(HipressMeeting(), "") as servers, deadline(100):
    store = mx.kv.create("dist_sync")
    assert (store.type, store.num_workers) == ("dist_sync", 2)
    if COMPRESSED:
        store.set_gradient_compression({{"type": "2bit", "threshold": 0.5}})
    store.init(3, mx.nd.zeros(4))
    store.push(3, mx.nd.array([0.25, 2, -2, 0]) * (store.rank + 1))
    pulled = mx.nd.zeros(4)
    store.pull(3, pulled)
    print("pulled", pulled.asnumpy().tolist())
    assert servers.cpu_seconds() > 0.5  # two or three processes have imported MXNet
    del store
    gc.collect()
hp.shutdown()
"""


def run_ranks(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hipress.cli", "run", "-np", "2", sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=250,
    )


@pytest.mark.parametrize(("compressed", "pulled"), [(False, "[0.75, 6.0, -6.0, 0.0]"), (True, "[0.5, 1.0, -1.0, 0.0]")])
def test_a_dist_sync_kvstore_starts_adds_up_and_ends(compressed: bool, pulled: str) -> None:
    done = run_ranks(f"COMPRESSED = {compressed}\n{KVSTORE}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"pulled {pulled}") == 2


def test_a_worker_that_fails_ends_the_job() -> None:
    script = KVSTORE.replace("store.push(", "raise RuntimeError('broken on purpose')\n    store.push(", 1)
    done = run_ranks(f"COMPRESSED = False\n{script}")
    assert done.returncode == 1
    assert "broken on purpose" in done.stderr


def test_the_network_has_the_parameters_of_resnet50() -> None:
    network = importlib.import_module("benchmarks.training.mxnet_models").resnet50(1000)
    gradients = importlib.import_module("benchmarks.models").load("resnet50").gradients
    trained = [each for each in network.collect_params().values() if each.grad_req != "null"]
    assert [each.shape for each in trained] == [one.shape for one in gradients]
