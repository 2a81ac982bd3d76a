# SPDX-License-Identifier: Apache-2.0
"""A profile: the measured costs of every part of a step on one cluster, in seconds and bytes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import FailFast, Field, model_validator
from typing_extensions import Self

from hipress.errors import InvalidArgument
from hipress.secopa.profile.curves import CostCurve, EncodedSizes, PublishedCurve
from hipress.secopa.profile.document import Document, Part
from hipress.secopa.profile.gradients import GradientSet
from hipress.secopa.profile.linked import LinkedCosts
from hipress.secopa.profile.links import LinkBetween, LinkCosts


class MachineDescription(Part):
    """The machine on which the profile was measured, for the reader."""

    text: str
    cores: int | None = Field(default=None, ge=1)
    isa: str = ""
    """The instruction-set level of the codecs."""


class RankPlace(Part):
    """The host and the machine of a rank. The ranks of a `host` share memory; the emulated hosts of a `machine` share
    its cores."""

    host: str
    machine: str
    cores: int = Field(ge=1)
    """Cores of the machine."""


class CodecTimes(Part):
    """The costs of one codec, as functions of the raw bytes of float32."""

    encode: CostCurve
    decode: CostCurve
    merge: CostCurve
    """Decoding a payload and adding it to a sum that was written just before."""


class InSteps(Part):
    """The factors by which a codec is slower inside a step, where other work shares processors, caches and memory."""

    partition_bytes: int = Field(gt=0)
    coding: float = Field(gt=0)
    """Factor of encoding and decoding."""
    merging: float = Field(gt=0)
    """Factor of merging."""


#: The factors of a codec that was not measured inside steps.
AS_ALONE = InSteps(partition_bytes=1, coding=1.0, merging=1.0)


class CodecCosts(Part):
    """The costs of a codec, the bytes that it produces and the error that it makes."""

    threads: dict[int, CodecTimes] = Field(min_length=1)
    """The times by the number of threads that work on one tensor."""
    encoded: EncodedSizes
    crowding: Annotated[tuple[float, ...], FailFast()] = (1.0,)
    """Item i: the factor by which coding takes longer while i other cores of the machine compute, too. Cores share the
    memory, and hyper-threads share a core."""
    in_steps: Annotated[tuple[InSteps, ...], FailFast()] = ()
    """The factors by partition size. Between two sizes they are interpolated over the logarithm of the size; outside
    the measured sizes the nearest size counts. Empty: all factors are 1."""
    relative_error: float | None = Field(default=None, ge=0)
    """‖x − decoded‖ / ‖x‖ of one encoding of normally distributed values, without error feedback; None if not
    measured."""
    states: int | float = Field(default=0, ge=0)
    """Number of vectors of the gradient's length that the codec keeps from step to step. A state with one value for
    each block of elements is a part of one."""
    merges_decoded: bool = False
    """Whether an aggregator encodes and decodes its own contribution before it merges it."""
    takes_groups: bool = True
    """Whether a group of gradients can have the codec."""

    def in_step(self, size: float) -> InSteps:
        """`in_steps`, interpolated for partitions of `size` bytes."""
        if not self.in_steps:
            return AS_ALONE
        known = [np.log(one.partition_bytes) for one in self.in_steps]

        def at(factors: list[float]) -> float:
            return float(np.interp(np.log(max(1.0, size)), known, factors))

        # Every simulated step calls this function, so it skips validation.
        return InSteps.model_construct(
            partition_bytes=max(1, int(size)),
            coding=at([one.coding for one in self.in_steps]),
            merging=at([one.merging for one in self.in_steps]),
        )

    def times(self, threads: int) -> CodecTimes:
        """The times of the largest measured number of threads up to `threads`; without one, of the smallest number."""
        fitting = [count for count in self.threads if count <= threads]
        return self.threads[max(fitting) if fitting else min(self.threads)]

    @model_validator(mode="after")
    def _ascends(self) -> Self:
        sizes = [one.partition_bytes for one in self.in_steps]
        if sizes != sorted(set(sizes)):
            raise ValueError("in_steps: partition_bytes must ascend")
        return self


class Overheads(Part):
    """The costs of the engine itself."""

    submission_s: float = Field(default=0.0, ge=0)
    """Seconds per tensor for its submission and its completion."""
    task_s: float = Field(default=0.0, ge=0)
    """Seconds per task of a queue."""


class CollectiveCosts(Part):
    """Whole communication steps, as the original published them, by the bytes of the partition that each rank sends."""

    ring_step: PublishedCurve
    ps_gather: dict[int, PublishedCurve] = Field(min_length=1)
    """The curves by number of hosts."""
    ps_broadcast: dict[int, PublishedCurve] = Field(min_length=1)


class Profile(Document):
    """The measured costs of one cluster. `Profile.read()` reads a file; read_profile() also takes a shipped profile's
    name."""

    version: Literal[1] = 1
    made: str
    """Date of the measurement, and the program that made it."""
    machine: MachineDescription
    ranks: Annotated[tuple[RankPlace, ...], FailFast()] = ()
    """The place of each rank. Empty: each rank of the plan has its own host and its own machine."""
    compute_threads: int = Field(default=1, ge=1)
    """Compute threads of each rank."""
    codecs: dict[str, CodecCosts]
    """The costs by the codec's text, such as "onebit" or "dgc(ratio=0.01)"."""
    linked: dict[str, LinkedCosts] = Field(default_factory=dict)
    """The costs of codecs that send a tensor as two linked tensors, by the codec's text."""
    sum: CostCurve
    """The cost of adding raw values to a sum, by their bytes."""
    sum_crowding: Annotated[tuple[float, ...], FailFast()] = (1.0,)
    """The factors of CodecCosts.crowding for adding."""
    link: LinkCosts
    """The costs between two hosts that `links` does not name."""
    links: Annotated[tuple[LinkBetween, ...], FailFast()] = ()
    messages_in_steps: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """The factor, by topology, by which uncompressed messages need more processor time inside steps than on an idle
    machine. Encoded messages and topologies without an entry have the factor of ps; empty: all factors are 1."""
    shared_memory: LinkCosts | None = None
    """The costs between two ranks of a host; None if no host has several ranks."""
    overheads: Overheads = Overheads()
    collectives: CollectiveCosts | None = None
    gradients: GradientSet | None = None
    """The gradients of the model that was trained during the measurement."""

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
        """The costs from a rank on one host to a rank on another host, or through shared memory on the same host."""
        if source == destination and self.shared_memory is not None:
            return self.shared_memory
        return self._by_hosts.get((source, destination), self.link)

    def message_times(self, topology: str, compressed: bool) -> float:
        """The factor of `messages_in_steps` for one tensor.

        An uncompressed ring message is still in a cache when the rank adds and forwards it. An encoded message is
        decoded first, so the topology makes no difference to it.
        """
        as_ps = self.messages_in_steps.get("ps", 1.0)
        return as_ps if compressed else self.messages_in_steps.get(topology, as_ps)

    def places(self, world: int) -> tuple[RankPlace, ...]:
        """The places of `world` ranks: first the ranks of the profile, then ranks with one host each."""
        if world <= len(self.ranks):
            return self.ranks[:world]
        return self.ranks + tuple(
            RankPlace(host=f"rank{rank}", machine=f"rank{rank}", cores=self._cores())
            for rank in range(len(self.ranks), world)
        )

    def _cores(self) -> int:
        return self.machine.cores or self.compute_threads

    def codec(self, text: str) -> CodecCosts:
        """The costs of a codec. Raises InvalidArgument, which lists the known codecs, for an unknown one."""
        costs = self.costs(text)
        if isinstance(costs, LinkedCosts):
            raise InvalidArgument(f"codec '{text}' sends two linked tensors, and this needs a codec that sends one")
        return costs

    def costs(self, text: str) -> CodecCosts | LinkedCosts:
        """As codec(), also for a codec that sends linked tensors."""
        found = self.codecs.get(text) or self.linked.get(text)
        if found is None:
            known = ", ".join(self.codec_names) or "none"
            raise InvalidArgument(f"the profile has no codec '{text}'; it has: {known}")
        return found

    @property
    def codec_names(self) -> tuple[str, ...]:
        """The texts of all codecs."""
        return (*self.codecs, *self.linked)

    def with_codecs(self, texts: Iterable[str]) -> Profile:
        """The profile with these codecs only. Raises InvalidArgument for an unknown one."""
        costs = {text: self.costs(text) for text in texts}
        linked = {text: one for text, one in costs.items() if isinstance(one, LinkedCosts)}
        codecs = {text: one for text, one in costs.items() if text not in linked}
        return self.model_copy(update={"codecs": codecs, "linked": linked})


def shipped_profiles() -> list[str]:
    """The names of the profiles that are shipped with HiPress."""
    folder = resources.files("hipress.secopa.profile") / "profiles"
    return sorted(file.name.removesuffix(".json") for file in folder.iterdir() if file.name.endswith(".json"))


def read_profile(which: str | Path) -> Profile:
    """Reads a file, or the shipped profile of that name. Raises InvalidArgument if there is neither."""
    if str(which) in shipped_profiles():
        text = (resources.files("hipress.secopa.profile") / "profiles" / f"{which}.json").read_text(encoding="utf-8")
        return Profile.parse(text, f"profile '{which}'")
    if isinstance(which, str) and not Path(which).suffix and not Path(which).exists():
        known = ", ".join(shipped_profiles())
        raise InvalidArgument(f"no profile '{which}': expected a file, or the name of a shipped profile: {known}")
    return Profile.read(which)
