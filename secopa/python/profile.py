# SPDX-License-Identifier: Apache-2.0
"""A profile: what everything that a step consists of costs on these machines. Seconds and bytes throughout."""

from __future__ import annotations

from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator
from typing_extensions import Self

from hipress.errors import InvalidArgument
from hipress.secopa.choice import Choice
from hipress.secopa.curves import CostCurve, EncodedSizes, PublishedCurve
from hipress.secopa.document import Document, Part
from hipress.secopa.gradients import GradientSet
from hipress.secopa.links import LinkBetween, LinkCosts


class MachineDescription(Part):
    """Where it was measured, for the reader."""

    text: str
    cores: int | None = Field(default=None, ge=1)
    isa: str = ""
    """The instruction-set level that codecs used."""


class RankPlace(Part):
    """Ranks of one `host` share memory; hosts of one `machine`, such as emulated nodes, share its processors."""

    host: str
    machine: str
    cores: int = Field(ge=1)
    """Of the machine."""


class CodecTimes(Part):
    """By raw bytes of float32, whatever they become."""

    encode: CostCurve
    decode: CostCurve
    merge: CostCurve
    """Decoding and adding to what was written just before."""


class InSteps(Part):
    """How many times as long a codec takes inside steps, where processors, caches and memory do other things, too."""

    partition_bytes: int = Field(gt=0)
    coding: float = Field(gt=0)
    """Encoding and decoding."""
    merging: float = Field(gt=0)


#: Where nothing was measured inside steps.
AS_ALONE = InSteps(partition_bytes=1, coding=1.0, merging=1.0)


class CodecCosts(Part):
    """What a codec costs, and what it is good for."""

    threads: dict[int, CodecTimes] = Field(min_length=1)
    """By how many threads work on one tensor."""
    encoded: EncodedSizes
    crowding: tuple[float, ...] = (1.0,)
    """By how many cores of a machine compute at a time, from one: how many times as long each takes. Cores share memory
    and, as hyper-threads do, parts of themselves."""
    in_steps: tuple[InSteps, ...] = ()
    """By partitions' sizes; between them on the line over the logarithm of the size, beyond them as the nearest. Empty:
    as long as alone."""
    relative_error: float | None = Field(default=None, ge=0)
    """‖x − decoded‖ / ‖x‖ of one encoding of gradients, before error feedback; None: not measured."""
    states: int = Field(default=0, ge=0)
    """Vectors of the gradient's length that it keeps from step to step."""

    def in_step(self, size: float) -> InSteps:
        """`in_steps` for partitions of so many bytes."""
        if not self.in_steps:
            return AS_ALONE
        known = [np.log(one.partition_bytes) for one in self.in_steps]

        def at(factors: list[float]) -> float:
            return float(np.interp(np.log(max(1.0, size)), known, factors))

        return InSteps(
            partition_bytes=max(1, int(size)),
            coding=at([one.coding for one in self.in_steps]),
            merging=at([one.merging for one in self.in_steps]),
        )

    def times(self, threads: int) -> CodecTimes:
        """Those of the largest measured number of threads that is not above `threads`; else of the smallest."""
        fitting = [count for count in self.threads if count <= threads]
        return self.threads[max(fitting) if fitting else min(self.threads)]

    @model_validator(mode="after")
    def _ascends(self) -> Self:
        sizes = [one.partition_bytes for one in self.in_steps]
        if sizes != sorted(set(sizes)):
            raise ValueError("in_steps: partition_bytes have to ascend")
        return self


class Overheads(Part):
    """What the engine itself costs."""

    submission_s: float = Field(default=0.0, ge=0)
    """Per tensor: handing it over, and being told that it is done."""
    task_s: float = Field(default=0.0, ge=0)
    """Per task that goes through a queue."""


class CollectiveCosts(Part):
    """Whole communication steps, as the original published them. By bytes of the partition that each rank sends."""

    ring_step: PublishedCurve
    ps_gather: dict[int, PublishedCurve] = Field(min_length=1)
    """By the number of nodes."""
    ps_broadcast: dict[int, PublishedCurve] = Field(min_length=1)


class Profile(Document):
    """See the module. `Profile.read()` for a file, read_profile() for one that comes with HiPress, too."""

    version: Literal[1] = 1
    made: str
    """When and by what."""
    machine: MachineDescription
    ranks: tuple[RankPlace, ...] = ()
    """Empty: one host per rank, each a machine of its own, as many as a plan is for."""
    compute_threads: int = Field(default=1, ge=1)
    """Of each rank."""
    codecs: dict[str, CodecCosts]
    """By the codec's text, such as "onebit" or "dgc(ratio=0.01)"."""
    sum: CostCurve
    """Adding raw values to others, by their bytes."""
    sum_crowding: tuple[float, ...] = (1.0,)
    """As of codecs."""
    link: LinkCosts
    """Between any two hosts that `links` does not name."""
    links: tuple[LinkBetween, ...] = ()
    messages_in_steps: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """By topology: how many times as much of the processors messages take inside steps without compression, beside
    everything else. Of topologies that are not in it, and of encoded messages, as of ps; empty: as much as alone."""
    shared_memory: LinkCosts | None = None
    """Between ranks of a host; None: not measured, no host has several."""
    overheads: Overheads = Overheads()
    collectives: CollectiveCosts | None = None
    gradients: GradientSet | None = None
    """Of the model that was trained meanwhile."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        hosts = [place.host for place in self.ranks]
        if self.shared_memory is None and len(set(hosts)) < len(hosts):
            raise ValueError("ranks share a host, and shared_memory is missing")
        for link in self.links:
            for host in (link.source, link.destination):
                if host not in hosts:
                    raise ValueError(f"links: host '{host}' has no rank")
        return self

    @cached_property
    def _by_hosts(self) -> dict[tuple[str, str], LinkCosts]:
        return {(link.source, link.destination): link.costs for link in self.links}

    def between(self, source: str, destination: str) -> LinkCosts:
        """From a rank on one host to a rank on another or, through shared memory, on the same."""
        if source == destination and self.shared_memory is not None:
            return self.shared_memory
        return self._by_hosts.get((source, destination), self.link)

    def message_times(self, choice: Choice) -> float:
        """`messages_in_steps` of what travels like that. What comes in by a ring is in a cache still when it is added
        up and sent on; of encoded messages codecs make something else first."""
        as_ps = self.messages_in_steps.get("ps", 1.0)
        return as_ps if choice.compressed else self.messages_in_steps.get(choice.topology, as_ps)

    def places(self, world: int) -> tuple[RankPlace, ...]:
        """Where `world` ranks are. More than were profiled are on hosts like the last one's; fewer are the first."""
        if world <= len(self.ranks):
            return self.ranks[:world]
        return self.ranks + tuple(
            RankPlace(host=f"rank{rank}", machine=f"rank{rank}", cores=self._cores())
            for rank in range(len(self.ranks), world)
        )

    def _cores(self) -> int:
        return self.machine.cores or self.compute_threads

    def codec(self, text: str) -> CodecCosts:
        """Raises InvalidArgument that lists the codecs there are."""
        if text not in self.codecs:
            raise InvalidArgument(f"the profile has no codec '{text}'; it has: {', '.join(self.codecs) or 'none'}")
        return self.codecs[text]


def shipped_profiles() -> list[str]:
    """Names of those that come with HiPress."""
    folder = resources.files("hipress.secopa") / "profiles"
    return sorted(file.name.removesuffix(".json") for file in folder.iterdir() if file.name.endswith(".json"))


def read_profile(which: str | Path) -> Profile:
    """By file, or by the name of one that comes with HiPress. Raises InvalidArgument."""
    if str(which) in shipped_profiles():
        text = (resources.files("hipress.secopa") / "profiles" / f"{which}.json").read_text(encoding="utf-8")
        return Profile.parse(text, f"profile '{which}'")
    if isinstance(which, str) and not Path(which).suffix and not Path(which).exists():
        known = ", ".join(shipped_profiles())
        raise InvalidArgument(f"no profile '{which}': expected a file, or one that comes with HiPress: {known}")
    return Profile.read(which)
