# SPDX-License-Identifier: Apache-2.0
"""Tensors on devices have the bits of tensors in host memory, whichever work is late; errors come in time, and no
memory is freed early.

The simulated device fails if freed memory is used, and a host that touches the device's memory crashes. The CUDA device
runs over a stand-in for the driver; `make test-gpu` runs it on a GPU, and fails without one.
"""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hipress
from hipress import _core
from hipress.errors import CorruptPayload, HipressError, PeerLost, Timeout, TransportError
from tests.compll.emit.cuda.device import require_gpu
from tests.compll.programs import ROOT
from tests.core.casync.blocks import limits_program
from tests.core.casync.device_world import Place, forget_frames, freed, gpu_missing, on_gpu, simulated
from tests.core.casync.engine_world import outcomes, run_ranks
from tests.core.device.fake_gpus import HostKernels, fake_driver

COUNTS = [0, 1, 1025, 4097, 20_000]
HOSTS = [0, 0, 1, 1]
STEPS = 2


Devices = Callable[[int], Sequence[_core.Device]]


@pytest.fixture(scope="module")
def fake_gpus() -> Devices:
    return partial(on_gpu, gpus=2, driver=str(fake_driver()), compiler=HostKernels())


@pytest.fixture(params=["simulated", "cuda_on_the_host", "cuda"])
def devices(request: pytest.FixtureRequest) -> Devices:
    """A function that makes a device for each rank."""
    if request.param == "simulated":
        return simulated
    if request.param == "cuda_on_the_host":
        return request.getfixturevalue("fake_gpus")
    require_gpu(gpu_missing())
    return on_gpu


def values_of(rank: int, step: int, count: int, dtype: str = "float32") -> NDArray[Any]:
    generator = np.random.default_rng([rank, step, count])
    if np.dtype(dtype).kind == "f":
        return generator.standard_normal(count).astype(dtype)
    return generator.integers(0, 2 if dtype == "bool" else 20, count).astype(dtype)


def run(
    world_size: int,
    places: Sequence[_core.Device | None],
    counts: Sequence[int] = COUNTS,
    dtype: str = "float32",
    absent: Sequence[int] = (),
    **options: Any,
) -> list[Any]:
    """By rank: the results of every tensor in every step, and the codec states."""

    def body(engine: _core.Engine) -> Any:
        place = Place(engine, places[engine.rank])
        likes = [np.empty(count, dtype) for count in counts]
        tensors = [place.declare(f"w{like.size}", like, **options) for like in likes]
        results: list[Any] = []
        for step in range(STEPS):
            started = []
            for tensor, like in zip(tensors, likes, strict=True):
                values = None if engine.rank in absent else values_of(engine.rank, step, like.size, dtype)
                started.append(place.start(tensor, values, like, in_place=step == 1))
            for each in started:
                result = place.finish(each)
                results.append(None if result is None else result.tobytes())
        kept = {key: engine.state(*key).tobytes() for key in sorted(engine.states())}
        return results, kept

    engine_options = {"hosts": HOSTS[:world_size], "partition_bytes": 8192, "inline_elements": 2000}
    return run_ranks(world_size, body, options=engine_options)


def slowed(devices: Devices, world_size: int) -> Sequence[_core.Device]:
    """Devices; simulated ones are so slow that their work still runs when a test continues."""
    return simulated(world_size, delay=5e-3) if devices is simulated else devices(world_size)


def same_as_on_the_host(devices: Devices, world_size: int, **options: Any) -> None:
    there = devices(world_size)
    on_host = run(world_size, [None] * world_size, **options)
    on_device = run(world_size, there, **options)
    assert on_device == on_host, (world_size, options)
    assert all(freed(device) for device in there)


@pytest.mark.parametrize("codec", ["none", "onebit", "terngrad", "dgc"])
@pytest.mark.parametrize("topology", ["ps", "ring", "allgather", "hierarchical"])
def test_the_bits_of_the_host(devices: Devices, topology: str, codec: str) -> None:
    for world_size in (1, 2, 3, 4):
        same_as_on_the_host(devices, world_size, topology=topology, codec=codec)


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["ps", "allgather"])
def test_the_states_of_blocks_of_the_host(
    devices: Devices, topology: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    codec = limits_program.load(tmp_path_factory.getbasetemp() / "limits")
    counts = [1, 255, 257, 1023, 1025, 20_000]
    same_as_on_the_host(devices, 3, topology=topology, codec=codec, counts=counts)


@pytest.mark.parametrize("codec", ["fp16", "tbq", "graddrop"])
def test_the_other_codecs(devices: Devices, codec: str) -> None:
    same_as_on_the_host(devices, 3, codec=codec)


@pytest.mark.slow
def test_codecs_that_users_load(
    devices: Devices, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path_factory.getbasetemp() / "codecs"))
    hipress.load_codec(ROOT / "examples" / "compll" / "blockquant4.cll")
    same_as_on_the_host(devices, 3, codec="blockquant4(block=32)")
    hipress.load_codec(ROOT / "examples" / "compll" / "signsgd.cll")  # it merges the aggregator's own message
    for topology in ("ps", "allgather"):
        same_as_on_the_host(devices, 3, codec="signsgd", topology=topology)


def test_codecs_that_differ_in_options_share_their_kernels() -> None:
    compiler = HostKernels()
    there = on_gpu(2, gpus=1, driver=str(fake_driver()), compiler=compiler)
    run(2, there, codec="onebit")
    run(2, there, codec="onebit(block=128)")
    assert compiler.titles.count("codec onebit") == len(there)  # each device loads the codec once


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint8", "bool"])
def test_other_element_types(devices: Devices, dtype: str) -> None:
    same_as_on_the_host(devices, 3, dtype=dtype, op="sum")


@pytest.mark.parametrize("op", ["min", "max", "product"])
@pytest.mark.parametrize("topology", ["ps", "ring", "allgather", "hierarchical"])
def test_min_max_and_product(devices: Devices, topology: str, op: str) -> None:
    counts = [0, 1025, 4097]
    for dtype in ("float32", "float16", "int32", "bool"):
        same_as_on_the_host(devices, 4, dtype=dtype, op=op, topology=topology, counts=counts)
    for dtype in ("float32", "int32"):
        same_as_on_the_host(
            devices, 3, dtype=dtype, op=op, topology=topology, counts=counts, prescale=0.5, postscale=3.0
        )


@pytest.mark.parametrize("topology", ["ps", "ring", "allgather", "hierarchical"])
def test_integers_are_scaled_before_they_are_added(devices: Devices, topology: str) -> None:
    same_as_on_the_host(devices, 3, dtype="int32", op="sum", prescale=0.5, postscale=3.0, topology=topology)


@pytest.mark.parametrize("topology", ["ps", "hierarchical"])
def test_codecs_of_other_element_types(devices: Devices, topology: str) -> None:
    same_as_on_the_host(devices, 3, dtype="float64", codec="onebit", prescale=0.5, postscale=3.0, topology=topology)


@pytest.mark.parametrize("codec", ["none", "onebit"])
@pytest.mark.parametrize("absent", [(0,), (1, 2), (0, 1, 2)])
def test_ranks_without_values(devices: Devices, codec: str, absent: tuple[int, ...]) -> None:
    same_as_on_the_host(devices, 3, codec=codec, absent=absent)


def test_broadcast(devices: Devices) -> None:
    def body(engine: _core.Engine) -> NDArray[Any] | None:
        place = Place(engine, there[engine.rank])
        values = values_of(engine.rank, 0, 9000)
        tensor = place.declare("w", values, collective="broadcast", root=1)
        return place.finish(place.start(tensor, values, values, in_place=True))

    there = devices(4)
    for result in run_ranks(4, body):
        assert result is not None
        assert result.tobytes() == values_of(1, 0, 9000).tobytes()


@pytest.mark.parametrize("codec", ["none", "terngrad"])
def test_some_ranks_on_devices_some_not(devices: Devices, codec: str) -> None:
    """The messages are equal to the byte."""
    there = devices(4)
    mixed = [there[rank] if rank % 2 else None for rank in range(4)]
    assert run(4, mixed, codec=codec) == run(4, [None] * 4, codec=codec)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("codec", ["none", "onebit"])
def test_a_device_adds_values_of_neighbours_tile_by_tile(devices: Devices, codec: str, dtype: str) -> None:
    """The ranks that merge, 0 and 2, are on devices, and read the values of ranks 1 and 3 in their memory."""
    there = devices(4)
    mixed = [None if rank % 2 else there[rank] for rank in range(4)]
    options: dict[str, Any] = {"codec": codec, "dtype": dtype, "counts": [300_001], "partitions": 1, "prescale": 0.3}
    assert run(4, mixed, topology="hierarchical", **options) == run(4, [None] * 4, topology="hierarchical", **options)
    assert all(freed(device) for device in there)


def test_non_finite_values_reach_every_rank_and_no_state(devices: Devices) -> None:
    def body(engine: _core.Engine) -> tuple[bytes, bytes]:
        place = Place(engine, places[engine.rank])
        values = values_of(engine.rank, 0, 9000)
        tensor = place.declare("w", values, codec="onebit", partitions=2)
        place.finish(place.start(tensor, values, values))
        values[[17, 7000]] = np.nan if engine.rank == 1 else 1.0
        result = place.finish(place.start(tensor, values, values))
        assert result is not None
        assert np.isnan(result).all()
        result[:] = np.nan  # GPUs have one NaN, and processors have many
        residual = engine.state("w", "worker", "residual")
        assert np.isfinite(residual).all()
        return result.tobytes(), residual.tobytes()

    places: Sequence[_core.Device | None] = [None, None]
    on_host = run_ranks(2, body)
    places = devices(2)
    assert run_ranks(2, body) == on_host


def test_states_go_along_to_a_device_and_back(devices: Devices) -> None:
    """No residual is lost, and the bits equal those of ranks whose tensors never move."""

    def body(engine: _core.Engine) -> list[bytes]:
        results = []
        for step, device in enumerate(path[engine.rank]):
            place = Place(engine, device)
            values = values_of(engine.rank, step, 9000)
            result = place.finish(place.start(place.declare("w", values, codec="dgc"), values, values))
            assert result is not None
            results.append(result.tobytes())
        return results

    there = devices(2)
    path = [[None, device, device, None] for device in there]
    moving = run_ranks(2, body)
    path = [[None] * 4 for _ in there]
    assert moving == run_ranks(2, body)


def test_values_are_read_when_the_framework_has_written_them() -> None:
    there = simulated(2)

    def body(engine: _core.Engine) -> float:
        device = there[engine.rank]
        values = np.full(50_000, -1.0, np.float32)
        place = Place(engine, device)
        tensor = place.declare("w", values, partitions=3, codec="onebit")
        array, ready = device.array(values), _core.SimulatedEvent()
        operation = engine.submit_on_device(tensor, array, array, ready)
        time.sleep(0.2)
        assert not engine.poll(operation)
        array.write(np.full(50_000, engine.rank + 1.0, np.float32))
        ready.fire()
        engine.wait(operation)
        array.read(values)
        assert np.all(values == values[0])
        return float(values[0])

    assert run_ranks(2, body) == [1.5, 1.5]


def broken_at(work: int, codec: str) -> list[Any]:
    """The outcomes of all ranks if rank 1's device fails after `work` pieces of work."""
    there = simulated(3)
    there[1].fail_after(work)

    def body(engine: _core.Engine) -> float:
        place = Place(engine, there[engine.rank])
        values = values_of(engine.rank, 0, 30_000)
        tensor = place.declare("conv.weight", values, codec=codec, partitions=5)
        start = time.monotonic()
        try:
            for _ in range(3):
                place.finish(place.start(tensor, values, values))
        finally:
            assert time.monotonic() - start < 5
        return time.monotonic() - start

    results = forget_frames(outcomes(3, body, options={"timeout": 10.0}))
    assert all(freed(device) for device in there)
    return results


@pytest.mark.parametrize("codec", ["none", "onebit"])
@pytest.mark.parametrize("work", [0, 1, 3, 10, 25])
def test_a_device_that_fails_is_named_with_rank_and_tensor(work: int, codec: str) -> None:
    for outcome in broken_at(work, codec):
        assert isinstance(outcome, TransportError)
        assert "rank 1" in str(outcome)
        assert "'conv.weight'" in str(outcome)
        assert "device simulated:0 failed" in str(outcome)


@pytest.mark.parametrize("work", [0, 3, 25])
def test_an_error_of_cuda_is_named(fake_gpus: Devices, work: int) -> None:
    """The error ends all work of the process, so any rank may be the first to see it."""
    there = fake_gpus(3)

    def body(engine: _core.Engine) -> None:
        place = Place(engine, there[engine.rank])
        values = values_of(engine.rank, 0, 30_000)
        tensor = place.declare("conv.weight", values, codec="onebit", partitions=5)
        array = there[engine.rank].array(values)
        engine.wait(engine.submit_on_device(tensor, array, array))
        engine.allgather("all is allocated", b"")
        if engine.rank == 0:
            library.hipress_test_fail_after(work)
        for _ in range(20):
            engine.wait(engine.submit_on_device(tensor, array, array))

    library = ctypes.CDLL(str(fake_driver()))
    try:
        for outcome in forget_frames(outcomes(3, body, options={"timeout": 10.0})):
            assert isinstance(outcome, TransportError)
            assert re.search(r"device cuda:[01] failed: CUDA_ERROR_ILLEGAL_ADDRESS \(an illegal", str(outcome))
    finally:
        library.hipress_test_fail_after(-1)
    assert all(freed(device) for device in there)


@pytest.mark.parametrize("codec", ["none", "onebit"])
def test_a_device_that_hangs_is_a_timeout_and_keeps_its_memory(codec: str) -> None:
    there = simulated(2)

    def body(engine: _core.Engine) -> None:
        place = Place(engine, there[engine.rank])
        values = values_of(engine.rank, 0, 30_000)
        tensor = place.declare("conv.weight", values, codec=codec, partitions=4)
        if engine.rank == 1:
            there[1].hang()
        started = place.start(tensor, values, values)
        try:
            place.finish(started)
        finally:
            del started  # the device would still use these arrays
            threading.Timer(0.5, there[engine.rank].resume).start()

    for outcome in forget_frames(outcomes(2, body, options={"timeout": 1.0})):
        assert isinstance(outcome, Timeout)
        assert "'conv.weight'" in str(outcome)
        assert "rank 1" in str(outcome)
    assert all(freed(device) for device in there)


def test_a_rank_that_leaves_while_devices_work(devices: Devices) -> None:
    there = slowed(devices, 3)

    def body(engine: _core.Engine) -> None:
        place = Place(engine, there[engine.rank])
        values = values_of(engine.rank, 0, 30_000)
        tensors = [place.declare(f"w{i}", values, codec="onebit", partitions=4) for i in range(4)]
        if engine.rank == 1:
            engine.shutdown(0.0)
        started = [place.start(tensor, values, values) for tensor in tensors]
        for each in started:
            place.finish(each)

    for rank, outcome in enumerate(forget_frames(outcomes(3, body, linger=0.0))):
        if rank != 1:
            assert isinstance(outcome, PeerLost)
            assert "rank 1" in str(outcome)
    assert all(freed(device) for device in there)


def test_shutting_down_waits_for_the_device(devices: Devices) -> None:
    there = slowed(devices, 2)

    def body(engine: _core.Engine) -> None:
        place = Place(engine, there[engine.rank])
        values = values_of(engine.rank, 0, 30_000)
        for i in range(4):
            place.start(place.declare(f"w{i}", values, codec="terngrad", partitions=4), values, values)
        engine.shutdown(0.0)

    run_ranks(2, body)
    assert all(freed(device) for device in there)


def test_a_corrupted_payload_names_tensor_and_sender(devices: Devices) -> None:
    there = devices(2)

    def body(engine: _core.Engine) -> None:
        place = Place(engine, there[engine.rank])
        values = values_of(engine.rank, 0, 9000)
        place.finish(place.start(place.declare("conv.weight", values, codec="onebit"), values, values))

    def corrupt(_source: int, _destination: int, payload: bytes) -> bool | bytes:
        return bytes([payload[0] ^ 1]) + payload[1:] if len(payload) > 500 else True

    kinds = outcomes(2, body, intercept=corrupt)
    assert any(isinstance(outcome, CorruptPayload) for outcome in kinds)
    assert all(isinstance(outcome, HipressError) and "'conv.weight'" in str(outcome) for outcome in kinds)
