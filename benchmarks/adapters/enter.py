# SPDX-License-Identifier: Apache-2.0
"""Runs between the launcher and a rank: it becomes a rank of one of the frameworks, in that framework's environment.

    python enter.py JOB

The launcher's job has the ranks of all frameworks, so that all end together. The ranks of each framework are a separate
HiPress job.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

from benchmarks.adapters.job import Job

_RANK = Path(__file__).with_name("rank.py")


def main() -> None:
    """Becomes the rank's command; it does not return."""
    job = Job.from_json(sys.argv[1])
    number, together = int(os.environ["HIPRESS_RANK"]), len(job.members)
    member, rank = job.members[number % together], number // together
    local_size = int(os.environ["HIPRESS_LOCAL_SIZE"]) // together
    # The launcher's socket belongs to its own job of all frameworks.
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
