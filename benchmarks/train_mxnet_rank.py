# SPDX-License-Identifier: Apache-2.0
# mypy: disable-error-code="import-not-found"
"""One rank of train.py --framework mxnet, which starts it: takes steps with each of MXNet's systems.

HiPress runs whoever is measured: its ranks meet over it. It sleeps while others synchronise.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import sys
import time
from pathlib import Path

import mxnet as mx
from dist_kvstore import KvstoreProcesses
from meeting import HipressMeeting, Meeting
from train_job import DIST_SYNC, Job, Measured
from train_measure import Trial, measure
from train_mxnet_systems import Batch, make

import hipress.mxnet as hp


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
    """Measure the job given as the only argument."""
    job = Job.from_json(sys.argv[1])
    hp.init(timeout=job.timeout)
    meeting = HipressMeeting()
    measured = []
    with contextlib.ExitStack() as stack:
        servers = None
        if set(DIST_SYNC) & set(job.systems):
            servers = stack.enter_context(KvstoreProcesses(meeting, job.interface))
        if "horovod" in job.systems:
            # Only its own environment has it.
            import horovod.mxnet as hvd
            from horovod_start import start

            server = start(hvd, meeting, job.interface, job.timeout)  # noqa: F841 -- ends with this process
        for system in job.systems:
            measured.append(_measured(job, system, meeting, servers))
            # Of a kvstore the last one takes leave of the servers, which then end.
            gc.collect()
    if meeting.rank == 0:
        Path(job.result).write_text(json.dumps([dataclasses.asdict(one) for one in measured]))
    hp.shutdown()


if __name__ == "__main__":
    main()
