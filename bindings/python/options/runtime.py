# SPDX-License-Identifier: Apache-2.0
"""The options of init(). Signature, checks, variables, docstring and the guide's table come from this declaration.

Not `from __future__ import annotations`: hipress.options.declaration reads these at run time.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from hipress.errors import InvalidArgument
from hipress.options.declaration import Declared, Option, declared

#: The range of heartbeat and heartbeat_limit in seconds.
_SHORTEST_BEAT, _LONGEST_BEAT = 0.01, 86400


@dataclass(frozen=True, kw_only=True)
class RuntimeOptions:
    """The options of this rank's engine. init() takes each from an argument, or else from its environment variable."""

    timeout: Annotated[
        float,
        Option(
            "Seconds from the submission of a tensor to its deadline on all ranks; also the limit for agreements among "
            "ranks.",
            above=0,
            of_engine=True,
        ),
    ] = 600.0
    start_timeout: Annotated[
        float,
        Option(
            "Seconds for all ranks to arrive at `init()` and to connect.",
            above=0,
            default_text="60, or `timeout` if that is given",
        ),
    ] = 60.0
    stall_warning: Annotated[
        float,
        Option(
            "Seconds after which a waiting rank names on stderr the ranks and tensors that it waits for, repeatedly; "
            "0: never.",
            at_least=0,
            of_engine=True,
        ),
    ] = 60.0
    compute_threads: Annotated[
        int,
        Option(
            "Threads of this rank that encode, merge and decode.",
            above=0,
            of_engine=True,
            default_text="cores per rank, 1 to 4",
        ),
    ] = 1
    partition_bytes: Annotated[
        int,
        Option(
            "Larger tensors are split into partitions of about this size, in bytes of raw values.",
            above=0,
            same_on_all_ranks=True,
            of_engine=True,
        ),
    ] = 4 << 20
    window_bytes: Annotated[
        int,
        Option(
            "Bytes of messages to each peer that the network has at a time; further messages wait, ordered by "
            "priority.",
            above=0,
            of_engine=True,
        ),
    ] = 16 << 20
    bundle_bytes: Annotated[
        int,
        Option(
            "Small messages to one peer travel in bundles of up to this many bytes, where a message alone is costly "
            "(TCP); 0: never.",
            at_least=0,
            of_engine=True,
        ),
    ] = 64 << 10
    bundle_message_bytes: Annotated[
        int,
        Option("Larger messages never join a bundle.", at_least=0, of_engine=True),
    ] = 16 << 10
    bundle_linger: Annotated[
        float,
        Option(
            "The longest time in seconds that a small message waits for further small messages, while an earlier "
            "message to the same peer is in flight.",
            above=0,
            of_engine=True,
        ),
    ] = 0.005
    rounds: Annotated[
        bool,
        Option(
            "Large messages go in link rounds: each rank uses one link at a time, so that not all ranks send to one at "
            "once.",
            same_on_all_ranks=True,
            of_engine=True,
        ),
    ] = False
    round_bytes: Annotated[
        int,
        Option("The most bytes of a link round; a single message may be larger.", above=0, of_engine=True),
    ] = 1 << 20
    coordinator: Annotated[
        str,
        Option(
            "Which rank chooses the links of a link round: `none`, every rank for itself; `rank0`, rank 0 for all "
            "ranks, which implies link rounds.",
            one_of=("none", "rank0"),
            same_on_all_ranks=True,
            of_engine=True,
        ),
    ] = "none"
    heartbeat: Annotated[
        float,
        Option(
            "Seconds between two beats, by which each host shows that it is alive.",
            above=0,
            default_text="1, or a quarter of `heartbeat_limit` if that is less",
        ),
    ] = 1.0
    heartbeat_limit: Annotated[
        float,
        Option(
            "Seconds without an answer after which a host is lost; give more on networks that stall longer.", above=0
        ),
    ] = 7.0
    network: Annotated[
        str,
        Option(
            "Devices (`eth1`, `mlx5_0:1`), subnets (`10.0.0.0/16`) or kinds (`rdma`, `tcp`) that gradients may take, "
            "separated by commas; empty: every device that leads to the other ranks. The ranks take the fastest.",
            variable="HIPRESS_NET",
        ),
    ] = ""
    seed: Annotated[
        int,
        Option(
            "Seed of random rounding (`terngrad`, `qsgd`, `natural`, and codecs with `stochastic`), and of the places "
            "of `randomk`.",
            at_least=0,
            same_on_all_ranks=True,
            of_engine=True,
        ),
    ] = 0
    pipelining: Annotated[
        bool,
        Option(
            "False: the engine synchronises one tensor after the other, in the order of submission, which must be the "
            "same on all ranks. This shows the gain of overlap.",
            same_on_all_ranks=True,
            of_engine=True,
        ),
    ] = True
    priorities: Annotated[
        bool,
        Option(
            "False: messages go in the order in which they are ready. True: messages that the next forward pass needs "
            "first go first.",
            of_engine=True,
        ),
    ] = True
    trace: Annotated[str, Option("File for a Chrome/Perfetto trace; empty: nothing is recorded.")] = ""
    check_replicas: Annotated[
        int,
        Option(
            "Number of steps after which all ranks compare hashes of their parameters; 0: never.",
            at_least=0,
            same_on_all_ranks=True,
        ),
    ] = 0

    @staticmethod
    def from_environment(**given: Any) -> "RuntimeOptions":
        """Takes each option from `given` if it is not None there, else from the environment, else from the defaults.

        Raises InvalidArgument, with the option or variable, for a value of a wrong type or out of range.
        """
        values = _read(given, os.environ)
        if "timeout" in values:
            values.setdefault("start_timeout", values["timeout"])
        options = RuntimeOptions(**values)
        return options._with_heartbeat(given="heartbeat" in values)

    def _with_heartbeat(self, *, given: bool) -> "RuntimeOptions":
        """Fills and checks the heartbeat. The limit must be several beats, because TCP repeats a lost beat late."""
        if min(self.heartbeat, self.heartbeat_limit) < _SHORTEST_BEAT or self.heartbeat_limit > _LONGEST_BEAT:
            raise InvalidArgument(
                f"heartbeat={self.heartbeat:g} and heartbeat_limit={self.heartbeat_limit:g}: both are seconds from "
                f"{_SHORTEST_BEAT} to {_LONGEST_BEAT} (HIPRESS_HEARTBEAT, HIPRESS_HEARTBEAT_LIMIT)"
            )
        if not given:
            return replace(self, heartbeat=min(self.heartbeat, self.heartbeat_limit / 4))
        if self.heartbeat > self.heartbeat_limit / 2:
            raise InvalidArgument(
                f"heartbeat={self.heartbeat:g}, the interval, must be at most half of "
                f"heartbeat_limit={self.heartbeat_limit:g} (HIPRESS_HEARTBEAT, HIPRESS_HEARTBEAT_LIMIT)"
            )
        return self

    def of_engine(self) -> dict[str, Any]:
        """The options that the core's engine takes, by name."""
        return {name: getattr(self, name) for name, each in RUNTIME_OPTIONS.items() if each.option.of_engine}


RUNTIME_OPTIONS: Mapping[str, Declared] = declared(RuntimeOptions)


def _read(given: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The values that arguments or variables give, checked and converted to the option's type."""
    if unknown := sorted(set(given) - set(RUNTIME_OPTIONS)):
        raise TypeError(f"init() has no option '{unknown[0]}'; the options are {', '.join(RUNTIME_OPTIONS)}")
    values: dict[str, Any] = {}
    for name, each in RUNTIME_OPTIONS.items():
        source, value = name, given.get(name)
        if value is None:
            source, value = each.variable, environ.get(each.variable)
        if value is None:
            continue
        try:
            values[name] = _switch(value) if each.kind is bool else each.kind(value)
        except (TypeError, ValueError, OverflowError):
            raise InvalidArgument(f"{source}={value!r} is not a valid {each.kind.__name__}") from None
        each.check(values[name], f"{source}={value!r}")
    return values


def _switch(value: object) -> bool:
    """A switch: True or False as an argument, 1 or 0 in a variable."""
    if value in (True, "1"):
        return True
    if value in (False, "0"):
        return False
    raise ValueError
