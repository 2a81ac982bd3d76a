# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found"
"""One rank of train.py --framework mxnet: it takes steps with each of MXNet's systems.

HiPress runs in every job, because the ranks meet over it. It sleeps while other systems synchronise.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

import mxnet as mx

import hipress.mxnet as hp
from benchmarks.harness.meeting import HipressMeeting, Meeting
from benchmarks.training.dist_kvstore import KvstoreProcesses
from benchmarks.training.job import DIST_SYNC, Job, Measured
from benchmarks.training.measure import Trial, measure
from benchmarks.training.mxnet_systems import Batch, make


def _measured(job: Job, system: str, meeting: Meeting, servers: KvstoreProcesses | None) -> Measured:
    mx.random.seed(meeting.rank)
    batch = Batch(job.batch_size)
    training = make(system, batch, job.timeout)
    trial = Trial(
        step=training.step,
        alone=make("alone", batch, job.timeout).step,
        parameters=training.parameters,
        cpu_seconds=time.process_time if servers is None else servers.cpu_seconds,
        bytes_sent=(lambda: hp.counters()["bytes_sent"]) if system.startswith("hipress") else None,
    )
    return measure(job, system, trial, meeting)


def main() -> None:
    """Runs the job in the only argument."""
    job = Job.from_json(sys.argv[1])
    hp.init(timeout=job.timeout)
    meeting = HipressMeeting()
    measured = []
    with contextlib.ExitStack() as stack:
        servers = None
        if set(DIST_SYNC) & set(job.systems):
            servers = stack.enter_context(KvstoreProcesses(meeting, job.interface))
        if "horovod" in job.systems:
            # Only the environment of Horovod has this module.
            import horovod.mxnet as hvd

            from benchmarks.harness.horovod_start import start

            server = start(hvd, meeting, job.interface, job.timeout)  # noqa: F841 -- ends with this process
        for system in job.systems:
            measured.append(_measured(job, system, meeting, servers))
            # The last kvstore says goodbye to the servers, which then end.
            gc.collect()
    if meeting.rank == 0:
        Path(job.result).write_text(json.dumps([dataclasses.asdict(one) for one in measured]))
    hp.shutdown()


if __name__ == "__main__":
    main()
