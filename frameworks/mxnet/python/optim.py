# SPDX-License-Identifier: Apache-2.0
"""Trainers for Gluon made for compression: each synchronises the values that its algorithm may compress.

Each replaces DistributedTrainer: backward() leaves every rank its own gradients, and step() exchanges values with all
ranks over HiPress' engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import mxnet as mx
import numpy as np

from hipress import runtime
from hipress.adapter import collectives
from hipress.adapter.not_copied import NotCopied
from hipress.adapter.optim.dgc_sgd import DGCOptions, DGCSteps
from hipress.adapter.optim.onebit_adam import OneBitAdamOptions, OneBitAdamSteps
from hipress.adapter.optim.steps import Floats, Moved, Parameter, Rates, checked_number
from hipress.adapter.reduce_ops import Max
from hipress.errors import InvalidArgument, Mismatch, Unsupported
from hipress.file_replacement import whole_file
from hipress.mxnet.replicas import check_replicas_after, trained
from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.options.warmup import DGC_RATIOS, Warmup


class _Steps(Protocol):
    def step(self, number: int, parameters: Mapping[str, Parameter]) -> dict[str, Moved]: ...


class SynchronizingTrainer(NotCopied):
    """The base class of both trainers: parameters, rates, steps, states.

    A parameter's `lr_mult` and `wd_mult` count as in Gluon's Trainer. All ranks begin with the same parameters: call
    broadcast_parameters() first; if shapes are unknown before the first forward pass, call it after that pass.
    """

    synchronizes_gradients = True
    _steps: _Steps
    _number = 0

    def __init__(self, params: Any, learning_rate: float, wd: float) -> None:
        self.set_learning_rate(learning_rate)
        self._wd = checked_number("wd", wd, 0.0)
        listed = list(params.values() if isinstance(params, Mapping | mx.gluon.ParameterDict) else params)
        self._params = {each.name: each for each in listed if each.grad_req != "null"}
        self._states: dict[str, dict[str, Floats]] = {name: {} for name in self._params}
        for name, each in self._params.items():
            if each.shape is None or 0 in each.shape:
                raise InvalidArgument(f"parameter '{name}' has no shape yet: let the net see a batch first")
            if np.dtype(each.dtype) != np.float32:
                raise Unsupported(f"parameter '{name}' is of type {np.dtype(each.dtype)}: {self._kind} takes float32")
            if len(each.list_ctx()) > 1 or each.list_ctx()[0].device_type != "cpu":
                raise Unsupported(f"parameter '{name}' is not on one CPU: {self._kind} takes parameters there")
            if each._grad_stype != "default":
                raise Unsupported(f"the gradient of parameter '{name}' is sparse: {self._kind} takes dense ones")

    @property
    def _kind(self) -> str:
        return type(self).__name__

    @property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(each.shape) for name, each in self._params.items()}

    @property
    def _rates(self) -> str:
        multiplied = {name: (each.lr_mult, each.wd_mult) for name, each in self._params.items()}
        return f"learning_rate {self._learning_rate}, wd {self._wd}, lr_mult and wd_mult {multiplied}"

    @property
    def steps(self) -> int:
        """Number of steps so far; steps before load_states() count, too."""
        return self._number

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        return self._learning_rate

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate from the next step on. All ranks set the same value."""
        self._learning_rate = checked_number("learning_rate", learning_rate, 0.0)

    def step(self, batch_size: int) -> None:
        """Takes one step on gradients divided by `batch_size`, the same on all ranks. It waits for the gradients and
        for all ranks.

        Raises Mismatch, on all ranks, if ranks give different batch sizes; PeerLost, Timeout, CorruptPayload,
        TransportError; the class says when InvalidArgument. After an error nothing has changed.
        """
        given = {
            name: Parameter(
                each.data().asnumpy(),
                each.grad().asnumpy() / np.float32(batch_size),
                self._states[name],
                Rates(self._learning_rate * each.lr_mult, self._wd * each.wd_mult),
            )
            for name, each in self._params.items()
        }
        sizes = np.array([batch_size, -batch_size], np.float64)
        compared = collectives.allreduce(sizes, sizes, name=f"{self._kind}.batch_size", op=Max)
        moved = self._steps.step(self._number + 1, given)
        compared.wait()
        if sizes[0] != -sizes[1]:
            raise Mismatch(
                f"step {self._number + 1} of {self._kind} got batch sizes from {-sizes[1]:g} to {sizes[0]:g}; give the "
                "same on all ranks: where the ranks' own differ, their mean"
            )
        for name, each in moved.items():
            self._params[name].set_data(mx.nd.array(each.value))
            self._states[name] = each.state
        self._number += 1
        check_replicas_after(self._number, trained(self._params.values()))

    def save_states(self, path: str) -> None:
        """Saves this rank's state; every rank saves its own. The file has no residuals of the engine's codecs."""
        arrays: dict[str, Any] = {
            f"{name}/{key}": each for name, state in self._states.items() for key, each in state.items()
        }
        arrays[f"hipress:{self._kind}"] = np.array([self._number, runtime.rank(), runtime.size()], np.int64)
        with whole_file(path) as new, open(new, "wb") as file:
            np.savez(file, **arrays)

    def load_states(self, path: str) -> None:
        """Goes on from save_states() of this rank.

        Raises InvalidArgument, with the first difference, for a damaged file, for a file of another trainer or other
        parameters, and for a file of another rank if each rank has its own states. After an error nothing has changed.
        """
        states: dict[str, dict[str, Floats]] = {name: {} for name in self._params}
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
        except OSError:
            raise
        except Exception as error:  # zipfile and zlib raise their own types
            raise InvalidArgument(f"{path} has no states of {self._kind}, or is damaged: {error}") from error
        about = arrays.pop(f"hipress:{self._kind}", None)
        if about is None or about.shape != (3,):
            raise InvalidArgument(f"{path} has no states of {self._kind}: give a file that its save_states() wrote")
        number, rank, world = (int(each) for each in about)
        if self._own_states and (rank, world) != (runtime.rank(), runtime.size()):
            raise InvalidArgument(
                f"{path} is of rank {rank} of {world}, and this is rank {runtime.rank()} of {runtime.size()}: its "
                "residuals are that rank's own"
            )
        for key, each in arrays.items():
            name, _, state = key.rpartition("/")
            if name not in self._params:
                raise InvalidArgument(f"{path} has '{name}', which is none of the parameters")
            if each.dtype != np.float32 or each.shape != tuple(self._params[name].shape):
                raise InvalidArgument(
                    f"'{key}' in {path} is {each.dtype} of shape {each.shape}; expected float32 of shape "
                    f"{tuple(self._params[name].shape)}"
                )
            states[name][state] = each
        if number and (missing := [name for name, state in states.items() if not state]):
            raise InvalidArgument(f"{path} lacks '{missing[0]}': it is of another net")
        self._states, self._number = states, number

    #: Whether each rank has its own states.
    _own_states = False


class OneBitAdam(SynchronizingTrainer):
    """1-bit Adam: AdamW for `freeze_step` steps; afterwards the variance is frozen and ranks average compressed
    momentum.

    See hipress.torch.optim.OneBitAdam, which takes the same steps.

    Arguments:
        params: `net.collect_params()`; float32 on the CPU.
        learning_rate, wd: `wd` is decoupled, as in AdamW.
        freeze_step, beta1, beta2, epsilon, codec, codec_for, min_compress_bytes: as for hipress.torch.optim.OneBitAdam.

    Raises InvalidArgument, Unsupported, NotInitialized; Mismatch, with the first difference, if the ranks' parameters
    or options differ; Timeout if a rank does not make the trainer.
    """

    def __init__(
        self,
        params: Any,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        wd: float = 0.01,
        *,
        freeze_step: int,
        codec: str = "onebit",
        codec_for: Mapping[str, str] | None = None,
        min_compress_bytes: int = MIN_COMPRESS_BYTES,
    ) -> None:
        super().__init__(params, learning_rate, wd)
        options = OneBitAdamOptions(
            freeze_step, beta1, beta2, epsilon, codec, dict(codec_for or {}), min_compress_bytes
        )
        self._steps = OneBitAdamSteps(self._shapes, options, self._rates)


class DGCSGD(SynchronizingTrainer):
    """SGD with deep gradient compression: each rank sends the largest sums of its momentum, and keeps the rest.

    See hipress.torch.optim.DGCSGD, which takes the same steps.

    Arguments:
        params: `net.collect_params()`; float32 on the CPU.
        learning_rate, momentum, wd: as for MXNet's SGD, except that `wd` has its own momentum.
        ratio, warmup, nesterov, clip_norm, momentum_masking, min_compress_bytes, compress_vectors: as for
            hipress.torch.optim.DGCSGD.

    Raises the errors of OneBitAdam.
    """

    _own_states = True

    def __init__(
        self,
        params: Any,
        learning_rate: float,
        momentum: float = 0.9,
        wd: float = 0.0,
        *,
        ratio: float = 0.001,
        warmup: int | Warmup | None = None,
        nesterov: bool = False,
        clip_norm: float | None = None,
        momentum_masking: bool = True,
        min_compress_bytes: int = MIN_COMPRESS_BYTES,
        compress_vectors: bool = False,
    ) -> None:
        super().__init__(params, learning_rate, wd)
        options = DGCOptions(
            momentum, ratio, warmup, nesterov, clip_norm, momentum_masking, min_compress_bytes, compress_vectors
        )
        self._steps = DGCSteps(self._shapes, options, self._rates)


__all__ = ["DGCSGD", "DGC_RATIOS", "OneBitAdam", "Warmup"]
