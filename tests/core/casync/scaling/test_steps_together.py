# SPDX-License-Identifier: Apache-2.0
"""A loss scaler leaves out a whole step if one average of it is not finite. So tensors that settle by steps change
their states together: if one result is not finite, all ranks keep the same bits of all states as before the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hipress import _core
from tests.cases import each
from tests.core.casync.device_world import Place, on_gpu, simulated
from tests.core.casync.engine_world import identical, run_ranks
from tests.core.casync.scaling.test_not_finite import CODECS, COUNT, HOSTS, LINKED, PATTERN, THREE_IN_A_ROW, WORLD
from tests.core.casync.scaling.test_not_finite import gradient as with_bad_values
from tests.core.device.fake_gpus import HostKernels, fake_driver

TOPOLOGIES = ["ps", "ring", "allgather", "hierarchical"]
#: Of the tensor with the values that are not finite: no codec, one without states that encodes infinity, one whose
#: message is then empty, one with states.
BAD = ["none", "fp16", "int8", "onebit"]


def all_states(engine: _core.Engine) -> dict[Any, bytes]:
    found = {key: engine.state(*key) for key in engine.states()}
    return {key: values.tobytes() for key, values in found.items() if values.any()}


def run(
    kept: Sequence[str],
    bad: str,
    pattern: Any,
    topology: str,
    places: Sequence[_core.Device | None] = (None,) * WORLD,
    **options: Any,
) -> None:
    """Steps with tensors of the codecs `kept`, whose values are finite, and one of the codec `bad`."""

    def body(engine: _core.Engine) -> Any:
        place = Place(engine, places[engine.rank])
        tensors = []
        for number, codec in enumerate([*kept, bad]):
            # Members of a group have one codec and one handle each.
            more = options if number < len(kept) else {}
            spec = _core.TensorSpec(
                f"{number} {codec}",
                count=COUNT,
                shape="[64, 80]",
                codec=codec,
                topology=topology,
                device=place.device,
                **more,
            )
            tensors.append(spec)
        handles = engine.agree("list", tensors)
        engine.settle_by_steps(handles)
        seen = []
        for step in range(len(pattern)):
            values = [with_bad_values(engine.rank, step, [((), 0.0)] * len(pattern)) for _ in kept]
            values.append(with_bad_values(engine.rank, step, pattern))
            started = [
                place.start(handle, each, np.empty_like(each)) for handle, each in zip(handles, values, strict=True)
            ]
            results = [place.finish(operation) for operation in started]
            counts = engine.end_step(handles[0])
            seen.append((results, counts, all_states(engine)))
        return seen

    by_rank = run_ranks(WORLD, body, options={"hosts": HOSTS})
    before: list[dict[Any, bytes]] = [{} for _ in range(WORLD)]
    for step, (ranks, _) in enumerate(pattern):
        after = [seen[step][2] for seen in by_rank]
        for index in range(len(kept) + 1):
            results = [seen[step][0][index] for seen in by_rank]
            assert identical(results), (step, index)
            assert np.isfinite(results[0]).all() == (index < len(kept) or not ranks), (step, index)
        assert [seen[step][1] for seen in by_rank] == [not ranks] * WORLD, step
        assert (after == before) == bool(ranks), step
        before = after


@each("bad", BAD)
@each("topology", TOPOLOGIES)
def test_one_result_that_is_not_finite_keeps_the_states_of_all(topology: str, bad: str) -> None:
    run(CODECS, bad, THREE_IN_A_ROW if bad == "none" else PATTERN, topology)


@each("codec", LINKED)
@each("bad", ["none", "onebit"])
def test_linked_tensors_take_part(codec: str, bad: str) -> None:
    run([codec], bad, PATTERN, "ps")


@each("codec", LINKED)
def test_linked_tensors_decide_for_all(codec: str) -> None:
    run(["onebit"], codec, PATTERN, "ps")


def test_a_group_takes_part() -> None:
    run(["onebit", "onebit"], "none", PATTERN, "ps", group="g")


@each("bad", BAD)
def test_devices_find_what_is_not_finite(bad: str) -> None:
    run(["onebit"], bad, PATTERN, "ps", simulated(WORLD))


@each("bad", ["none", "fp16"])
def test_kernels_find_what_is_not_finite(bad: str) -> None:
    run(["onebit"], bad, PATTERN, "ps", on_gpu(WORLD, 2, str(fake_driver()), HostKernels()))


def test_a_tensor_that_comes_twice_begins_another_step() -> None:
    def body(engine: _core.Engine) -> Any:
        specs = [_core.TensorSpec(name, count=COUNT, shape="[64, 80]", codec="onebit") for name in ("a", "b")]
        handles = engine.agree("list", specs)
        engine.settle_by_steps(handles)
        place = Place(engine, None)
        states = []
        for step in range(3):  # no end_step()
            values = with_bad_values(engine.rank, step, [((), 0.0)] * 3)
            for handle in handles:
                place.finish(place.start(handle, values, np.empty_like(values)))
            states.append(all_states(engine))
        engine.end_step(handles[0])
        return [*states, all_states(engine)]

    for first, second, third, ended in run_ranks(WORLD, body, options={"hosts": HOSTS}):
        assert first == {}  # the first step has not ended
        assert second != {}
        assert len({str(sorted(each.items())) for each in (second, third, ended)}) == 3
