# SPDX-License-Identifier: Apache-2.0
"""How long one tensor takes to be averaged over all ranks of this machine, beside PyTorch's own Gloo in the same run.

    python benchmarks/sync.py --world 4 --size 100M --codec none,fp16,onebit --peer gloo,gloo-fp16 --json FILE

Starts the ranks itself. What is measured, how, and what the columns mean: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
from pathlib import Path

from report import format_size, parse_names, parse_size, print_table, write_json
from sync_rank import Job
from sync_systems import PEERS

from hipress._library import load_core
from hipress.errors import InvalidArgument
from hipress.launcher import LaunchOptions, launch


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--world", type=int, default=4, help="number of ranks (default: 4)")
    parser.add_argument(
        "--size", type=parse_size, default="100M", help="of the float32 tensor: 1M, 4Mi (default: 100M)"
    )
    parser.add_argument("--codec", type=_codecs, default="none", help="of ours, by commas: none,fp16 (default: none)")
    parser.add_argument("--topology", default="ps", help="of ours (default: ps)")
    parser.add_argument("--partitions", type=int, default=0, help="of ours (default: by the tensor's size)")
    parser.add_argument("--peer", type=_peers, default="gloo", help=f"by commas: {','.join(PEERS)} (default: gloo)")
    parser.add_argument("--repeat", type=int, default=0, help="timed repetitions (default: about 10 s, at least 7)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows there")
    return parser


def _codecs(text: str) -> list[str]:
    names = parse_names(text)
    if not names:
        raise argparse.ArgumentTypeError("no codec; to send values as they are: none")
    for name in names:
        try:
            # Here, once and before anything starts, rather than in every rank.
            load_core().create_codec(name)
        except InvalidArgument as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return names


def _peers(text: str) -> list[str]:
    names = parse_names(text)
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"peer {name!r} does not exist; the peers are {', '.join(PEERS)}")
    return names


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def main() -> int:
    """Measure as the command line says; the exit code."""
    parser = arguments()
    given = parser.parse_args()
    if given.world < 1 or given.repeat < 0 or given.size < 4:
        parser.error("--world must be at least 1, --repeat at least 0 (0: by itself), --size at least 4")
    with tempfile.TemporaryDirectory() as directory:
        job = Job(
            size=given.size,
            codecs=given.codec,
            topology=given.topology,
            partitions=given.partitions,
            peers=given.peer,
            repeats=given.repeat,
            gloo_port=_free_port(),
            result=os.path.join(directory, "rows.json"),
        )
        # One thread for everybody's computing: ranks share the cores.
        code = launch(LaunchOptions(command=job.command(), size=given.world, env={"OMP_NUM_THREADS": "1"}))
        if code != 0:
            print(f"sync.py: a rank failed (exit code {code}); its output is above", file=sys.stderr)
            return code
        rows = json.loads(Path(job.result).read_text())
    print(f"{format_size(given.size)} of float32, averaged over {given.world} ranks, OMP_NUM_THREADS=1 for all:")
    print_table(rows, leave_out=("codec", "topology"))  # the name says as much
    if given.json:
        write_json(given.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
