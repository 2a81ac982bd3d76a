# SPDX-License-Identifier: Apache-2.0
"""The advice whether compression pays: for a codec that pays, for one that does not, and as a sentence."""

from __future__ import annotations

import pytest

from hipress.errors import InvalidArgument
from hipress.secopa.profile.gradients import Gradient, GradientSet
from hipress.secopa.profile.known_models import known_model, known_models
from hipress.secopa.profile.links import LinkCosts
from hipress.secopa.profile.profile import Profile, RankPlace
from hipress.secopa.whatif.advice import advice
from hipress.secopa.whatif.worth import PLAN, Allowed, Verdict, Worth, worth_of
from tests.secopa.profiles import codec, profile

#: Ten gradients with 40 MiB in all.
GRADIENTS = GradientSet(
    model="ten layers", gradients=tuple(Gradient(name=f"layer{i}", elements=1 << 20) for i in range(10))
)
#: A fast codec, and a codec that takes 40 s per gigabyte.
CODECS = {"onebit": codec(1 / 32, 4e9, 1e-5, error=0.6), "slow": codec(1 / 2, 2.5e7, error=0.01)}


def places(*hosts: str) -> dict[str, object]:
    return {"ranks": tuple(RankPlace(host=host, machine=host, cores=2) for host in hosts)}


def on_hosts(bandwidth: float, *hosts: str) -> Profile:
    measured = profile(CODECS, bandwidth=bandwidth)
    shared = LinkCosts(latency_s=1e-6, bandwidth_bytes_per_s=2e10)
    return measured.model_copy(update={**places(*hosts), "shared_memory": shared})


def verdicts(worth: Worth) -> dict[str, Verdict]:
    return {row.name: row.verdict for row in worth.rows}


def test_on_a_slow_network_a_fast_codec_pays_and_a_slow_one_loses() -> None:
    worth = worth_of(on_hosts(1.25e8, "a", "b", "c", "d"), GRADIENTS)
    assert verdicts(worth) == {
        "none": Verdict.BASE,
        "onebit": Verdict.PAYS,
        "slow": Verdict.LOSES,
        PLAN: Verdict.PAYS,
    }
    assert worth.rows[1].times_as_fast > 3
    assert worth.rows[1].sent_bytes < worth.rows[0].sent_bytes / 10
    sentence = advice(worth)
    assert sentence.startswith("Compression pays here: a plan that compresses 10 of 10 gradients with onebit")
    assert "on these 4 ranks" in sentence
    assert worth.pointless_from_bytes_per_s is not None
    assert 1.25e8 < worth.pointless_from_bytes_per_s < 1e12
    assert "bit/s or more it would save less than 3%" in sentence


def test_only_cleared_codecs_are_recommended() -> None:
    here = on_hosts(1.25e8, "a", "b", "c", "d")
    levels = {"onebit": "loses", "slow": "safe", "none": "exact"}
    worth = worth_of(here, GRADIENTS, allowed=Allowed("adam", ["none", "slow"], levels))
    assert [row.evidence for row in worth.rows] == ["exact", "loses", "safe", ""]
    assert verdicts(worth)[PLAN] is Verdict.DECLINES
    assert "with slow, the fastest codec" in advice(worth)
    none_cleared = worth_of(here, GRADIENTS, allowed=Allowed("adam", ["none"], levels))
    assert advice(none_cleared).startswith("No codec of this measurement is cleared for Adam, AdamW")
    named = worth_of(here, GRADIENTS, allowed=Allowed("adam", ["onebit"], levels))
    assert verdicts(named)[PLAN] is Verdict.PAYS
    assert advice(named).endswith(
        "; trainings have not cleared for Adam, AdamW and others that divide by second moments: onebit (loses)."
    )


def test_beyond_the_rate_that_it_names_compression_does_not_pay() -> None:
    slow = worth_of(on_hosts(1.25e8, "a", "b", "c", "d"), GRADIENTS)
    assert slow.pointless_from_bytes_per_s is not None
    worth = worth_of(on_hosts(2 * slow.pointless_from_bytes_per_s, "a", "b", "c", "d"), GRADIENTS)
    assert Verdict.PAYS not in verdicts(worth).values()
    assert verdicts(worth)[PLAN] is Verdict.DECLINES
    sentence = advice(worth)
    assert sentence.startswith("Compression does not pay here: averaging ten layers on these 4 ranks is predicted")
    assert "only with links slower than" in sentence
    assert "with onebit, the fastest codec" in sentence


def test_ranks_of_one_host_have_no_links() -> None:
    worth = worth_of(on_hosts(1.25e8, "a", "a"), GRADIENTS)
    assert worth.hosts == 1
    assert worth.pointless_from_bytes_per_s is None
    assert all(row.sent_bytes == 0 for row in worth.rows)
    assert "all ranks are on one host" in advice(worth)


def test_transfers_that_backward_hides_cost_nothing() -> None:
    released = GRADIENTS.model_copy(
        update={
            "backward_s": 60.0,
            "gradients": tuple(one.model_copy(update={"release_s": 1.0}) for one in GRADIENTS.gradients),
        }
    )
    worth = worth_of(on_hosts(1.25e8, "a", "b"), released)
    assert worth.uncompressed.step_s == 60.0
    assert worth.rows[1].verdict is Verdict.NEITHER
    assert advice(worth).startswith("Compression does not pay here")


def test_a_profile_without_codecs_or_ranks_is_told() -> None:
    without = on_hosts(1.25e8, "a", "b").model_copy(update={"codecs": {}})
    assert "has no codec" in advice(worth_of(without, GRADIENTS))
    with pytest.raises(InvalidArgument, match="1 ranks: one rank averages nothing"):
        worth_of(on_hosts(1.25e8, "a"), GRADIENTS)


def test_the_shipped_models_have_the_sizes_of_the_published_ones() -> None:
    parameters = {name: known_model(name).elements for name in known_models()}
    assert parameters == {
        "bert-base": 109_482_240,
        "gpt2": 124_439_808,
        "resnet50": 25_557_032,
        "vgg19": 143_667_240,
    }
    with pytest.raises(InvalidArgument, match=r"no model .resnet.: expected .* bert-base"):
        known_model("resnet")
