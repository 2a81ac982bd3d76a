# SPDX-License-Identifier: Apache-2.0
"""Profiles: their files, links and places of ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hipress.errors import InvalidArgument
from hipress.secopa.profile.links import LinkBetween, LinkCosts
from hipress.secopa.profile.profile import Profile, RankPlace, read_profile, shipped_profiles
from tests.secopa.profiles import codec, profile


def on_hosts(*hosts: str, **more: object) -> Profile:
    ranks = tuple(RankPlace(host=host, machine="box", cores=2) for host in hosts)
    return Profile.model_validate({**profile().model_dump(), "ranks": ranks, **more})


def test_written_and_read_again(tmp_path: Path) -> None:
    written = profile()
    written.write(tmp_path / "profile.json")
    assert read_profile(tmp_path / "profile.json") == written
    assert read_profile(str(tmp_path / "profile.json")).fingerprint() == written.fingerprint()


def test_another_cost_has_another_fingerprint() -> None:
    assert profile().fingerprint() == profile().fingerprint()
    assert profile().fingerprint() != profile(latency=6e-5).fingerprint()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version: Input should be 1"),
        ({"codec": {}}, "codec: Extra inputs are not permitted"),
        ({"link": {"latency_s": -1, "bandwidth_bytes_per_s": 1}}, "link.latency_s: Input should be greater"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({**json.loads(profile().to_json()), **change}))
    with pytest.raises(InvalidArgument, match=f"{path} is no profile: {message}"):
        read_profile(path)


def test_what_is_neither_file_nor_name_says_what_there_is() -> None:
    with pytest.raises(InvalidArgument, match=r"no profile 'sosp22': expected a file, or .*: sosp21-56g"):
        read_profile("sosp22")
    with pytest.raises(InvalidArgument, match=r"cannot read nowhere\.json"):
        read_profile("nowhere.json")


def test_those_that_come_with_hipress_can_be_read() -> None:
    assert "sosp21-56g" in shipped_profiles()
    for name in shipped_profiles():
        assert read_profile(name).codecs


def test_links_that_differ() -> None:
    slow = LinkCosts(latency_s=1.0, bandwidth_bytes_per_s=1.0)
    memory = LinkCosts(latency_s=1e-6, bandwidth_bytes_per_s=1e10)
    links = (LinkBetween(source="a", destination="b", costs=slow),)
    hosts = on_hosts("a", "a", "b", links=links, shared_memory=memory)
    assert hosts.between("a", "b") == slow
    assert hosts.between("b", "a") == hosts.link
    assert hosts.between("a", "a") == memory


def test_hosts_of_several_ranks_need_shared_memory() -> None:
    with pytest.raises(ValueError, match="shared_memory is missing"):
        on_hosts("a", "a")


def test_a_link_of_unknown_hosts_is_refused() -> None:
    link = LinkBetween(source="a", destination="z", costs=LinkCosts(latency_s=0, bandwidth_bytes_per_s=1))
    with pytest.raises(ValueError, match="host 'z' has no rank"):
        on_hosts("a", "b", links=(link,))


def test_more_ranks_than_were_profiled_have_hosts_of_their_own() -> None:
    places = on_hosts("a", "b").places(4)
    assert [place.host for place in places] == ["a", "b", "rank2", "rank3"]
    assert len({place.machine for place in places}) == 3
    assert on_hosts("a", "b", "c").places(2) == on_hosts("a", "b").ranks


def test_times_for_threads() -> None:
    one = codec(0.5, 1e9)
    costs = one.model_copy(update={"threads": {2: one.threads[1], 4: codec(0.5, 2e9).threads[1]}})
    assert costs.times(1) is costs.times(2) is costs.times(3)
    assert costs.times(4) is costs.times(64) is not costs.times(2)


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(InvalidArgument, match="no codec 'twobit'; it has: onebit"):
        profile().codec("twobit")


def test_both_directions_at_once() -> None:
    link = LinkCosts(latency_s=0.5, bandwidth_bytes_per_s=10)
    assert (link.seconds(20), link.both_ways_bytes_per_s) == (2.5, 10)
    assert link.model_copy(update={"duplex_bytes_per_s": 6.0}).both_ways_bytes_per_s == 6
