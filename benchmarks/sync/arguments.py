# SPDX-License-Identifier: Apache-2.0
"""The command line of sync.py."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.harness.arguments import codec_names, names_of, rate_name, topology_names
from benchmarks.harness.release import RELEASES
from benchmarks.harness.report import parse_size
from benchmarks.models import MODELS
from benchmarks.sync.job import PEER_NAMES


def arguments(description: str) -> argparse.ArgumentParser:
    """The parser; check() completes its result."""
    parser = argparse.ArgumentParser(
        description=description,
        epilog="--topology best tries each topology that makes sense, and measures the fastest, and one more that is "
        "within 10 % of it.",
    )
    where = parser.add_argument_group("ranks")
    where.add_argument("--nodes", type=int, help="nodes of an emulated cluster, which needs root (default: no cluster)")
    where.add_argument(
        "--rate", type=rate_name, help="rate of the nodes' links, such as 1gbit or 100mbit; none: unlimited"
    )
    where.add_argument("--ranks-per-node", type=int, default=1, help="ranks on each node (default: 1)")
    where.add_argument("--world", type=int, help="without --nodes: number of ranks on this machine (default: 4)")
    what = parser.add_argument_group("gradients")
    what.add_argument("--model", choices=MODELS, help="the gradients of a model")
    what.add_argument(
        "--size", type=parse_size, help="instead: the size of one float32 tensor, such as 1M or 4Mi (default: 100M)"
    )
    what.add_argument(
        "--release", choices=RELEASES, default="all", help="all gradients at once, or each when backward released it"
    )
    whom = parser.add_argument_group("systems")
    whom.add_argument(
        "--codec",
        type=codec_names,
        default="none",
        help="codecs of HiPress, separated by commas, such as none,fp16 (default: none)",
    )
    whom.add_argument(
        "--topology",
        type=topology_names,
        default="ps",
        help="topologies of HiPress, separated by commas; best: see below",
    )
    whom.add_argument(
        "--partitions", type=int, default=0, help="partitions in HiPress (default: by the size of the tensor)"
    )
    whom.add_argument("--min-compress-bytes", type=int, help="HiPress leaves smaller tensors uncompressed")
    whom.add_argument(
        "--peer",
        type=names_of("peer", PEER_NAMES),
        default="gloo-fp32",
        help=f"separated by commas: {','.join(PEER_NAMES)} (default: gloo-fp32)",
    )
    parser.add_argument(
        "--repeat",
        type=int,
        default=0,
        help="timed repetitions (default: about 10 s, at least 7; at least 5 if all systems together take over 5 s)",
    )
    parser.add_argument(
        "--timeout", type=float, default=120, help="deadline of one synchronisation in seconds (default: 120)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser


def check(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Refuses options that contradict each other, and sets defaults. Without --nodes all ranks are on one node."""
    if given.nodes is None and (given.rate is not None or given.ranks_per_node != 1):
        parser.error("--rate and --ranks-per-node are of an emulated cluster: give --nodes too")
    if given.nodes is not None and (given.rate is None or given.world is not None):
        parser.error("--nodes needs --rate (none: unshaped), and --ranks-per-node instead of --world")
    if given.model is not None and given.size is not None:
        parser.error("--model and --size: give one of them")
    if given.model is None and given.release != "all":
        parser.error("--release backward needs a --model, whose times are known")
    given.world = 4 if given.world is None else given.world
    given.size = parse_size("100M") if given.size is None else given.size
    nodes = 1 if given.nodes is None else given.nodes
    if min(given.world, nodes, given.ranks_per_node) < 1 or given.repeat < 0 or given.size < 4:
        parser.error(
            "--world, --nodes and --ranks-per-node must be at least 1, --repeat at least 0 (0: by itself), --size at "
            "least 4"
        )
    if given.partitions < 0 or (given.min_compress_bytes or 0) < 0 or not 0 < given.timeout < 1e6:
        parser.error("--partitions and --min-compress-bytes must be at least 0, --timeout more than 0")
    if given.nodes is None:
        given.ranks_per_node = given.world
    else:
        given.world = given.nodes * given.ranks_per_node
