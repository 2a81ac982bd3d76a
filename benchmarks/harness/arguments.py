# SPDX-License-Identifier: Apache-2.0
"""Types of command-line arguments that several benchmarks use."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from benchmarks.cluster import ClusterError, bits_per_second
from benchmarks.harness.report import parse_names
from hipress._library import load_core
from hipress.errors import InvalidArgument

#: The value that stands for all topologies: the benchmark tries each, and measures the fastest.
BEST = "best"


def names_of(kind: str, known: Sequence[str]) -> Callable[[str], list[str]]:
    """The type of an argument with names of `known`, separated by commas."""

    def parse(text: str) -> list[str]:
        names = parse_names(text)
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{kind} {name!r} does not exist; the {kind}s are {', '.join(known)}")
        return names

    return parse


def rate_name(text: str) -> str:
    """The type of an argument with the rate of a link."""
    try:
        bits_per_second(text)
    except ClusterError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text.lower()


def codec_names(text: str) -> list[str]:
    """The type of an argument with codecs, separated by commas."""
    names = parse_names(text)
    if not names:
        raise argparse.ArgumentTypeError("expected a codec; for no compression: none")
    for name in names:
        try:
            # Check once here, before any rank starts.
            load_core().create_codec(name)
        except InvalidArgument as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return names


def topology_names(text: str) -> list[str]:
    """The type of an argument with topologies, separated by commas."""
    names = parse_names(text)
    known = load_core().topology_names()
    for name in names or [text]:
        # A topology may have options, such as hierarchical(ring).
        if name != BEST and name.partition("(")[0] not in known:
            raise argparse.ArgumentTypeError(f"there is no topology {name!r}; choose from {', '.join(known)}, {BEST}")
    return names
