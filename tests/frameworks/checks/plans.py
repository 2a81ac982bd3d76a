# SPDX-License-Identifier: Apache-2.0
"""The bytes and messages of training are the plan's, from the step in which the plan is set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hipress import _core
from hipress.secopa.online.automatic import AutomaticOptions
from hipress.secopa.plan.plan import Decision, Plan
from tests.frameworks.adapters.adapter import Adapter
from tests.frameworks.checks.training import batches, reference, start_weights
from tests.listening import listening

HEADER = 32
SIZES = {"w": 40 * 70, "b": 70}


def _plan(adapter: Adapter, **choices: dict[str, Any]) -> Plan:
    decisions = tuple(
        Decision(
            **{"name": name, "elements": SIZES[name], "codec": "none", "topology": "ps", "partitions": 1, **choice}
        )
        for name, choice in choices.items()
    )
    return Plan(made_by="a test", world=adapter.module.size(), topology="ps", decisions=decisions)


def _sent(adapter: Adapter, plan: Plan, steps: int) -> tuple[int, int]:
    """The bytes and messages of all ranks in `steps` steps under a plan."""
    hvd = adapter.module
    hvd.barrier()
    before = hvd.counters()
    adapter.train(start_weights(), batches(hvd.rank())[:steps], plan=plan)
    hvd.barrier()
    after = hvd.counters()
    others = hvd.size() - 1  # the second barrier sends a header to each of them
    counted = [after[key] - before[key] for key in ("bytes_sent", "messages_sent")]
    sums = np.sum(hvd.allgather_object([counted[0] - HEADER * others, counted[1] - others]), axis=0)
    return int(sums[0]), int(sums[1])


def _expected(adapter: Adapter, pieces: list[int], codec: str, topology: str) -> tuple[int, int]:
    size = adapter.module.size()
    messages = size * (size - 1) if topology == "allgather" else 2 * (size - 1)
    payload = sum(4 * n if codec == "none" else _core.create_codec(codec).max_encoded_bytes(n) for n in pieces)
    return messages * (payload + HEADER * len(pieces)), messages * len(pieces)


def check_bytes_and_messages_are_those_of_the_plan(adapter: Adapter) -> None:
    cases = [
        ({}, [[2800], [70]]),
        ({"codec": "onebit"}, [[2800], [70]]),
        ({"codec": "onebit", "partitions": 3}, [[1024, 1024, 752], [70]]),
        ({"topology": "ring", "partitions": 2}, [[2048, 752], [70]]),
        ({"codec": "terngrad", "topology": "allgather"}, [[2800], [70]]),
    ]
    for choice, pieces in cases:
        for alone in ("w", "b"):  # the other tensor travels raw
            plan = _plan(adapter, w=choice if alone == "w" else {}, b=choice if alone == "b" else {})
            of_w = pieces[0] if alone == "w" else [2800]
            options = {"codec": "none", "topology": "ps", **choice}
            codec, topology = options["codec"], options["topology"]
            w = _expected(adapter, of_w, *((codec, topology) if alone == "w" else ("none", "ps")))
            b = _expected(adapter, pieces[1], *((codec, topology) if alone == "b" else ("none", "ps")))
            steps = 2
            assert _sent(adapter, plan, steps) == (steps * (w[0] + b[0]), steps * (w[1] + b[1])), (choice, alone)


def check_a_group_travels_as_one(adapter: Adapter) -> None:
    way = {"codec": "onebit", "group": "all", "partitions": 2}
    sent = _sent(adapter, _plan(adapter, w=way, b=way), 3)
    one = _expected(adapter, [2048, 822], "onebit", "ps")
    assert sent == (3 * one[0], 3 * one[1])


def check_plans_change_between_steps(adapter: Adapter) -> None:
    """Without codecs, training with changing plans gives the weights of training without plans; with codecs, all ranks
    have the same weights."""
    hvd = adapter.module
    way = {"topology": "ring", "partitions": 2}
    changes = {
        1: _plan(adapter, w={**way, "group": "all"}, b={**way, "group": "all"}),
        2: _plan(adapter, w={"topology": "allgather"}, b={"topology": "hierarchical"}),
        4: None,
    }
    after = adapter.train(start_weights(), batches(hvd.rank()), changes=changes)
    for name, expected in reference(hvd.size()).items():
        np.testing.assert_allclose(after[name], expected, rtol=1e-4, atol=1e-5)
    onebit = {"codec": "onebit", "topology": "ring", "partitions": 2}
    changes = {
        1: _plan(adapter, w={**onebit, "group": "all"}, b={**onebit, "group": "all"}),
        3: _plan(adapter, w={**onebit, "topology": "ps", "partitions": 3}, b={}),
    }
    after = adapter.train(start_weights(), batches(hvd.rank()), codec="onebit", changes=changes)
    digests = hvd.allgather_object({name: value.tobytes() for name, value in after.items()})
    assert all(digest == digests[0] for digest in digests)


def check_a_plan_for_something_else_is_refused(adapter: Adapter) -> None:
    hvd = adapter.module

    def train(plan: Plan) -> None:
        adapter.train(start_weights(), batches(hvd.rank())[:1], plan=plan)

    right = _plan(adapter, w={}, b={})
    with pytest.raises(hvd.InvalidArgument, match="says nothing about 'b'"):
        train(_plan(adapter, w={}))
    with pytest.raises(hvd.InvalidArgument, match="'w': the plan is for elements 7, the model has 2800"):
        train(_plan(adapter, w={"elements": 7}, b={}))
    with pytest.raises(hvd.InvalidArgument, match=rf"the plan is for 99 ranks, and this job has {hvd.size()}"):
        train(right.model_copy(update={"world": 99}))
    with pytest.raises(hvd.InvalidArgument, match="twobit"):
        train(_plan(adapter, w={"codec": "twobit"}, b={}))
    if hvd.size() > 1:
        other = _plan(adapter, w={"codec": "fp16" if hvd.rank() == 1 else "none"}, b={})
        with pytest.raises(hvd.Mismatch, match=r"'w(#\d+)?' .*codec none.*codec fp16"):
            train(other)
    hvd.barrier()


def check_automatic_plans_are_made_in_training(adapter: Adapter) -> None:
    """After the observed steps all ranks make the same plan, and rank 0 logs it."""
    hvd = adapter.module
    options = AutomaticOptions(codecs=("onebit",), interval=3, profile_s=0.5, links_s=0.3)
    with listening("hipress.plan") as said:
        after = adapter.train(start_weights(), batches(hvd.rank()) * 3, plan=options)
    digests = hvd.allgather_object({name: value.tobytes() for name, value in after.items()})
    assert all(digest == digests[0] for digest in digests)
    assert all(np.isfinite(value).all() for value in after.values())
    if hvd.rank() == 0:
        assert said[0].startswith("step 5: a new plan compresses "), said
    else:
        assert not said


def check_an_automatic_codec_is_chosen_in_training(adapter: Adapter) -> None:
    """All ranks try the cleared codecs, choose the same, and train alike; rank 0 logs it."""
    hvd = adapter.module
    with listening("hipress.plan") as said:
        after = adapter.train(start_weights(), batches(hvd.rank()) * 8, codec="auto", accuracy="exact")
    digests = hvd.allgather_object({name: value.tobytes() for name, value in after.items()})
    assert all(digest == digests[0] for digest in digests)
    assert all(np.isfinite(value).all() for value in after.values())
    if hvd.rank() == 0 and hvd.size() > 1:
        assert said[0].endswith('codec="auto": tries none, bf16 over ps'), said
        assert "a step takes with" in said[1], said
    else:
        assert not said


def check_an_automatic_codec_leaves_no_choice_to_others(adapter: Adapter) -> None:
    hvd = adapter.module
    for options, text in (
        ({"codec": "auto", "plan": "auto"}, "give it without plan"),
        ({"codec": "auto", "accuracy": "best"}, "accuracy='best' does not exist"),
        ({"codec": "int8", "accuracy": "safe"}, 'is for codec="auto"'),
    ):
        with pytest.raises(hvd.InvalidArgument, match=text):
            adapter.train(start_weights(), batches(hvd.rank())[:1], **options)
    with pytest.raises(hvd.InvalidArgument, match="auto"):
        hvd.allreduce(adapter.tensor(np.ones(7, np.float32)), codec="auto")
    hvd.barrier()
