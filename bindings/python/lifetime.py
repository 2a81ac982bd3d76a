# SPDX-License-Identifier: Apache-2.0
"""A rank's connections to the other ranks and its engine, from init() to shutdown()."""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections import Counter
from collections.abc import Mapping
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


class Start:
    """An init() that waits for the other ranks. Another call, in a signal handler or a thread, may end it."""

    def __init__(self) -> None:
        self.stop: _core.StopSource = load_core().StopSource()
        #: Why it was ended; empty: it was not.
        self.ended = ""
        self._control: _core.ControlPlane | None = None
        self._server: _core.ControlServer | None = None

    def connected(self, server: _core.ControlServer | None, control: _core.ControlPlane) -> None:
        """Notes the connections through which end() tells the other ranks."""
        self._server, self._control = server, control
        if self.ended:
            self.end(self.ended)

    def end(self, reason: str) -> None:
        """Ends the waiting, and tells the ranks that have come. `reason` completes "rank 1"."""
        self.ended = self.ended or reason
        self.stop.request_stop()
        if self._control is not None:
            self._control.abort("PeerLost", f"rank {self._control.rank} {self.ended}")
            self._control.close()

    def close(self) -> None:
        """After end(): gives rank 0's server a moment to pass the reason on."""
        if self._server is not None:
            self._server.close()


class Runtime:
    """This rank's connections and engine. All ranks make this object together: the constructor connects them.

    Raises the errors of init().
    """

    def __init__(self, options: RuntimeOptions, place: Rendezvous, start: Start) -> None:
        self.options = options
        self.place = place
        _forget_earlier_trace(options.trace, place)
        self._server, control, local_address = _meet(options, place, start)
        # Compare versions first, because later messages may differ between versions.
        version = load_core().WIRE_VERSION
        compare_settings(control, settings_of(options, hipress.__version__, version), options.start_timeout)
        _check_trace(options.trace, control)
        places = control.allgather("local ranks", str(place.local_rank).encode(), options.start_timeout)
        numbers = [int(number) for number in places]
        #: The ranks with the same local rank as this one, one of each host.
        self.counterparts = [rank for rank, number in enumerate(numbers) if number == place.local_rank]
        #: Whether all hosts have equally many ranks.
        self.homogeneous = len({numbers.count(number) for number in numbers}) == 1
        self.engine = _connected_engine(options, place, control, local_address, start)
        #: Names of single collectives for which the script has not waited yet.
        self.in_flight: set[str] = set()
        #: Objects that adapters keep as long as this engine runs, under the adapters' keys.
        self.kept: dict[Any, Any] = {}
        #: The adapters' current steps.
        self.steps: weakref.WeakSet[unfinished.Step] = weakref.WeakSet()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._gpus: dict[int, _core.Device] = {}
        self._trace = ""  # the file of the trace; empty: no trace is recorded
        if options.trace:
            self.start_trace(options.trace)
        load_core().set_current_engine(self.engine)

    def numbered(self, name: str, scope: str = "") -> str:
        """`name` in the first call, then `name#2`, `name#3` and so on: equal on all ranks, which call in one order.

        `scope`: the calls of each scope count apart, such as those of a process set.
        """
        self._counts[name, scope] += 1
        number = self._counts[name, scope]
        return name if number == 1 else f"{name}#{number}"

    def call_counts(self) -> dict[str, int]:
        """How often calls without a name, barriers and derivatives have been numbered, among all ranks."""
        return {
            name: count
            for (name, scope), count in self._counts.items()
            if not scope and (name.startswith(("unnamed", "barrier")) or name.endswith(".gradient"))
        }

    def continue_counts(self, counts: Mapping[str, int]) -> None:
        """The next number of each name is behind its count here."""
        for name, count in counts.items():
            self._counts[name, ""] = count

    def gpu(self, ordinal: int) -> _core.Device:
        """The engine's device for the GPU with this CUDA number. Raises Unsupported, which says what is missing."""
        if ordinal not in self._gpus:
            # Imported here, because programs with CPU tensors do not need it.
            from hipress.compll.build.kernels import compile_kernels

            self._gpus[ordinal] = load_core().cuda_device(ordinal, compiler=compile_kernels)
        return self._gpus[ordinal]

    def start_trace(self, path: str) -> None:
        """Starts a trace. Raises InvalidArgument if a trace is being recorded or `path` cannot be written."""
        if self._trace:
            raise InvalidArgument(f"a trace is being recorded already, for {self._trace}; stop_timeline() ends it")
        path = os.path.abspath(path)  # the program may change its folder before stop_trace()
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
        """Leaves the job and ends the engine. It waits at most `linger` seconds for the other ranks to leave, too."""
        unfinished.tell_unfinished(self)
        load_core().set_current_engine(None)
        try:
            if self._trace:
                self.stop_trace()
        finally:
            others_failed = self.engine.shutdown(linger, unfinished.reason_of_end(self, at_exit=at_exit))
            self._server = None
            if others_failed is not None and not self.place.world:  # an elastic job's launcher says it
                print(
                    f"hipress: rank {self.place.rank} had left when the other ranks failed: {others_failed}",
                    file=sys.stderr,
                    flush=True,
                )


def _forget_earlier_trace(path: str, place: Rendezvous) -> None:
    """Removes the trace of an earlier job, because the ranks of this job add to the file."""
    if path and place.local_rank == 0 and os.path.isfile(path):
        with contextlib.suppress(OSError):  # prepare_trace_file() reports such errors
            os.unlink(path)


def _meet(options: RuntimeOptions, place: Rendezvous, start: Start) -> tuple[Any, Any, str]:
    """The control server (on rank 0 only), the control connection, and this rank's address on that connection."""
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
    server, port = None, place.port
    if place.rank == 0:
        listener = -1 if place.listen_fd is None else place.listen_fd
        server = core.ControlServer(port=place.port, listen_fd=listener, **common)
        port = server.port
    control, local_address = core.connect_control(rank=place.rank, port=port, stop=start.stop, **common)
    start.connected(server, control)
    return server, control, local_address


def _check_trace(path: str, control: _core.ControlPlane) -> None:
    if not path:
        return
    try:
        load_core().prepare_trace_file(path)
    except InvalidArgument as error:
        control.abort("InvalidArgument", str(error))  # so that the other ranks do not wait for this rank
        raise


def _connected_engine(
    options: RuntimeOptions, place: Rendezvous, control: _core.ControlPlane, local_address: str, start: Start
) -> _core.Engine:
    """Makes the engine over the network devices that all ranks have chosen together."""
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
            control, local_address, options.of_engine(), chosen.devices, options.start_timeout, start.stop
        )
    except TransportError as error:
        raise chosen.explained(error) from None
    return engine
