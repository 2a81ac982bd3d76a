# SPDX-License-Identifier: Apache-2.0
"""Writes one sentence of advice: whether compression pays on this cluster."""

from __future__ import annotations

from hipress.secopa.evidence.optimizers import KINDS
from hipress.secopa.profile.quantities import rate, seconds
from hipress.secopa.whatif.simulate import POINTLESS
from hipress.secopa.whatif.worth import CERTAIN, Verdict, Worth


def advice(worth: Worth) -> str:
    """The advice with the predictions behind it, as one sentence."""
    raw, plan, codec = worth.uncompressed, worth.planned, worth.best_codec
    compressed = sum(one.choice.compressed for one in worth.plan.decisions)
    where = f"{worth.model} on these {worth.ranks} ranks"
    if compressed and plan.verdict is Verdict.PAYS:
        codecs = ", ".join(sorted({one.codec for one in worth.plan.decisions if one.choice.compressed}))
        return (
            f"Compression pays here: a plan that compresses {compressed} of {len(worth.plan.decisions)} gradients with "
            f"{codecs} is predicted to average {where} in {seconds(plan.step_s)} instead of {seconds(raw.step_s)}, "
            f"{plan.times_as_fast:.1f} times as fast{_until(worth)}{_one_host(worth)}{_not_cleared(worth)}."
        )
    if codec is None and worth.allowed is not None and len(worth.rows) > len(("uncompressed", "plan")):
        return (
            f"No codec of this measurement is cleared for {KINDS[worth.allowed.kind]}: averaging {where} is predicted "
            f"to take {seconds(raw.step_s)} uncompressed. `hipress evidence` shows what trainings have proved; give "
            "--optimizer, or --codec for one of your own choice."
        )
    if codec is None:
        return f"The profile has no codec, so it cannot say whether compression pays for {where}."
    if plan.step_s < raw.step_s * (1 - CERTAIN):
        without = f"; a plan that only groups gradients and chooses topologies takes {seconds(plan.step_s)}"
    else:
        without = ""
    return (
        f"Compression does not pay here: averaging {where} is predicted to take {seconds(raw.step_s)} uncompressed, "
        f"and {seconds(codec.step_s)} with {codec.name}, the fastest codec{without}{_from(worth)}{_one_host(worth)}."
    )


def _not_cleared(worth: Worth) -> str:
    """Of the plan's codecs: a user may name codecs that the evidence does not clear."""
    allowed = worth.allowed
    if allowed is None:
        return ""
    used = {one.codec for one in worth.plan.decisions if one.choice.compressed}
    doubtful = [f"{codec} ({allowed.levels.get(codec) or 'not trained'})" for codec in sorted(used)]
    doubtful = [text for text in doubtful if not text.endswith(("(safe)", "(exact)"))]
    if not doubtful:
        return ""
    return f"; trainings have not cleared for {KINDS[allowed.kind]}: {', '.join(doubtful)}"


def _one_host(worth: Worth) -> str:
    return "; all ranks are on one host, so this is no prediction for a network" if worth.hosts == 1 else ""


def _until(worth: Worth) -> str:
    found = worth.pointless_from_bytes_per_s
    return "" if found is None else f"; with links of {rate(found)} or more it would save less than {POINTLESS:.0%}"


def _from(worth: Worth) -> str:
    found = worth.pointless_from_bytes_per_s
    return "" if found is None else f"; it saves more than {POINTLESS:.0%} only with links slower than {rate(found)}"
