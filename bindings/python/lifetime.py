# SPDX-License-Identifier: Apache-2.0
"""A rank's life from init() to shutdown(): its connections to the other ranks, and its engine."""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

import hipress
from hipress import network as networks
from hipress import unfinished
from hipress._library import load_core
from hipress.errors import InvalidArgument, TransportError
from hipress.launch.rendezvous import Rendezvous
from hipress.log import logger
from hipress.options.runtime import RuntimeOptions
from hipress.settings import compare_settings, settings_of

if TYPE_CHECKING:
    from hipress import _core


class Runtime:
    """This rank's connections and engine. To make one is to meet the other ranks: all of them make theirs together.

    Raises what init() raises.
    """

    def __init__(self, options: RuntimeOptions, place: Rendezvous) -> None:
        self.options = options
        self.place = place
        _forget_earlier_trace(options.trace, place)
        self._server, control, local_address = _meet(options, place)
        # Before anything else: nothing that follows can be trusted if versions differ.
        version = load_core().WIRE_VERSION
        compare_settings(control, settings_of(options, hipress.__version__, version), options.start_timeout)
        _check_trace(options.trace, control)
        places = control.allgather("local ranks", str(place.local_rank).encode(), options.start_timeout)
        numbers = [int(number) for number in places]
        #: The ranks with the same local rank as this one, one of each host.
        self.counterparts = [rank for rank, number in enumerate(numbers) if number == place.local_rank]
        #: Whether all hosts have equally many ranks.
        self.homogeneous = len({numbers.count(number) for number in numbers}) == 1
        self.engine = _connected_engine(options, place, control, local_address)
        #: Names of single collectives in flight: the script has not waited for them yet.
        self.in_flight: set[str] = set()
        #: Objects that adapters keep as long as this engine runs, by keys of their own.
        self.kept: dict[Any, Any] = {}
        #: The adapters' current steps.
        self.steps: weakref.WeakSet[unfinished.Step] = weakref.WeakSet()
        self._counts: Counter[str] = Counter()
        self._gpus: dict[int, _core.Device] = {}
        self._trace = ""  # the file of the trace; empty: nothing is recorded
        if options.trace:
            self.start_trace(options.trace)
        load_core().set_current_engine(self.engine)

    def numbered(self, name: str) -> str:
        """`name` the first time, then `name#2`, `name#3` and so on: alike on all ranks, which ask in the same order."""
        self._counts[name] += 1
        return name if self._counts[name] == 1 else f"{name}#{self._counts[name]}"

    def gpu(self, ordinal: int) -> _core.Device:
        """The engine's device for a GPU, by CUDA's number. Raises Unsupported that says what is missing."""
        if ordinal not in self._gpus:
            # Not needed by anyone whose tensors are on the CPU.
            from hipress.compll.build.kernels import compile_kernels

            self._gpus[ordinal] = load_core().cuda_device(ordinal, compiler=compile_kernels)
        return self._gpus[ordinal]

    def start_trace(self, path: str) -> None:
        """Records from now on. Raises InvalidArgument if a trace is being recorded or `path` cannot be written."""
        if self._trace:
            raise InvalidArgument(f"a trace is being recorded already, for {self._trace}; stop_timeline() ends it")
        path = os.path.abspath(path)  # the program may change its folder meanwhile
        load_core().prepare_trace_file(path)
        self.engine.start_trace()
        self._trace = path

    def stop_trace(self) -> None:
        """Writes the trace. Raises InvalidArgument if there is none, TransportError if the file cannot be written."""
        if not self._trace:
            raise InvalidArgument("no trace is being recorded; start_timeline(file) begins one")
        path, self._trace = self._trace, ""
        self.engine.stop_trace(path)

    def close(self, linger: float, *, at_exit: bool) -> None:
        """Leaves the other ranks, for whom this rank waits `linger` seconds at most, and ends the engine."""
        unfinished.tell_unfinished(self)
        load_core().set_current_engine(None)
        try:
            if self._trace:
                self.stop_trace()
        finally:
            others_failed = self.engine.shutdown(linger, unfinished.reason_of_end(self, at_exit=at_exit))
            self._server = None
            if others_failed is not None:
                print(
                    f"hipress: rank {self.place.rank} had left when the other ranks failed: {others_failed}",
                    file=sys.stderr,
                    flush=True,
                )


def _forget_earlier_trace(path: str, place: Rendezvous) -> None:
    """Removes the trace of an earlier run, because the ranks of this one add to the file."""
    if path and place.local_rank == 0 and os.path.isfile(path):
        with contextlib.suppress(OSError):  # which prepare_trace_file() explains
            os.unlink(path)


def _meet(options: RuntimeOptions, place: Rendezvous) -> tuple[Any, Any, str]:
    """The control server, on rank 0 only; the connection to it; this rank's own address of that connection."""
    core = load_core()
    common: dict[str, Any] = {
        "host": place.host,
        "world_size": place.size,
        "token": place.token,
        "timeout": options.start_timeout,
        "heartbeat": options.heartbeat,
        "heartbeat_limit": options.heartbeat_limit,
        "stall_warning": options.stall_warning,
    }
    if place.rank != 0:
        return (None, *core.connect_control(rank=place.rank, port=place.port, **common))
    listener = -1 if place.listen_fd is None else place.listen_fd
    server = core.ControlServer(port=place.port, listen_fd=listener, **common)
    return (server, *core.connect_control(rank=0, port=server.port, **common))


def _check_trace(path: str, control: _core.ControlPlane) -> None:
    if not path:
        return
    try:
        load_core().prepare_trace_file(path)
    except InvalidArgument as error:
        control.abort("InvalidArgument", str(error))  # the other ranks must not wait for this one
        raise


def _connected_engine(
    options: RuntimeOptions, place: Rendezvous, control: _core.ControlPlane, local_address: str
) -> _core.Engine:
    """An engine over the network devices that all ranks have chosen together."""
    chosen = networks.agree(
        lambda key, value: control.allgather(key, value, options.start_timeout),
        place.rank,
        options.network,
        local_address,
    )
    if place.rank == 0 and place.size > 1:
        logger().info(chosen.summary)
    try:
        engine: _core.Engine = load_core().connect_engine(
            control, local_address, options.of_engine(), chosen.devices, options.start_timeout
        )
    except TransportError as error:
        raise chosen.explained(error) from None
    return engine
