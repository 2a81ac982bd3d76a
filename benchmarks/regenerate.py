# SPDX-License-Identifier: Apache-2.0
"""Measures everything in results/ again, one benchmark after the other: what `make bench` runs.

    python benchmarks/regenerate.py [NAME...]      only results whose file names contain one of these

A new benchmark adds its command lines to `RESULTS`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SYNC = ("sync.py", "--codec", "none,fp16,onebit", "--peer", "gloo,gloo-fp16")

#: File name without ending: script and arguments.
RESULTS: dict[str, tuple[str, ...]] = {
    "codec": ("codec.py", "--size", "64M"),
    **{
        f"sync-loopback-{world}x{size}": (*SYNC, "--world", str(world), "--size", size)
        for size in ("100M", "1M")
        for world in (4, 2)
    },
}


def main() -> int:
    """Run what is asked for; the number of benchmarks that failed."""
    wanted = [name for name in RESULTS if any(part in name for part in sys.argv[1:] or [""])]
    if not wanted:
        print(f"no result is called {' or '.join(sys.argv[1:])}; there are {', '.join(RESULTS)}", file=sys.stderr)
        return 2
    failed = 0
    for name in wanted:
        script, *arguments = RESULTS[name]
        # Figures taken beside other work say more about that work.
        print(f"\n{name} (load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores)", flush=True)
        command = [sys.executable, str(HERE / script), *arguments, "--json", str(HERE / "results" / f"{name}.json")]
        failed += subprocess.run(command).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
