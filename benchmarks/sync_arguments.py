# SPDX-License-Identifier: Apache-2.0
"""The command line of sync.py."""

from __future__ import annotations

import argparse
from pathlib import Path

from cluster import ClusterError, bits_per_second
from models import MODELS
from rank_jobs import names_of
from report import parse_names, parse_size
from sync_job import PEER_NAMES, RELEASES

from hipress._library import load_core
from hipress.errors import InvalidArgument

#: Among topologies: all are tried, the fastest measured.
BEST = "best"


def arguments(description: str) -> argparse.ArgumentParser:
    """The command line; `check` completes what it parses."""
    parser = argparse.ArgumentParser(
        description=description,
        epilog="--topology best: those that make sense are tried once each, and the fastest, with one more that is "
        "within 10 % of it, is measured beside the peers.",
    )
    where = parser.add_argument_group("ranks")
    where.add_argument("--nodes", type=int, help="of an emulated cluster, which needs root (default: none is made)")
    where.add_argument("--rate", type=rate_name, help="of the nodes' links: 1gbit, 100mbit; none: unshaped")
    where.add_argument("--ranks-per-node", type=int, default=1, help="(default: 1)")
    where.add_argument("--world", type=int, help="without --nodes: ranks on this machine (default: 4)")
    what = parser.add_argument_group("gradients")
    what.add_argument("--model", choices=MODELS, help="the gradients of a model")
    what.add_argument("--size", type=parse_size, help="instead: one float32 tensor, 1M, 4Mi (default: 100M)")
    what.add_argument("--release", choices=RELEASES, default="all", help="all at once, or when backward had them")
    whom = parser.add_argument_group("systems")
    whom.add_argument("--codec", type=codec_names, default="none", help="of ours, by commas: none,fp16 (default: none)")
    whom.add_argument(
        "--topology", type=topology_names, default="ps", help="of ours, by commas; best: see below (default: ps)"
    )
    whom.add_argument("--partitions", type=int, default=0, help="of ours (default: by the tensor's size)")
    whom.add_argument("--min-compress-bytes", type=int, help="of ours: smaller tensors travel as they are")
    whom.add_argument(
        "--peer",
        type=names_of("peer", PEER_NAMES),
        default="gloo-fp32",
        help=f"by commas: {','.join(PEER_NAMES)} (default: gloo-fp32)",
    )
    parser.add_argument(
        "--repeat",
        type=int,
        default=0,
        help="timed repetitions (default: about 10 s, at least 7; at least 5 if all systems together take over 5 s)",
    )
    parser.add_argument("--timeout", type=float, default=120, help="of one synchronisation, in seconds (default: 120)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows there")
    return parser


def check(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Refuses what does not go together; fills in what is left out. Without --nodes all ranks are of one node."""
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


def rate_name(text: str) -> str:
    """The type of an argument that is a link's rate."""
    try:
        bits_per_second(text)
    except ClusterError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text.lower()


def codec_names(text: str) -> list[str]:
    """The type of an argument that names codecs by commas."""
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


def topology_names(text: str) -> list[str]:
    """The type of an argument that names topologies by commas."""
    names = parse_names(text)
    known = load_core().topology_names()
    for name in names or [text]:
        # A topology may have options, as a codec has.
        if name != BEST and name.partition("(")[0] not in known:
            raise argparse.ArgumentTypeError(f"there is no topology {name!r}; choose from {', '.join(known)}, {BEST}")
    return names
