# SPDX-License-Identifier: Apache-2.0
"""Between launcher and rank: becomes a rank of one of the frameworks, in its environment.

    python adapter_enter.py JOB

The launcher's job is of all frameworks' ranks, so that all end together; each framework's ranks are a job of their own.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from adapter_job import Job

_RANK = Path(__file__).with_name("adapter_rank.py")


def main() -> None:
    """Does not return."""
    job = Job.from_json(sys.argv[1])
    number, together = int(os.environ["HIPRESS_RANK"]), len(job.members)
    member, rank = job.members[number % together], number // together
    local_size = int(os.environ["HIPRESS_LOCAL_SIZE"]) // together
    # The launcher's socket is for a job of all.
    listener = os.environ.pop("HIPRESS_RENDEZVOUS_FD", None)
    if listener is not None:
        with contextlib.suppress(OSError):
            os.close(int(listener))
    host, _, _ = os.environ["HIPRESS_RENDEZVOUS"].rpartition(":")
    os.environ.update(
        member.variables,
        HIPRESS_RANK=str(rank),
        HIPRESS_SIZE=str(job.ranks),
        HIPRESS_LOCAL_RANK=str(rank % local_size),
        HIPRESS_LOCAL_SIZE=str(local_size),
        HIPRESS_RENDEZVOUS=f"{host}:{member.port}",
    )
    os.execv(member.python, [member.python, str(_RANK), sys.argv[1], member.framework])


if __name__ == "__main__":
    main()
