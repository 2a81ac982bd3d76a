# SPDX-License-Identifier: Apache-2.0
"""The engine of this process: `init()` makes it, `shutdown()` ends it. Every adapter re-exports these functions."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hipress import raw_tensors, unfinished
from hipress._library import load_core
from hipress.errors import HipressError, NotInitialized, PeerLost, Timeout, TransportError
from hipress.launch import rendezvous
from hipress.launch.worlds.seat import seat
from hipress.lifetime import Runtime, Start
from hipress.options.runtime import RUNTIME_OPTIONS, RuntimeOptions
from hipress.options.signatures import takes_all_of

if TYPE_CHECKING:
    from hipress import _core

#: Seconds that `shutdown()` waits for the other ranks to leave, too.
LINGER = 5.0
#: In an elastic job: how many worlds may end in a row while init() connects their ranks.
_MOST_WORLDS = 10

# A signal handler runs in the middle of init() and shutdown(), and may call either of them.
_lock = threading.RLock()
_runtime: Runtime | None = None
#: The init() that waits for the other ranks.
_start: Start | None = None
#: Whether this process was forked (as a data loader's worker is) from a process with an engine: it has the object, but
#: not its threads. A comparison of process numbers would be a system call for every tensor in every step.
_is_forked = False


_FORKED = (
    "this process was forked from a rank, as a worker of a data loader is, and only the rank itself has connections to "
    "the other ranks; call HiPress there, or start this process without fork (multiprocessing's method 'spawn')"
)


def _note_fork() -> None:
    global _is_forked, _lock, _start
    _is_forked = _is_forked or _runtime is not None or _start is not None
    _lock = threading.RLock()  # another thread of the parent may have held the lock
    _start = None


os.register_at_fork(after_in_child=_note_fork)


@takes_all_of(RuntimeOptions, RUNTIME_OPTIONS)
def init(**given: Any) -> None:
    """Connects to the other ranks and starts this process' engine. Does nothing if an engine runs.

    The launcher's environment (`hipress run`, `torchrun`) has the number of this rank; without a launcher this process
    is the only rank of its job. In an elastic job (`hipress run --elastic`) init() waits for this process' place. If an
    option is not given, or None, init() takes its environment variable, which is HIPRESS_ and the name in capitals (for
    `network`: HIPRESS_NET), or else its default.

    Arguments:
        {options}

    Raises Timeout (a rank has not arrived; the text names it), Refused (wrong job token), Mismatch, TransportError (a
    port in use, no UCX, a network that does not connect, too little shared memory), InvalidArgument (a wrong option or
    launcher's variable, an unknown network device, a trace that cannot be written). It raises NotInitialized if
    shutdown() was called meanwhile, or if this process was forked from a rank.
    """
    with _lock:
        if _is_forked:
            raise NotInitialized(_FORKED)
        if _start is not None:
            raise NotInitialized("init() is waiting for the other ranks already; do not call it in a signal handler")
        if _runtime is not None:
            return
        options = RuntimeOptions.from_environment(**given)
        chooses_threads = given.get("compute_threads") is None and "HIPRESS_COMPUTE_THREADS" not in os.environ
        for worlds_left in reversed(range(_MOST_WORLDS)):
            place = rendezvous.resolve(timeout=options.start_timeout)
            if chooses_threads:
                options = replace(options, compute_threads=_default_compute_threads(place.local_size))
            try:
                _begin(options, place)
                break
            except HipressError as error:
                if worlds_left == 0 or not _has_another_world(place, error):
                    raise
        unfinished.listen_to_threads()
        atexit.register(_shutdown_at_exit)


def _has_another_world(place: rendezvous.Rendezvous, error: HipressError) -> bool:
    """Whether the job is elastic and `error`, of an init(), ended with its world, so that another one follows."""
    own = seat()
    if own is None or not place.world:
        return False
    own.why = f"could not begin: {error}"
    return bool(own.is_over(place.world)) or isinstance(error, PeerLost | Timeout | TransportError)


def _end_world(why: str) -> None:
    """In a thread: an init() that waits for the ranks of this world waits in vain."""
    start = _start
    if start is not None:
        start.end(f"has heard that {why}")


def _begin(options: RuntimeOptions, place: rendezvous.Rendezvous) -> None:
    global _runtime, _start
    _start = start = Start()
    own = seat()
    if own is not None:
        own.when_over = _end_world
        if why := own.is_over(place.world):  # before it knew whom to tell
            start.end(f"has heard that {why}")
    try:
        _runtime = Runtime(options, place, start)
    except HipressError:
        if not start.ended:
            raise
        raise NotInitialized("shutdown() was called while init() waited for the other ranks") from None
    except BaseException as error:  # Ctrl-C, or a signal handler that raises
        start.end(f"ended with {unfinished.described(error)} while it waited in init()")
        raise
    finally:
        _start = None
        if start.ended:
            start.close()


def _default_compute_threads(local_size: int) -> int:
    cores = len(os.sched_getaffinity(0))
    return max(1, min(4, cores // max(1, local_size)))


def shutdown() -> None:
    """Says goodbye to the other ranks, writes the trace and stops the engine. Does nothing if no engine runs.

    A signal handler may call it at any time. If init() waits for the other ranks then, init() ends with NotInitialized,
    and the ranks that have come get PeerLost with this reason.

    Raises TransportError if the trace cannot be written; the engine has stopped nevertheless.
    """
    _shutdown(at_exit=False)


def _shutdown(*, at_exit: bool) -> None:
    global _runtime
    start = _start
    if start is not None:
        start.end("called shutdown() while it waited in init()")
    with _lock:
        if _start is not None:
            return  # this function runs within that init(), in a signal handler
        runtime, _runtime = _runtime, None
        if runtime is None or _is_forked:
            return
        atexit.unregister(_shutdown_at_exit)
        runtime.close(LINGER, at_exit=at_exit)


def _shutdown_at_exit() -> None:
    try:
        _shutdown(at_exit=True)
    except HipressError as error:
        # Without this, Python would print a traceback and exit with 0.
        print(f"hipress: {error}", file=sys.stderr, flush=True)
        load_core().fail_at_exit()


def current() -> Runtime:
    """The current runtime. Raises NotInitialized, which says to call `init()`."""
    runtime = _runtime
    if _is_forked:
        raise NotInitialized(_FORKED)
    if runtime is None:
        raise NotInitialized("HiPress is not initialised in this process; call init() first (and not after shutdown())")
    return runtime


def has_failed() -> bool:
    """Whether the engine of this process can run no operation any more, because an error has ended its job."""
    try:
        current().engine.raise_failure("looking for its failure")
    except HipressError:
        return True
    return False


def is_initialized() -> bool:
    """Whether `init()` has succeeded and `shutdown()` has not been called since."""
    return _runtime is not None and not _is_forked


def rank() -> int:
    """The rank of this process, from 0 to size() − 1."""
    return current().place.rank


def size() -> int:
    """The world size: the number of ranks of the job."""
    return current().place.size


def local_rank() -> int:
    """The local rank of this process: its number among the ranks of its host."""
    return current().place.local_rank


def local_size() -> int:
    """The number of ranks on this host."""
    return current().place.local_size


def cross_rank() -> int:
    """The number of this rank's host, from 0 to cross_size() − 1, among the hosts that have this `local_rank()`."""
    return current().counterparts.index(rank())


def cross_size() -> int:
    """The number of hosts that have this `local_rank()`. It counts all hosts if all have equally many ranks."""
    return len(current().counterparts)


def is_homogeneous() -> bool:
    """Whether all hosts have equally many ranks."""
    return current().homogeneous


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Starts to record the tasks of this rank for a Chrome/Perfetto trace in `file_path`.

    Every rank that calls it adds its part to the file, which must not exist; ranks of one host may give the same file.
    `mark_cycles` is Horovod's and changes nothing, because HiPress has no cycles.
    Raises InvalidArgument if a trace is being recorded (HIPRESS_TRACE records one) or if the file cannot be written.
    """
    current().start_trace(file_path)


def stop_timeline() -> None:
    """Writes the trace that start_timeline() has begun.

    Raises InvalidArgument if no trace is being recorded, TransportError if the file cannot be written.
    """
    current().stop_trace()


def counters() -> dict[str, int]:
    """The counters of this rank's messages since `init()`.

    Process groups (DDP's carrier "group", FSDP2, the backend "hipress") need no `init()`. If one of them averages and
    no engine runs, the only counter is bytes_raw_instead.

    bytes_sent, bytes_received: payloads and their headers.
    messages_sent, messages_received: number of messages; a message in a bundle counts as one, too.
    bundles_sent: bundles of small messages.
    messages_raw_instead, bytes_raw_instead: sent messages, and their bytes, of tensors that have a codec and travel
    without it: they are smaller than `min_compress_bytes`, the codec would not shrink them, all ranks share a host, or
    they have one dimension or none and `compress_vectors` is False. bytes_raw_instead also has such tensors of process
    groups, since the process began: as many bytes as a rank sends of them in a ring.
    rounds: link rounds with large messages; 0: there are no link rounds. rounds_unplanned: link rounds that this rank
    began before the coordinator had answered.
    strangers_dropped: messages and packets that arrived at this rank's data port without the proof that a rank of this
    job has sent them (docs/security.md).
    """
    over_groups = raw_tensors.sent_over_groups()
    if over_groups is not None and _runtime is None and not _is_forked:
        return {"bytes_raw_instead": over_groups}
    counted: dict[str, int] = current().engine.counters()
    counted["bytes_raw_instead"] += over_groups or 0
    return counted


def memory_stats() -> _core.MemoryStats:
    """The memory of this rank's engine in bytes, without gradients and without the frameworks' own memory.

    pool_bytes_held, pool_bytes_in_use, pool_peak_bytes_in_use: staging for payloads and partial sums. The engine frees
    idle staging some steps after the last peak that needed it.
    state_bytes: residuals and momenta of codecs, with the spare blocks that encoding writes into.
    scratch_bytes: working memory of the codecs on all threads of this process, kept for their next call.
    device_pool_bytes_held, device_state_bytes, device_scratch_bytes: the first three in the memory of GPUs.
    device_staging_bytes_held: host memory that GPUs copy from and to.
    unexpected_bytes, unexpected_peak_bytes: payloads of early messages, now and at the peak.
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
