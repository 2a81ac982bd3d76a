# SPDX-License-Identifier: Apache-2.0
"""One rank of the start: it meets the others, and agrees with them on a list of tensors. It imports no framework."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # Python adds only the script's own folder to the path

from hipress import _core, runtime


def main() -> None:
    """Measures the job in the only argument."""
    job = json.loads(sys.argv[1])
    before = time.process_time()
    runtime.init(start_timeout=job["timeout"], timeout=job["timeout"])
    engine = runtime.current().engine
    met = time.time()
    engine.agree("start", [_core.TensorSpec(f"layer{each}.weight", count=1000) for each in range(job["tensors"])])
    engine.allgather("all have agreed", b"", job["timeout"])
    if runtime.rank() == 0:
        agreed = time.time()
        answer = {
            "met_s": met - job["begun"],
            "agreed_s": agreed - job["begun"],
            "rank0_cpu_s": time.process_time() - before,
            "rank0_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        Path(job["result"]).write_text(json.dumps(answer))
    engine.allgather("rank 0 has written", b"", job["timeout"])
    runtime.shutdown()


if __name__ == "__main__":
    main()
