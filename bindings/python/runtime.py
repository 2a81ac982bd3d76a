# SPDX-License-Identifier: Apache-2.0
"""This process' engine: `init()` makes it, `shutdown()` ends it. Every framework's adapter re-exports these."""

from __future__ import annotations

import atexit
import os
import threading
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hipress import rendezvous
from hipress._library import load_core
from hipress.errors import InvalidArgument, NotInitialized

if TYPE_CHECKING:
    from hipress import _core

#: How long `shutdown()` waits for the other ranks to leave too, in seconds.
LINGER = 5.0

#: What heartbeat and heartbeat_limit may be, in seconds.
_SHORTEST_BEAT, _LONGEST_BEAT = 0.01, 86400


@dataclass(frozen=True)
class RuntimeOptions:
    """How the engine runs. Each field has an environment variable, `HIPRESS_` and its name in capitals."""

    timeout: float = 60.0
    """Seconds from submitting a tensor until every rank must have done its part; also for all ranks to arrive."""
    compute_threads: int = 1
    """Threads that encode, merge and decode."""
    partition_bytes: int = 4 << 20
    """Raw bytes per partition of a tensor that does not say how many partitions it wants."""
    window_bytes: int = 16 << 20
    """Bytes handed to the network per peer at a time; what waits behind keeps its order by priority."""
    bundle_bytes: int = 64 << 10
    """Small messages for one peer go together, up to so many bytes, where a message alone is costly; 0: never."""
    bundle_message_bytes: int = 16 << 10
    """Larger messages go alone."""
    bundle_linger: float = 0.005
    """Seconds that a small message waits at most for others, while something is on its way to the same peer."""
    rounds: bool = False
    """Large messages use one link at a time, so that not all ranks send to one at once; alike on all ranks."""
    round_bytes: int = 1 << 20
    """Of a round, at most, unless one message is larger."""
    coordinator: str = "none"
    """Who decides whom a round is for: none, every rank alone; rank0, asked for each round. Implies rounds."""
    heartbeat: float = 1.0
    """Seconds between two signs of life; if not given, a quarter of heartbeat_limit at most."""
    heartbeat_limit: float = 7.0
    """Seconds after which a host that answers nothing is lost."""
    seed: int = 0
    """Of random rounding; the same on all ranks."""
    pipelining: bool = True
    """Off: one tensor after the other, in the order of submission, alike on all ranks: shows what overlap gains."""
    priorities: bool = True
    """Off: what is ready first goes first, instead of what the next forward pass needs first."""
    trace: str = ""
    """File for a Chrome/Perfetto trace; empty: none."""
    check_replicas: int = 0
    """Compare the parameters' hashes of all ranks every so many steps; 0: never."""

    @staticmethod
    def from_environment(**given: Any) -> RuntimeOptions:
        """Options from `given` (those that are not None), else from the environment, else the defaults.

        Raises InvalidArgument that names a variable whose value has the wrong type or is out of range.
        """
        values: dict[str, Any] = {}
        for name, default in vars(RuntimeOptions()).items():
            kind: type = type(default)
            text = os.environ.get(f"HIPRESS_{name.upper()}")
            source, value = f"{name}", given.get(name)
            if value is None and text is not None:
                source, value = f"HIPRESS_{name.upper()}", text
            if value is None:
                continue
            try:
                values[name] = _switch(value) if kind is bool else kind(value)
            except (TypeError, ValueError):
                raise InvalidArgument(f"{source}={value!r} is not a valid {kind.__name__}") from None
            smallest = 0 if name in ("seed", "check_replicas", "bundle_bytes", "bundle_message_bytes") else 1
            if (kind is int and values[name] < smallest) or (kind is float and not values[name] > 0):
                raise InvalidArgument(f"{source}={value!r} is too small")
        return RuntimeOptions(**values)._with_heartbeat(given="heartbeat" in values)

    def _with_heartbeat(self, *, given: bool) -> RuntimeOptions:
        """Several beats must go unanswered within the limit: one may be lost, and TCP repeats it only after a while."""
        if min(self.heartbeat, self.heartbeat_limit) < _SHORTEST_BEAT or self.heartbeat_limit > _LONGEST_BEAT:
            raise InvalidArgument(
                f"heartbeat={self.heartbeat:g} and heartbeat_limit={self.heartbeat_limit:g}: both are seconds from "
                f"{_SHORTEST_BEAT} to {_LONGEST_BEAT} (HIPRESS_HEARTBEAT, HIPRESS_HEARTBEAT_LIMIT)"
            )
        if not given:
            return replace(self, heartbeat=min(self.heartbeat, self.heartbeat_limit / 4))
        if self.heartbeat > self.heartbeat_limit / 2:
            raise InvalidArgument(
                f"heartbeat={self.heartbeat:g}, the interval, must be at most half of "
                f"heartbeat_limit={self.heartbeat_limit:g} (HIPRESS_HEARTBEAT, HIPRESS_HEARTBEAT_LIMIT)"
            )
        return self


def _switch(value: Any) -> bool:
    if value in (True, "1"):
        return True
    if value in (False, "0"):
        return False
    raise ValueError


def _default_compute_threads(local_size: int) -> int:
    cores = len(os.sched_getaffinity(0))
    return max(1, min(4, cores // max(1, local_size)))


class Runtime:
    """Everything that lives from `init()` to `shutdown()`."""

    def __init__(self, options: RuntimeOptions, place: rendezvous.Rendezvous) -> None:
        core = load_core()
        self.options = options
        self.place = place
        self.process = os.getpid()
        self._server: _core.ControlServer | None = None
        port = place.port
        common: dict[str, Any] = {
            "host": place.host,
            "world_size": place.size,
            "token": place.token,
            "timeout": options.timeout,
            "heartbeat": options.heartbeat,
            "heartbeat_limit": options.heartbeat_limit,
        }
        if place.rank == 0:
            self._server = core.ControlServer(
                port=place.port, listen_fd=-1 if place.listen_fd is None else place.listen_fd, **common
            )
            port = self._server.port
            if options.trace and os.path.exists(options.trace):
                os.unlink(options.trace)  # of an earlier run; ranks append
        control, local_address = core.connect_control(rank=place.rank, port=port, **common)
        places = control.allgather("local ranks", str(place.local_rank).encode(), options.timeout)
        numbers = [int(number) for number in places]
        #: The ranks that have this one's number on their machines, one per machine.
        self.counterparts = [rank for rank, number in enumerate(numbers) if number == place.local_rank]
        #: Whether all machines have equally many ranks.
        self.homogeneous = len({numbers.count(number) for number in numbers}) == 1
        engine_options: dict[str, Any] = {
            "timeout": options.timeout,
            "compute_threads": options.compute_threads,
            "partition_bytes": options.partition_bytes,
            "window_bytes": options.window_bytes,
            "bundle_bytes": options.bundle_bytes,
            "bundle_message_bytes": options.bundle_message_bytes,
            "bundle_linger": options.bundle_linger,
            "rounds": options.rounds,
            "round_bytes": options.round_bytes,
            "coordinator": options.coordinator,
            "seed": options.seed,
            "pipelining": options.pipelining,
            "priorities": options.priorities,
        }
        self.engine = core.connect_engine(control, local_address, engine_options)
        #: Names of single collectives that nobody has waited for yet.
        self.in_flight: set[str] = set()
        #: What adapters keep as long as this engine runs, by keys of their own.
        self.kept: dict[Any, Any] = {}
        self._counts: Counter[str] = Counter()
        self._gpus: dict[int, _core.Device] = {}
        self._trace = ""  # where it goes; empty: nothing is recorded
        if options.trace:
            self.start_trace(options.trace)
        core.set_current_engine(self.engine)

    def numbered(self, name: str) -> str:
        """`name` the first time, then `name#2`, `name#3` …: alike on all ranks, as they ask in the same order."""
        self._counts[name] += 1
        return name if self._counts[name] == 1 else f"{name}#{self._counts[name]}"

    def gpu(self, ordinal: int) -> _core.Device:
        """The engine's device for a GPU, by CUDA's number. Raises Unsupported that says what is missing."""
        if ordinal not in self._gpus:
            self._gpus[ordinal] = load_core().cuda_device(ordinal)
        return self._gpus[ordinal]

    def start_trace(self, path: str) -> None:
        if self._trace:
            raise InvalidArgument(f"a trace is being recorded already, for {self._trace}; stop_timeline() ends it")
        self.engine.start_trace()
        self._trace = path

    def stop_trace(self) -> None:
        if not self._trace:
            raise InvalidArgument("no trace is being recorded; start_timeline(file) begins one")
        path, self._trace = self._trace, ""
        self.engine.stop_trace(path)

    def close(self, linger: float) -> None:
        load_core().set_current_engine(None)
        if self._trace:
            self.stop_trace()
        self.engine.shutdown(linger)
        self._server = None


_lock = threading.Lock()
_runtime: Runtime | None = None


def init(
    *,
    timeout: float | None = None,
    compute_threads: int | None = None,
    partition_bytes: int | None = None,
    window_bytes: int | None = None,
    bundle_bytes: int | None = None,
    bundle_message_bytes: int | None = None,
    bundle_linger: float | None = None,
    rounds: bool | None = None,
    round_bytes: int | None = None,
    coordinator: str | None = None,
    heartbeat: float | None = None,
    heartbeat_limit: float | None = None,
    seed: int | None = None,
    pipelining: bool | None = None,
    priorities: bool | None = None,
    trace: str | None = None,
    check_replicas: int | None = None,
) -> None:
    """Meets the other ranks and starts this process' engine. Does nothing if it runs already.

    Where the ranks are comes from the launcher's environment (`hipress run`, `torchrun`); without one this process is a
    world of its own. See RuntimeOptions for the arguments.

    Raises Timeout (a rank never arrived: the message names it), Refused (wrong job token), Mismatch, TransportError
    (a port in use, no UCX), InvalidArgument (a malformed environment).
    """
    global _runtime
    with _lock:
        if _runtime is not None:
            return
        options = RuntimeOptions.from_environment(
            timeout=timeout,
            compute_threads=compute_threads,
            partition_bytes=partition_bytes,
            window_bytes=window_bytes,
            bundle_bytes=bundle_bytes,
            bundle_message_bytes=bundle_message_bytes,
            bundle_linger=bundle_linger,
            rounds=rounds,
            round_bytes=round_bytes,
            coordinator=coordinator,
            heartbeat=heartbeat,
            heartbeat_limit=heartbeat_limit,
            seed=seed,
            pipelining=pipelining,
            priorities=priorities,
            trace=trace,
            check_replicas=check_replicas,
        )
        place = rendezvous.resolve(timeout=options.timeout)
        if compute_threads is None and "HIPRESS_COMPUTE_THREADS" not in os.environ:
            threads = _default_compute_threads(place.local_size)
            options = replace(options, compute_threads=threads)
        _runtime = Runtime(options, place)
        atexit.register(shutdown)


def shutdown() -> None:
    """Says goodbye to the other ranks, writes the trace, stops the engine. Does nothing if none runs."""
    global _runtime
    with _lock:
        runtime, _runtime = _runtime, None
        if runtime is None or runtime.process != os.getpid():
            return
        atexit.unregister(shutdown)
        runtime.close(LINGER)


def current() -> Runtime:
    """The running runtime. Raises NotInitialized that says to call `init()`."""
    runtime = _runtime
    if runtime is None or runtime.process != os.getpid():
        # A forked child (a data loader's worker) has the object, but not the threads behind it.
        raise NotInitialized("HiPress is not initialised in this process; call init() first (and not after shutdown())")
    return runtime


def is_initialized() -> bool:
    """Whether `init()` has succeeded and `shutdown()` has not been called since."""
    return _runtime is not None and _runtime.process == os.getpid()


def rank() -> int:
    """This process' number, 0 … size() − 1."""
    return current().place.rank


def size() -> int:
    """The number of processes that train together."""
    return current().place.size


def local_rank() -> int:
    """This process' number on its machine."""
    return current().place.local_rank


def local_size() -> int:
    """The number of processes on this machine."""
    return current().place.local_size


def cross_rank() -> int:
    """This process' machine, 0 … cross_size() − 1, among those with a process of this number (`local_rank()`)."""
    return current().counterparts.index(rank())


def cross_size() -> int:
    """The number of machines with a process of this number: of all machines, where each has as many processes."""
    return len(current().counterparts)


def is_homogeneous() -> bool:
    """Whether all machines have equally many processes."""
    return current().homogeneous


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """From now on what this rank does is recorded, for a Chrome/Perfetto trace in `file_path`.

    Every rank that calls it adds its part to the file, which must not exist; ranks of one machine may name one file.
    `mark_cycles` is Horovod's, whose cycles HiPress does not have: it changes nothing.
    Raises InvalidArgument if a trace is being recorded, as with HIPRESS_TRACE.
    """
    current().start_trace(file_path)


def stop_timeline() -> None:
    """Writes what was recorded since start_timeline(). Raises InvalidArgument if it was not called."""
    current().stop_trace()


def counters() -> dict[str, int]:
    """What this rank has exchanged with others since `init()`.

    Keys: bytes_sent, bytes_received (payloads and their headers), messages_sent, messages_received. A message counts
    the same whether it went alone or in a bundle; bundles_sent says how many bundles there were. rounds says in how
    many rounds large messages went (0: links are not used in rounds), rounds_unplanned how many of them were begun
    without the coordinator's word, because it did not come in time.
    """
    counted: dict[str, int] = current().engine.counters()
    return counted


def memory_stats() -> _core.MemoryStats:
    """The memory that this rank's engine holds, in bytes; gradients and what frameworks hold are not in it.

    pool_bytes_held, pool_bytes_in_use, pool_peak_bytes_in_use: staging for encoded and partly merged values. Idle
    staging is given back when the peak that needed it is some steps ago.
    state_bytes: what codecs remember (residuals, momenta), with the spare blocks that encoding writes into.
    scratch_bytes: what codecs compute with; of all threads of this process, kept for their next call.
    device_pool_bytes_held, device_state_bytes, device_scratch_bytes: the first three in the memory of GPUs.
    device_staging_bytes_held: the host's, from and to which GPUs copy.
    unexpected_bytes, unexpected_peak_bytes: payloads that came before this rank submitted their tensors, now and at
    most.
    """
    stats: _core.MemoryStats = current().engine.memory_stats()
    return stats


__all__ = [
    "Runtime",
    "RuntimeOptions",
    "counters",
    "cross_rank",
    "cross_size",
    "current",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "memory_stats",
    "rank",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]
