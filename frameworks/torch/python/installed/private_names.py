# SPDX-License-Identifier: Apache-2.0
"""The names of torch that are not public. No other file of hipress.torch uses one.

A new version of torch may change a private name without notice. For each name a comment says why HiPress needs it, and
which public way replaces it. If the installed torch lacks a name, its first use raises Unsupported, which says what
does not work and which versions do. fsdp/units.py also reads attributes of FSDP2's objects that torch does not
document, but whose names have no leading underscore.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist

from hipress.errors import Unsupported

#: On which the tests have run.
TESTED = "2.13.0 and 2.14.1"

_Function = TypeVar("_Function", bound=Callable[..., Any])


def missing(name: str, feature: str) -> Unsupported:
    """The error for a name that torch does not have."""
    return Unsupported(
        f"{feature} uses {name}, which torch {torch.__version__} does not have: HiPress is tested with torch {TESTED}; "
        "install one of them, or a newer HiPress"
    )


def _of(owner: Any, name: str, feature: str) -> Any:
    """The attribute of an object, for what `feature` says. Raises Unsupported."""
    try:
        return getattr(owner, name)
    except AttributeError:
        # Modules and classes have a name of their own.
        raise missing(f"{getattr(owner, '__name__', type(owner).__name__)}.{name}", feature) from None


# Types. They are loaded when a module asks for them, because FSDP2 takes long to import.
if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend as Backend
    from torch._C._distributed_c10d import GradBucket as GradBucket
    from torch._C._distributed_c10d import HashStore as HashStore
    from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather as AllGather
    from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter as ReduceScatter
    from torch.nn.modules.batchnorm import _BatchNorm as _BatchNorm
else:
    _C10D = "torch._C._distributed_c10d"
    _TYPES = {
        # The base of a backend's options. Later: torch.distributed.BackendBase, which torch has after 2.15.
        "Backend": (_C10D, "the backend 'hipress'"),
        # torch.distributed.GradBucket is public, and torch's annotations do not export it.
        "GradBucket": (_C10D, "hipress.torch.ddp.compress()"),
        # torch.distributed.HashStore is public, and torch's annotations do not export it.
        "HashStore": (_C10D, "DiLoCo over a process group"),
        # The interfaces of set_custom_all_gather() and set_custom_reduce_scatter(), which are public. torch exports no
        # public names of them.
        "AllGather": ("torch.distributed.fsdp._fully_shard._fsdp_api", "fsdp.compress_all_gather()"),
        "ReduceScatter": ("torch.distributed.fsdp._fully_shard._fsdp_api", "fsdp.compress_reduce_scatter()"),
        # The base of all of torch's batch normalisations. Each public class takes inputs of some dimensions only.
        "_BatchNorm": ("torch.nn.modules.batchnorm", "hipress.torch.SyncBatchNorm"),
    }

    def __getattr__(name: str) -> Any:
        if name not in _TYPES:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        module, feature = _TYPES[name]
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            raise missing(f"{module}.{name}", feature) from None


# Autograd.


def running_backward_pass() -> int:
    """torch's number of the backward pass that this thread runs; -1: none."""
    # A hook gets no sign of the pass that called it. torch plans no public way.
    return int(_of(torch._C, "_current_graph_task_id", "averaging in backward()")())


def at_end_of_backward(call: Callable[[], None]) -> None:
    """torch calls it when the backward pass that runs now has ended."""
    # torch.autograd.graph has hooks of nodes and of gradients, and none of the end; FSDP2 uses this one, too.
    engine = _of(torch.autograd.Variable, "_execution_engine", "averaging in backward()")
    _of(engine, "queue_callback", "averaging in backward()")(call)


def version_of(tensor: torch.Tensor) -> int:
    """A number that grows with each change of the tensor in place."""
    # torch documents it for autograd's own use only; there is no public way.
    return int(_of(tensor, "_version", "noticing changed tensors"))


def sparse_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices and values of a sparse COO tensor, in which an index may occur more than once."""
    # The public indices() and values() refuse a tensor that is not coalesced.
    return _of(tensor, "_indices", "sparse gradients")(), _of(tensor, "_values", "sparse gradients")()


def copy_all(into: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """Copies each of the values; on a GPU in one kernel, or few."""
    # Tensor.copy_() is the public way, with a kernel for each tensor.
    together = getattr(torch, "_foreach_copy_", None)
    if together is not None:
        together(into, values)
        return
    for tensor, value in zip(into, values, strict=True):
        tensor.copy_(value)


def not_compiled(function: _Function) -> _Function:
    """torch.compile() leaves the function as it is."""
    # torch.compiler.disable() is the public way; it imports the whole compiler.
    private = getattr(importlib.import_module("torch._compile"), "_disable_dynamo", torch.compiler.disable)
    marked: _Function = private(function)
    return marked


# Optimizers and loss scalers.

#: A GradScaler calls an optimizer with this attribute in each step, also after an overflow. Fused optimizers of torch
#: have it, and so it stays until torch has a public way.
STEPS_AFTER_OVERFLOW = "_step_supports_amp_scaling"


def needs_no_wrapper(step: Callable[..., Any]) -> None:
    """A learning-rate scheduler then does not replace the optimizer's step()."""
    # The scheduler counts the calls of step() by replacing it, and looks for this mark. There is no public way.
    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]


def scale_of(scaler: torch.amp.GradScaler) -> torch.Tensor | None:
    """The tensor in which a scaler has its scale, after the first scaled loss."""
    # The public get_scale() waits for the GPU in each step.
    tensor: torch.Tensor | None = _of(scaler, "_scale", "a codec with a GradScaler")
    return tensor


def has_stepped(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> bool:
    """Whether the scaler has unscaled gradients of the optimizer, or called its step()."""
    # There is no public way. Without the name an optimizer cannot refuse a scaler, and the guide says that it should.
    return id(optimizer) in getattr(scaler, "_per_optimizer_states", {})


# Modules within wrappers.

#: What torch.compile() calls the module that it wraps: part of the names in every checkpoint of a compiled model.
COMPILED = "_orig_mod"


def children_of(model: torch.nn.Module) -> Mapping[str, torch.nn.Module | None]:
    """The modules that are attributes of this one, by name."""
    # The public named_children() leaves out a module's second name, as Fabric gives one.
    modules: Mapping[str, torch.nn.Module | None] = _of(model, "_modules", "finding the model in a wrapper")
    return modules


# DistributedDataParallel.


def refuses_hooks() -> bool:
    """Whether torch.compile() replaces DDP's reducer, which calls communication hooks."""
    # `torch._dynamo.config` is how users set it; torch has no public place for the option. Without it nobody sets it.
    return getattr(torch._dynamo.config, "optimize_ddp", None) == "python_reducer"


def joins(model: torch.nn.parallel.DistributedDataParallel) -> bool:
    """Whether some ranks may have joined, as in `with model.join()`."""
    # join() tells a Joinable in public, but not a communication hook.
    return bool(_of(model, "_join_config", "hipress.torch.ddp.compress()").enable)


def divides_by_all_ranks(model: torch.nn.parallel.DistributedDataParallel) -> bool:
    """Whether join() averages over all ranks, also over the ranks that have joined."""
    # An argument of join() that DDP keeps to itself.
    return bool(_of(model, "_divide_by_initial_world_size", "hipress.torch.ddp.compress() with join()"))


def composed_ddp(
    model: torch.nn.Module,
) -> tuple[torch.nn.parallel.DistributedDataParallel, list[tuple[str, torch.nn.Parameter]]] | None:
    """The DistributedDataParallel that torch's composable replicate() has made for the model, and its parameters."""
    # The function is private as a whole; torch replaces it by a replicate() of FSDP2. A program that uses it has
    # imported its module.
    module: Any = sys.modules.get("torch.distributed._composable.replicate")
    state = None if module is None else module.replicate.state(model)
    if state is None:
        return None
    feature = "hipress.torch.ddp.compress() with replicate()"
    if _of(state, "_init_args", feature) or _of(state, "_init_kwargs", feature):  # the first forward pass would do it
        state.lazy_init()
    names, parameters = _of(state, "_param_names", feature), _of(state, "_param_list", feature)
    return _of(state, "_ddp", feature), list(zip(names, parameters, strict=True))


# FSDP2.


def parameter_groups(module: torch.nn.Module) -> list[Any]:
    """FSDP2's groups of a module's parameters. In older versions of torch a module has one group or none."""
    # Names and shards of a unit's parameters, and the groups over which it travels: FSDPModule shows none in public.
    feature = "hipress.torch.fsdp"
    state = _of(module, "_get_fsdp_state", feature)()
    if hasattr(state, "_fsdp_param_groups"):
        return list(state._fsdp_param_groups)
    group = _of(state, "_fsdp_param_group", feature)
    return [] if group is None else [group]


def place_of(parameter: Any) -> Any:
    """Where FSDP2 has found a parameter: an object with `module` and `param_name`."""
    return _of(parameter, "_module_info", "hipress.torch.fsdp")


def reduce_scatter_of(group: Any) -> Any:
    """What FSDP2 calls for the reduce-scatter of a group of parameters."""
    # set_custom_reduce_scatter() is public, and nothing public tells what was set before.
    return _of(group, "_reduce_scatter_comm", "fsdp.compress_reduce_scatter()")


def all_gather_of(group: Any) -> Any:
    """What FSDP2 calls for the all-gather of a group of parameters."""
    # As above, of set_custom_all_gather().
    return _of(group, "_all_gather_comm", "fsdp.compress_all_gather()")


def is_before_backward(group: Any) -> bool:
    """Whether FSDP2 prepares the backward pass of a group of parameters."""
    # Nothing public tells a gather for which pass it is.
    return bool(_of(group, "_training_state", "fsdp.compress_all_gather()").name == "PRE_BACKWARD")


def local_shard_of(parameter: Any) -> torch.Tensor:
    """This rank's shard of one of FSDP2's parameters, in the type that the user has given it."""
    # The public to_local() unwraps the type, whose fsdp_pre_all_gather() is asked for.
    shard: torch.Tensor = _of(parameter, "_sharded_local_tensor", "fsdp.compress_all_gather()")
    return shard


# Compiled graphs.


def functional_collectives() -> Any:
    """torch's collectives as operators, of which a traced graph consists."""
    # torch has no public names of them. The import registers what they return while torch traces.
    importlib.import_module("torch.distributed._functional_collectives")
    return _of(torch.ops, "_c10d_functional", "hipress.torch.compiled")


#: How the names of these operators begin in a graph.
COLLECTIVE_OPERATORS = "_c10d_functional."


def waited_later(tensor: torch.Tensor, work: Any) -> None:
    """The operator wait_tensor() waits for the work when it gets the tensor."""
    # torch's own operators in C++ do it; a Work has no public way into a graph.
    _of(importlib.import_module("torch._C._distributed_c10d"), "_register_work", "hipress.torch.compiled")(tensor, work)


def group_of_name(name: str) -> dist.ProcessGroup:
    """The group with this group_name. Raises RuntimeError or ValueError if there is none."""
    # A graph has names in place of groups, and torch only a private function for the way back.
    group: dist.ProcessGroup = _of(dist.distributed_c10d, "_resolve_process_group", "hipress.torch.compiled")(name)
    return group


# Process groups.


def store_of(group: dist.ProcessGroup) -> Any:
    """The store of a group that torch.distributed knows; None for MPI's."""
    # ProcessGroup.get_group_store() replaces it once the oldest torch has it for groups that are written in Python.
    return _of(dist.distributed_c10d, "_get_process_group_store", "averages of process groups")(group)


def backend_of(group: dist.ProcessGroup, device: torch.device) -> Any:
    """What carries the group's tensors on the device. Raises RuntimeError if there is nothing."""
    # torch.distributed.get_backend_impl() replaces it, from torch 2.14 on.
    return _of(group, "_get_backend", "averages of process groups")(device)


def timeout_of(backend: Any) -> datetime.timedelta:
    """The time limit of a backend's collectives."""
    # Backend.Options has no public name for it.
    limit: datetime.timedelta = _of(backend.options, "_timeout", "averages of process groups")
    return limit


def nccl_options(timeout: datetime.timedelta) -> Any:
    """Options of NCCL with this time limit."""
    # The same: the constructor does not take it.
    options: Any = dist.ProcessGroupNCCL.Options()
    options._timeout = timeout
    return options


def gather_into(group: Any, output: torch.Tensor, given: torch.Tensor) -> Any:
    """Starts collecting all ranks' tensors in one, on a group or a backend; returns the work."""
    # torch.distributed.all_gather_single() takes groups that torch knows; all_gather_single() of a backend replaces
    # this from torch 2.14 on.
    return _of(group, "_allgather_base", "averages of process groups")(output, given)


@contextlib.contextmanager
def nccl_together(backend: Any) -> Iterator[None]:
    """Calls of all of NCCL's communicators within it are one call. `backend`: one of NCCL, or None."""
    # torch's own abort of several groups uses them; there is no public way.
    if backend is not None:
        _of(backend, "_group_start", "CompressingGroup.abort()")()
    yield
    if backend is not None:
        _of(backend, "_group_end", "CompressingGroup.abort()")()


def carried_by(group: dist.ProcessGroup, backends: Mapping[torch.device, Any]) -> None:
    """Calls of the group that its class does not override go to these backends; the first one is the default."""
    # torch.distributed.new_group() does it for its own groups, and a subclass of ProcessGroup has no public way.
    kinds = dist.ProcessGroup.BackendType
    kind = {"cpu": kinds.GLOO, "cuda": kinds.NCCL}
    feature = "the backend 'hipress'"
    for number, (device, backend) in enumerate(backends.items()):
        if number == 0:
            _of(group, "_set_default_backend", feature)(kind[device.type])
        _of(group, "_register_backend", feature)(device, kind[device.type], backend)


#: The collectives of a group beside allreduce() and barrier(). Each torch has some of them.
COLLECTIVES = (
    *(
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "send",
        "recv",
        "recv_anysource",
        "gather_single",
        "gather_into_tensor",
    ),
    *("allgather", "_allgather_base", "all_gather_single", "allgather_coalesced", "all_gather_single_coalesced"),
    *("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_single", "reduce_scatter_single_coalesced"),
    *("alltoall", "alltoall_base", "all_to_all_single", "allreduce_coalesced"),
)
