# SPDX-License-Identifier: Apache-2.0
# The compiled module, one section per file of bindings/module/. It is longer than 500 lines because a stub is one file.

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

# codec

BytesLike: TypeAlias = bytes | bytearray | memoryview | NDArray[Any]

class CodecOption(TypedDict):
    name: str
    default: str
    meaning: str

class CodecDescription(TypedDict):
    name: str
    id: int
    summary: str
    options: list[CodecOption]
    states: tuple[str, ...]

class Codec:
    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def states(self) -> tuple[str, ...]: ...
    def state_block(self, state: str) -> int:
        """How many elements share a value of the state. Raises InvalidArgument for a state that the codec does not
        keep."""
    @property
    def low_rank(self) -> tuple[int, float, bool, bool] | None:
        """(rank, min_ratio, error_feedback, warm_start) of a codec without encoding; None for other codecs."""
    @property
    def gradient_factor(self) -> float:
        """The factor of gradients that the codec encodes; 1 for merged values."""
    @property
    def merges_decoded(self) -> bool:
        """Whether an aggregator encodes and decodes its own contribution before it merges it."""
    @property
    def summed(self) -> tuple[str, int, int] | None:
        """Of a codec whose encoded values ranks add: "max", "min" or "sum" of statistics, the greatest level, the most
        ranks."""
    def statistics_count(self, count: int) -> int:
        """Of such a codec: how many statistics there are of `count` elements. Raises Unsupported."""
    @property
    def kernels(self) -> str | None:
        """The text of the codec's GPU kernels, for NVRTC."""
    @property
    def parameters(self) -> list[float]: ...
    def for_aggregate(self) -> Codec: ...
    def max_encoded_bytes(self, count: int) -> int: ...
    def encode(
        self,
        input: NDArray[np.float32],
        states: dict[str, NDArray[np.float32]] | None = None,
        *,
        seed: int = 0,
        step: int = 0,
        tensor: int = 0,
        first_element: int = 0,
        scale: float = 1.0,
        threads: int = 1,
    ) -> bytes:
        """The payload of scale·input. Updates `states` in place; without `states`, it encodes as with zero states. If a
        value of a non-empty input is not finite, the payload is empty and the states are unchanged.
        """
    def encode_into(
        self,
        input: NDArray[np.float32],
        before: Sequence[NDArray[np.float32]],
        after: Sequence[NDArray[np.float32]],
        output: NDArray[np.uint8],
        *,
        seed: int = 0,
        step: int = 0,
        tensor: int = 0,
        first_element: int = 0,
        scale: float = 1.0,
        threads: int = 1,
    ) -> int:
        """Encodes without copies, as the core does: reads the states `before` and writes `after`, in the order of
        `states`; both are empty if no states are kept. Returns the number of payload bytes in `output`. 0 for a
        non-empty input means that a value is not finite, and `after` is invalid.
        """
    def decode(self, payload: BytesLike, count: int, *, threads: int = 1) -> NDArray[np.float32]: ...
    def decode_into(
        self, payload: BytesLike, output: NDArray[np.float32], *, accumulate: bool = False, threads: int = 1
    ) -> None: ...

class WireHeader:
    @property
    def version(self) -> int: ...
    @property
    def flags(self) -> int: ...
    @property
    def codec(self) -> int: ...
    @property
    def element_count(self) -> int: ...
    @property
    def payload_bytes(self) -> int: ...
    @property
    def checksum(self) -> int: ...
    @property
    def updates(self) -> int: ...
    @property
    def dtype(self) -> str: ...

#: (tensor, step, partition, hop), header, payload
BundledMessage: TypeAlias = tuple[tuple[int, int, int, int], bytes, bytes]

WIRE_VERSION: int
FLAG_RAW: int
FLAG_ABSENT: int
FLAG_CHECKSUM: int
FLAG_REFERENCE: int
FLAG_TRIMMED: int
FLAG_PACKED: int
FLAG_ZEROS: int
FLAG_NOT_FINITE: int

def create_codec(text: str) -> Codec: ...
def parse_codec_text(text: str) -> tuple[str, dict[str, str]]:
    """The name in a codec's text, and its options as they are written there. Raises InvalidArgument."""

def describe_codecs(encode: bool = True) -> list[CodecDescription]:
    """The codecs that have an encoding; with `encode` False, the codecs without one."""

def summed_statistics(
    codec: Codec,
    values: NDArray[np.float32],
    before: list[NDArray[np.float32]],
    *,
    statistics: NDArray[np.float32],
    seed: int,
    step: int,
    tensor: int,
    threads: int = 1,
) -> None:
    """Writes this rank's statistics. If its values are not finite, neither is what ranks combine from them. Raises
    InvalidArgument, and Unsupported for a codec whose encoded values ranks do not add.
    """

def summed_levels(
    codec: Codec,
    agreed: NDArray[np.float32],
    values: NDArray[np.float32],
    before: list[NDArray[np.float32]],
    after: list[NDArray[np.float32]],
    *,
    message: NDArray[np.uint8],
    seed: int,
    step: int,
    tensor: int,
    threads: int = 1,
) -> None:
    """Writes the message, [4 * statistics + count + 1]: its last `count` + 1 elements, as int8, are to be summed over
    ranks. Raises InvalidArgument, also if a level is greater than the codec says.
    """

def summed_result(
    codec: Codec,
    agreed: NDArray[np.float32],
    message: NDArray[np.uint8],
    *,
    factor: float,
    output: NDArray[np.float32],
    threads: int = 1,
) -> bool:
    """From a message with the sums to `output`, the sum of the ranks' values times `factor`. False, with NaN in all of
    `output`, if any rank had a value that is not finite.
    """

def low_rank_left(
    values: NDArray[np.float32],
    residual: NDArray[np.float32] | None,
    shape: tuple[int, int],
    *,
    step: int,
    right: NDArray[np.float32],
    matrix: NDArray[np.float32],
    left: NDArray[np.float32],
    threads: int = 1,
) -> None:
    """The first part of PowerSGD's step, before ranks sum `left`. Makes `right`, float32 [rank, columns], orthogonal.
    Writes `matrix` = values + residual, and `left`, float32 [rank, rows], the product of `matrix` with `right`. Raises
    InvalidArgument.
    """

def low_rank_right(
    matrix: NDArray[np.float32],
    shape: tuple[int, int],
    *,
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    threads: int = 1,
) -> None:
    """The second part, before ranks sum `right`: makes the sum `left` orthogonal, and writes `right`."""

def low_rank_result(
    matrix: NDArray[np.float32],
    shape: tuple[int, int],
    *,
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    ranks: int,
    factor: float,
    output: NDArray[np.float32],
    threads: int = 1,
) -> bool:
    """The last part: turns the sum `right` into the mean, and `matrix` into the residual, and writes the product times
    `factor` to `output`. Returns False, with NaN in all of `output`, if a rank had a value that is not finite.
    """

def load_codec_library(path: str) -> str:
    """Loads the codec of a shared library and returns its name. Raises InvalidArgument if the file has no codec, if the
    codec is for another version, or if another codec has the same name.
    """

def register_python_codec(
    name: str,
    *,
    summary: str,
    options: Sequence[tuple[str, str, str]],
    states: Sequence[str],
    configure: Callable[[dict[str, str]], Any],
    fingerprint: str,
) -> None:
    """Adds a codec whose functions are Python's. `options`: name, default and meaning of each; `configure`: makes the
    object that the core calls from the texts of all options. Raises InvalidArgument if another codec has the name.
    """

def pack_header(
    codec: int, dtype: str, element_count: int, payload_bytes: int, flags: int = 0, checksum: int = 0
) -> bytes: ...
def unpack_header(
    header: BytesLike,
    codec: int,
    dtype: str,
    element_count: int,
    max_payload_bytes: int,
    trimmed: bool = False,
    may_pack: bool = False,
) -> WireHeader: ...
def pack_bundle(messages: Sequence[BundledMessage]) -> bytes: ...
def split_bundle(bundle: BytesLike) -> list[BundledMessage]:
    """The messages of a bundle, which includes its header. Raises CorruptPayload unless all sizes fit."""

def verify_checksum(header: WireHeader, payload: BytesLike) -> None: ...
def crc32c(data: BytesLike) -> int: ...
def reduce_in_order(
    arrays: Sequence[NDArray[Any]],
    dtype: str,
    factor: float = 1.0,
    out: NDArray[Any] | None = None,
    op: str = "sum",
) -> NDArray[Any]: ...
def pack_nibbles(integers: BytesLike) -> bytes | None: ...
def sum_nibbles(packed: Sequence[bytes], integers: Sequence[NDArray[np.int8]], out: NDArray[np.int8]) -> None: ...
def widen(source: BytesLike, dtype: str) -> NDArray[np.float32]: ...
def narrow(input: NDArray[np.float32], dtype: str) -> bytes: ...
def isa_level() -> str: ...
def isa_levels() -> list[str]: ...
def set_isa_level(name: str) -> None: ...

# control

class StopSource:
    """Ends calls that wait."""

    def __init__(self) -> None: ...
    def request_stop(self) -> bool: ...

class ControlPlane:
    """One rank's control connection with rank 0. Timeouts are in seconds."""

    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    def allgather(self, key: str, value: bytes, timeout: float, among: Sequence[int] = ()) -> list[bytes]: ...
    def alltoall(self, key: str, values: Sequence[bytes], timeout: float) -> list[bytes]: ...
    def declare(
        self, name: str, specification: str, transient: bool = False, timeout: float = 60.0, among: Sequence[int] = ()
    ) -> int: ...
    def abort(self, kind: str, message: str) -> None:
        """Tells all other ranks that this rank has failed; `kind` is the name of an error class."""
    def leave(self, linger: float) -> None: ...
    def close(self) -> None: ...
    def notices(self) -> list[tuple[str, int, int, str, str]]:
        """All notices so far as (kind, rank, tensor, error class, message), for tests and for connections without an
        engine: from the first call on, notices arrive here. Kinds: "lost", "left", "aborted", "conflict",
        "joined", "demand".
        """

class ControlServer:
    """Rank 0's server of the control connections. It ends with `close()` or with its last reference."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        world_size: int,
        token: str,
        listen_fd: int = -1,
        timeout: float = 60.0,
        heartbeat: float = 1.0,
        heartbeat_limit: float = 7.0,
        stall_warning: float = 60.0,
    ) -> None: ...
    @property
    def port(self) -> int: ...
    def close(self) -> None: ...

def connect_control(
    *,
    rank: int,
    world_size: int,
    host: str = "127.0.0.1",
    port: int,
    token: str,
    timeout: float = 60.0,
    heartbeat: float = 1.0,
    heartbeat_limit: float = 7.0,
    stall_warning: float = 60.0,
    stop: StopSource | None = None,
) -> tuple[ControlPlane, str]:
    """Joins the job. Also returns this rank's address, the address of the interface that leads to rank 0. After `stop`
    it raises NotInitialized."""

def make_local_control(world_size: int) -> list[ControlPlane]:
    """The connections of a job whose ranks are threads of this process."""

def network_interfaces() -> list[tuple[str, str, bool, list[str]]]:
    """The interfaces of this network namespace: name, problem ("is down"; "": none), whether it is loopback, and
    addresses with prefix lengths in the kernel's order."""

# engine

class Device:
    @property
    def name(self) -> str: ...
    @property
    def blocks(self) -> int:
        """The number of currently allocated blocks of its memory."""
    def array(self, values: NDArray[Any]) -> DeviceArray:
        """A copy of the values in the device's memory."""

def cuda_device(
    ordinal: int, *, compiler: Callable[[str, str, int, int], bytes], driver: str = "libcuda.so.1"
) -> Device:
    """The GPU with that number, with its own streams and pools. `compiler(title, text, major, minor)` returns the
    kernels that NVRTC has compiled from the text; any thread may call it. Raises Unsupported, which says what is
    missing.
    """

def element_kernels() -> list[tuple[str, str]]:
    """All built-in kernels except those of codecs: title, and text for NVRTC."""

class HostDevice(Device):
    """The processor as a device."""

    def __init__(self) -> None: ...

class SimulatedDevice(Device):
    """A device for tests. It does its work late, and no other code can access its memory."""

    def __init__(self, *, seed: int = 0, delay: float = 2e-4) -> None: ...
    def fail_after(self, work: int) -> None: ...
    def hang(self) -> None: ...
    def resume(self) -> None: ...

class SimulatedEvent:
    def __init__(self) -> None: ...
    def fire(self) -> None: ...

class DeviceArray:
    def write(self, values: NDArray[Any]) -> None: ...
    def read(self, values: NDArray[Any]) -> None: ...

def process_set_text(ranks: Sequence[int]) -> str:
    """Every rank of a process set, in few words: "ranks 0-3 and 8"."""

class TensorSpec:
    def __init__(
        self,
        name: str,
        *,
        collective: str = "allreduce",
        dtype: str = "float32",
        count: int,
        shape: str = "",
        op: str = "average",
        prescale: float = 1.0,
        postscale: float = 1.0,
        root: int = 0,
        codec: str = "none",
        topology: str = "ps",
        partitions: int = 0,
        min_compress_bytes: int = 0,
        group: str = "",
        priority: int = 0,
        transient: bool = False,
        device: Device | None = None,
        rows: int = 0,
        received: Sequence[int] = (),
        sent: Sequence[int] = (),
        trimmed: bool = False,
        greatest: int = 0,
        lasting_name: str = "",
        among: Sequence[int] = (),
    ) -> None:
        """`among`: the ranks of its process set, in rising order; none: all ranks."""
    @property
    def name(self) -> str: ...
    def describe(self) -> str: ...

class MemoryStats(TypedDict):
    pool_bytes_held: int
    pool_bytes_in_use: int
    pool_peak_bytes_in_use: int
    state_bytes: int
    scratch_bytes: int
    device_pool_bytes_held: int
    device_state_bytes: int
    device_scratch_bytes: int
    device_staging_bytes_held: int
    unexpected_bytes: int
    unexpected_peak_bytes: int

class Engine:
    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    @property
    def hosts(self) -> list[int]:
        """The host number of each rank; empty: all ranks are on one host."""
    @property
    def traced(self) -> bool: ...
    def declare(self, specs: Sequence[TensorSpec]) -> list[int]: ...
    def announce(self, spec: TensorSpec) -> int:
        """Declares a tensor for one operation without a wait: the operation starts when rank 0 has answered."""
    def announce_refusal(self, name: str, reason: str, among: Sequence[int]) -> None:
        """Says that this rank has refused a call of this name, for which the other ranks of the set may wait."""
    def join(self) -> int:
        """Waits until all ranks have called it; takes part without values in their all-reduces until then. Returns the
        rank that called last."""
    def agree(self, list_name: str, specs: Sequence[TensorSpec]) -> list[int]: ...
    def travel_raw(self, handles: Sequence[int]) -> list[bool]:
        """For each tensor of no group: whether no codec encodes any part of it."""
    def agree_anew(
        self, list_name: str, handles: Sequence[int], specs: Sequence[TensorSpec]
    ) -> list[tuple[int, NDArray[np.float32] | None]]:
        """Changes the specifications of existing tensors, by name. All ranks call it. Returns each tensor's handle (a
        changed tensor gets a new handle, and the old one ends) and its unsent residual, which the caller adds to the
        tensor's next values once. An unsent residual is of elements that this rank no longer encodes with error
        feedback; all other residuals continue. Raises InvalidArgument if a tensor is in flight, and the errors of
        agree().
        """
    def forget(self, handles: Sequence[int]) -> None:
        """Frees what this rank keeps of agreed tensors that it does not submit any more, their codec states too. It
        asks no other rank. Tensors in flight stay. Raises InvalidArgument, NotInitialized.
        """
    def submit(
        self,
        tensor: int,
        input: NDArray[Any] | None,
        output: NDArray[Any],
        on_done: Callable[[str | None, bool], None] | None = None,
        updates: int = 0,
    ) -> int: ...
    def submit_on_device(
        self, tensor: int, input: DeviceArray | None, output: DeviceArray, ready: SimulatedEvent | None = None
    ) -> int: ...
    def poll(self, operation: int) -> bool: ...
    def wait(self, operation: int) -> bool: ...
    def counters(self) -> dict[str, int]: ...
    def memory_stats(self) -> MemoryStats: ...
    def allgather(self, key: str, value: bytes, timeout: float | None = None, among: Sequence[int] = ()) -> list[bytes]:
        """Small values of the ranks `among`, in rising order, through the control plane; none: of all ranks."""
    def state(self, tensor: str, role: str, state: str) -> NDArray[np.float32]:
        """A copy of a codec state; role is "worker" or "aggregator". Empty if there is no such state."""
    def states(self) -> list[tuple[str, str, str]]: ...
    def kept_states(self, tensor: int) -> tuple[int, int, list[tuple[int, str | None, float]], dict[str, int]]:
        """The description of a tensor's codec states on this rank: the number of its next step, the tensor's number in
        the key of random values, stretches of elements, and the names of its states, each with the number of elements
        that share a value. A stretch is an element count, the role in which this rank encodes the elements (or None),
        and the factor of the encoded values relative to the gradient. Raises InvalidArgument if it is in flight.
        """
    def read_state(self, tensor: int, state: str, block: int = 1) -> NDArray[np.float32]:
        """One state of all elements, from the role in which this rank encodes each; zeros for other elements. `block`
        elements share a value."""
    def multiply_states(self, tensors: Sequence[int], factor: float) -> None:
        """Multiplies the codec states of these tensors on this rank, because the unit of their gradients has changed.

        It asks no other rank. Raises InvalidArgument if a tensor is in flight.
        """
    def settle_by_steps(self, tensors: Sequence[int]) -> None:
        """From their next operations on, the codec states of these tensors change by whole steps: if one result of a
        step is not finite, all states are as before it. A step has each tensor at most once, and ends with end_step().
        Every rank calls both between the same operations."""
    def end_step(self, tensor: int) -> bool:
        """The next operation of the tensors that change with this one begins another step. Returns whether all results
        of the ended step were finite; False, too, if operations of it have not ended."""
    def restore_states(
        self,
        tensors: Sequence[int],
        restored: Sequence[tuple[int, int, Sequence[tuple[int, str | None, float]], Mapping[str, NDArray[np.float32]]]],
        blocks: Sequence[Mapping[str, int]] = ...,
    ) -> list[NDArray[np.float32] | None]:
        """Replaces the codec states of these tensors. `restored` has, for each tensor, the first three values of
        kept_states() and the states. `blocks` has, for each tensor, the states of which several elements share a value,
        with the number of these elements. It asks no other rank. Returns each tensor's unsent residual. Raises
        InvalidArgument if a tensor is in flight, or if its codec's state has other blocks; the states are then
        unchanged.
        """
    def record_span(self, name: str, start_ns: int, end_ns: int) -> None: ...
    def start_trace(self) -> None: ...
    def stop_trace(self, path: str) -> None: ...
    def fail(self, kind: str, message: str) -> None:
        """Ends the job: on all ranks, operations in flight and later ones raise the error class of this name."""
    def raise_failure(self, doing: str) -> None:
        """Raises the failure that has ended the job, if there is one; after shutdown() NotInitialized. `doing`: the
        caller's action, for the text.
        """
    def shutdown(self, linger: float = 5.0, reason: str = "") -> str | None:
        """Leaves the job. `reason` is the text within "rank 2 has left (reason)". Returns the failure of the other
        ranks after this rank had left, or None.
        """

class Blocks:
    """An allgather or alltoall in flight."""

    def poll(self) -> bool: ...
    def wait(self) -> tuple[NDArray[np.uint8], list[int]]:
        """The bytes of all blocks, in rank order, and the number of rows of each rank."""

def move_blocks(
    engine: Engine, spec: TensorSpec, input: NDArray[Any], row_elements: int, rows: Sequence[int]
) -> Blocks:
    """Starts an allgather (`rows`: this rank's number of rows) or an alltoall (`rows`: one number for each rank)."""

def connect_engine(
    control: ControlPlane,
    local_address: str,
    options: dict[str, Any],
    devices: str = "",
    start_timeout: float = 60.0,
    stop: StopSource | None = None,
) -> Engine:
    """Makes an engine over UCX. All ranks call it, and wait for each other for up to start_timeout seconds. `devices`:
    the devices for UCX, in the format of UCX_NET_DEVICES; empty: the interface of local_address. After `stop` it raises
    NotInitialized."""

def make_local_engines(
    world_size: int,
    options: dict[str, Any] = ...,
    intercept: Callable[[int, int, bytes], bool | bytes] | None = None,
    intercept_bundle: Callable[[int, int, bytes], bool | bytes] | None = None,
    read_neighbours: bool = True,
) -> list[Engine]: ...
def set_current_engine(engine: Engine | None) -> None: ...
def raise_kept_error() -> None: ...
def prepare_trace_file(path: str) -> None:
    """Raises InvalidArgument unless a trace can be written to the file."""

def fail_at_exit() -> None:
    """Changes the exit code of the process to 1 if it would be 0."""

def trace_now() -> int: ...
def topology_names() -> list[str]: ...
def build_topology(
    name: str, rank: int, world_size: int, partitions: int, first_rank: int = 0, hosts: list[int] = ...
) -> list[dict[str, Any]]:
    """One rank's task graph: primitive, partition, peer, hop, plain, merged_messages, merged_plain, successors."""

def check_topology(name: str) -> None:
    """Raises InvalidArgument, with all names, for an unknown topology."""

def resolved_topology(name: str, world_size: int) -> str:
    """The topology that a name stands for among so many ranks: itself, unless it is "auto"."""

def is_direct(topology: str) -> bool:
    """Whether no message has a sum of some ranks."""

def number_of_name(name: str) -> int:
    """The number of a tensor's name for random rounding, the same in every process."""

def first_aggregator(name: str, world_size: int) -> int:
    """The owner of partition 0 of a tensor with this name."""

def encoders(topology: str, world_size: int, owner: int, hosts: Sequence[int] = ()) -> tuple[list[int], int]:
    """The ranks that encode gradients or partial sums of a partition, and the rank that encodes the result, or -1."""

def build_collective(name: str, rank: int, world_size: int) -> list[dict[str, Any]]:
    """One rank's task graph of broadcast, allgather, alltoall or reducescatter."""

def host_identity() -> str:
    """A text that is equal on all ranks of one host, which can share memory."""

def ucx_info() -> dict[str, Any]: ...
def shared_memory(ranks: int, free: int | None = None, system_v: bool | None = None) -> dict[str, Any]:
    """The shared memory of this host, and the kind that so many ranks of it take ("kind"), or what is missing
    ("problem"). `free` (bytes) and `system_v` replace what the host has."""

# simulation

CostPoints: TypeAlias = Sequence[tuple[float, float]]
#: Index in `computations` or -1, and bytes of the values as float32.
SimulatedWork: TypeAlias = tuple[int, float]
SimulatedTensor: TypeAlias = tuple[
    str, int, int, int, str, int, int, float, int, float, int, SimulatedWork, SimulatedWork, bool
]

class ComputeCosts:
    def __init__(self, by_threads: Sequence[CostPoints] = ..., slowdown: Sequence[float] = ...) -> None: ...
    def seconds(self, raw_bytes: float, threads: int = 1, busy: int = 1) -> float: ...

class SimulatedCodec:
    def __init__(
        self,
        encode: ComputeCosts,
        decode: ComputeCosts,
        merge: ComputeCosts,
        encoded_bytes: CostPoints,
        merges_decoded: bool = False,
    ) -> None: ...

class SimulatedLink:
    def __init__(
        self,
        *,
        bytes_per_s: float,
        latency_s: float = 0.0,
        send_s_per_message: float = 0.0,
        send_s_per_byte: float = 0.0,
        receive_s_per_message: float = 0.0,
        receive_s_per_byte: float = 0.0,
    ) -> None: ...

class SimulatedCluster:
    def __init__(
        self,
        *,
        hosts: Sequence[int],
        machines: Sequence[int],
        cores: Sequence[int],
        network: SimulatedLink,
        shared_memory: SimulatedLink,
        unlike: Sequence[tuple[int, int, SimulatedLink]] = ...,
        compute_threads: int = 1,
        neighbours_read: bool = True,
        read_s_per_byte: float = 0.0,
    ) -> None: ...

class EngineCosts:
    def __init__(
        self,
        *,
        submission_s: float = 0.0,
        task_s: float = 0.0,
        bundled_message_s: float = 0.0,
        sum: ComputeCosts = ...,
    ) -> None: ...

class EngineSettings:
    def __init__(
        self,
        *,
        partition_bytes: int = ...,
        inline_elements: int = ...,
        window_bytes: int = ...,
        bundle_bytes: int = ...,
        bundle_message_bytes: int = ...,
        bundle_linger_s: float = ...,
        priorities: bool = True,
    ) -> None: ...

class SimulatedGradient:
    @property
    def start_s(self) -> float: ...
    @property
    def end_s(self) -> float: ...

class SimulatedRank:
    @property
    def sent_bytes(self) -> float: ...
    @property
    def local_bytes(self) -> float: ...
    @property
    def messages(self) -> float: ...
    @property
    def flights(self) -> float: ...
    @property
    def cpu_s(self) -> float: ...
    @property
    def computing_s(self) -> float: ...
    @property
    def sending_s(self) -> float: ...

class SimulatedStep:
    @property
    def step_s(self) -> float: ...
    @property
    def backward_s(self) -> float: ...
    @property
    def gradients(self) -> list[SimulatedGradient]: ...
    @property
    def ranks(self) -> list[SimulatedRank]: ...
    @property
    def events(self) -> int: ...

def default_partitions(elements: int, element_bytes: int, world_size: int, partition_bytes: int = ...) -> int: ...

#: A codec encodes so many elements at a time.
MOST_ENCODED: int

def planned_partitions(spec: TensorSpec, world_size: int, partition_bytes: int = ...) -> list[tuple[int, bool]]:
    """(number of elements, whether it travels raw) of each partition of a tensor."""

def split_elements(elements: int, partitions: int) -> list[tuple[int, int]]: ...

class SlotStateTable:
    """The codec states of partitions that travel in slots, by key; in the memory of `device`."""

    def __init__(self, device: Device) -> None: ...
    def read(self) -> dict[str, dict[str, NDArray[np.float32]]]:
        """Copies of the states, by key and by state name."""
    def put(self, key: str, state: str, values: NDArray[np.float32], block: int = 1, count: int | None = None) -> None:
        """Sets a state of a partition of `count` elements, of which `block` share a value."""

class Slot:
    """A partition of a tensor and its slot; core/slots/program/slot.h describes the fields."""

    def __init__(self, codec: Codec, aggregate_codec: Codec | None) -> None: ...
    name: str
    partition: int
    tensor: int
    first: int
    count: int
    owner: int
    payload_bytes: int
    dtype: str
    raw: bool
    scaled: bool
    counted: bool
    number: int
    first_element: int
    worker_key: str
    aggregator_key: str

class SlotQueue:
    """A stream of a framework on which HiPress puts work; `stream`: the address that the driver knows it by. The host's
    work is done when a call returns. For one thread at a time."""

    def __init__(self, device: Device, stream: int = 0) -> None: ...
    def rescale(self, tables: Sequence[SlotStateTable], now: int, before: int) -> None:
        """Multiplies all states of the device by the float at `now` / that at `before`, which then becomes the same."""
    def wait(self, seconds: float) -> None:
        """Waits until all work on the stream is done. Raises Timeout, or the device's error."""

class SummedTensor:
    """A tensor whose encoded values ranks add, on a device. Each call puts work on the queue's stream and returns at
    once. Raises Unsupported if the device has no code for the codec; InvalidArgument."""

    def __init__(self, name: str, codec: Codec, count: int, number: int, device: Device) -> None: ...
    def make_statistics(
        self,
        queue: SlotQueue,
        values: tuple[int, str, int],
        states: SlotStateTable,
        key: str,
        seed: int,
        step: int,
        statistics: tuple[int, int],
        gradient: int,
    ) -> None: ...
    def make_levels(self, queue: SlotQueue, agreed: tuple[int, int], levels: tuple[int, int]) -> None: ...
    def finish(
        self,
        queue: SlotQueue,
        values: tuple[int, str, int],
        factor: float,
        agreed: tuple[int, int],
        gradient: int,
        levels: tuple[int, int],
        changed: SlotChanges,
    ) -> None: ...
    def raise_error(self) -> None: ...

class SlotChanges:
    """The states that the averages of one step change, and whether the step counts. The device finds the verdict and
    puts states back by itself."""

    def __init__(self, device: Device, keeps_states: bool = True) -> None: ...
    @property
    def keeps_states(self) -> bool: ...
    nan_if_refused: bool
    """Whether a refused average is NaN, so that a loss scaler leaves the step out, too; otherwise it is zeros."""
    def discard(self) -> None:
        """The host knows that the step does not count: it failed."""
    def look(self, queue: SlotQueue, average: tuple[int, str, int]) -> None:
        """Looks whether an average is finite."""
    def write_verdict(self, queue: SlotQueue, to: int) -> None:
        """Writes a float that is not 0 if the step does not count so far."""
    def settle(self, queue: SlotQueue) -> bool:
        """Ends the step: if it does not count, all states become what they were before it. Returns whether the host
        knows that it does not count."""

class SlotHop:
    """What a rank exchanges between two runs of a program: bytes by the other rank, and where they lie in the arena."""

    @property
    def send_at(self) -> int: ...
    @property
    def receive_at(self) -> int: ...
    @property
    def sent(self) -> list[int]: ...
    @property
    def received(self) -> list[int]: ...
    @property
    def counted(self) -> list[int]:
        """Of `sent`, those of slots that are counted."""

class SlotProgram:
    """The average of some slots over a process group, as runs of a rank and hops between them; str() shows it.

    `hosts`: of each rank, for a hierarchical topology. Raises InvalidArgument.
    """

    def __init__(
        self, slots: Sequence[Slot], rank: int, world: int, topology: str = "auto", hosts: Sequence[int] = ()
    ) -> None: ...
    @property
    def is_all_to_all(self) -> bool:
        """Whether in each hop all ranks have bytes for all."""
    @property
    def hops(self) -> list[SlotHop]: ...
    @property
    def arena_bytes(self) -> int: ...
    def __str__(self) -> str: ...

class SlotTensors:
    """Tensors on a device, for all runs of a batch: each place is (address, dtype, elements)."""

    def __init__(self, places: Sequence[tuple[int, str, int]]) -> None: ...

class SlotExecutor:
    """Does the runs of a program on a device. Each call puts work on the queue's stream and returns at once.

    Memory is (address, bytes) on the device. Raises InvalidArgument if memory has another size than the program needs;
    Unsupported if the device has no code for a codec.
    """

    def __init__(self, program: SlotProgram, device: Device) -> None: ...
    def prepare(self, queue: SlotQueue, arena: tuple[int, int]) -> None:
        """Clears memory that no step has used yet."""
    def run(
        self,
        number: int,
        queue: SlotQueue,
        tensors: SlotTensors,
        states: SlotStateTable,
        seed: int,
        step: int,
        factor: float,
        arena: tuple[int, int],
        changed: SlotChanges,
    ) -> None:
        """Run `number`; all messages of the hop before it have come."""
    def check(self, queue: SlotQueue, changed: SlotChanges) -> None:
        """Asks for the errors that the device has found in the work up to here."""
    def raise_error(self) -> None:
        """Raises the first error that is known by now: CorruptPayload, or the device's own."""

DEVICE_MESSAGE_END: int
"""The bytes after the payload's room in a device's message."""

def set_device_maker(maker: Callable[[int], Device]) -> None:
    """Sets the function that makes a device by its number, for operators that are written in C++."""

def process_operators(ordinal: int) -> DeviceOperators:
    """The operators of this device of the process. Raises NotInitialized before set_device_maker(), and its errors."""

def operator_codec(name: str, options: str) -> Codec:
    """The codec of a name and the text between its parentheses, configured once. Raises InvalidArgument."""

class DeviceOperators:
    """A device's part of the codec operators; each call puts work on a framework's stream and returns at once.

    Floats are (address, elements), memory is (address, bytes), both on the device; a state is (name, address,
    elements).
    Raises InvalidArgument, or Unsupported if the device has no code for a codec.
    """

    def __init__(self, device: Device) -> None: ...
    def message_bytes(self, codec: Codec, count: int) -> int:
        """The size of a message for `count` elements."""
    def workspace_floats(self, codec: Codec, count: int, states: Sequence[tuple[str, int, int]]) -> int:
        """The elements of the memory that encode() needs besides."""
    def encode(
        self,
        stream: int,
        codec: Codec,
        gradient: tuple[int, int],
        states: Sequence[tuple[str, int, int]],
        workspace: tuple[int, int],
        message: tuple[int, int],
        *,
        seed: int,
        step: int,
        tensor: int,
        scale: float,
    ) -> None: ...
    def decode(
        self, stream: int, codec: Codec, message: tuple[int, int], output: tuple[int, int], accumulate: bool
    ) -> None: ...
    def raise_error(self) -> None:
        """Raises the first error that the device has reported, once: CorruptPayload, or the device's own."""
    def wait(self, seconds: float) -> None:
        """Waits until all work is done. Raises Timeout, and the errors of raise_error()."""

def are_zeros(values: NDArray[Any]) -> bool:
    """Whether all bits of an array are 0."""

def simulate_step(
    cluster: SimulatedCluster,
    engine: EngineCosts,
    codecs: Sequence[SimulatedCodec],
    gradients: Sequence[SimulatedTensor],
    *,
    computations: Sequence[ComputeCosts] = ...,
    settings: EngineSettings = ...,
    backward_threads: int = 0,
    backward_s: float = 0.0,
    symmetric: bool = False,
) -> SimulatedStep: ...

# parts as bytes

def encode_changes(old: NDArray[np.uint8], now: BytesLike, element_bytes: int, limit: int) -> bytes | None: ...
def check_changes(changes: BytesLike, tensor_bytes: int, element_bytes: int) -> None: ...
def apply_changes(tensor: NDArray[np.uint8], changes: BytesLike, element_bytes: int) -> None: ...

#: Tiles, tiles beside each other, height and width of a tile, elements of it that are sent.
TileGrid: TypeAlias = tuple[int, int, int, int, int]

def encode_kept(grids: Sequence[TileGrid], indices: NDArray[np.uint16], bins: NDArray[np.uint8]) -> bytes: ...
def decode_kept(grids: Sequence[TileGrid], bytes: BytesLike) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]: ...
