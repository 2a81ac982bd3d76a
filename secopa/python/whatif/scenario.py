# SPDX-License-Identifier: Apache-2.0
"""Scenarios: profiles of clusters with other hosts and another network, derived from a measured profile."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hipress.errors import InvalidArgument
from hipress.secopa.plan.plan import MOST_RANKS
from hipress.secopa.profile.links import LinkCosts
from hipress.secopa.profile.profile import Profile, RankPlace


@dataclass(frozen=True)
class Scenario:
    """The differences from the measured cluster."""

    nodes: int
    ranks_per_node: int = 1
    bandwidth_bytes_per_s: float | None = None
    """Rate of each link in each direction; None: as measured."""
    latency_s: float | None = None
    """Latency of the network between two hosts; None: as measured."""
    one_machine: bool = False
    """Whether the hosts are emulated on one machine and share its cores."""

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.nodes * self.ranks_per_node


def profile_for(profile: Profile, scenario: Scenario) -> Profile:
    """The profile of the scenario's cluster, with the measured processors and codecs.

    Raises InvalidArgument if the scenario has several ranks per host and shared memory was not measured.
    """
    if scenario.nodes < 1 or scenario.ranks_per_node < 1:
        raise InvalidArgument("expected at least one host, and one rank on each")
    if scenario.world > MOST_RANKS:
        raise InvalidArgument(f"{scenario.world} ranks: expected {MOST_RANKS} at most")
    if scenario.ranks_per_node > 1 and profile.shared_memory is None:
        raise InvalidArgument(
            "the profile has no costs of shared memory: measure one with several ranks per host "
            "(hipress run -np 2 hipress profile)"
        )
    cores = profile.places(1)[0].cores
    measured = max(Counter(place.host for place in profile.ranks).values(), default=1)
    threads = profile.compute_threads
    if scenario.ranks_per_node != measured:
        # The runtime's default.
        threads = max(1, min(4, cores // scenario.ranks_per_node))
    changed = {
        "ranks": tuple(
            RankPlace(host=f"node{node}", machine="one" if scenario.one_machine else f"node{node}", cores=cores)
            for node in range(scenario.nodes)
            for _ in range(scenario.ranks_per_node)
        ),
        "compute_threads": threads,
        "link": _changed(profile.link, scenario),
        # The measured links are between hosts that the scenario does not have.
        "links": (),
    }
    return Profile.model_validate({name: getattr(profile, name) for name in Profile.model_fields} | changed)


def _changed(link: LinkCosts, scenario: Scenario) -> LinkCosts:
    changes: dict[str, float | None] = {}
    if scenario.bandwidth_bytes_per_s is not None:
        changes |= {"bandwidth_bytes_per_s": scenario.bandwidth_bytes_per_s, "duplex_bytes_per_s": None}
    if scenario.latency_s is not None:
        # A measured latency includes the processor time of both ends.
        changes["latency_s"] = scenario.latency_s + link.send_cpu_s_per_message + link.receive_cpu_s_per_message
    return link.model_copy(update=changes)
