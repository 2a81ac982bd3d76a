# SPDX-License-Identifier: Apache-2.0
"""Synchronises a fixed list of tensors again and again: what DistributedOptimizer is built on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from hipress import runtime
from hipress._library import load_core
from hipress.errors import DuplicateName, InvalidArgument
from hipress.torch import operators
from hipress.torch.collectives import Average, ReduceOp
from hipress.torch.held_back import HeldBack

#: What errors call the tensors that ranks compare.
_LIST = "the list of tensors"


@dataclass(frozen=True)
class SynchronizationOptions:
    """How tensors are combined and how they travel. The same on all ranks."""

    codec: str = "none"
    """What travels: a codec's name, with options if it has any: "onebit", "onebit(error_feedback=false)"."""
    topology: str = "ps"
    """Which way it travels."""
    partitions: int = 0
    """Into how many pieces a tensor is split; 0: by its size."""
    min_compress_bytes: int = 4096
    """Smaller tensors travel as they are: they gain nothing and, being biases and norms, lose most."""
    op: ReduceOp = Average
    prescale_factor: float = 1.0
    """Every rank's values are multiplied by it before encoding."""
    postscale_factor: float = 1.0
    """The combined values are multiplied by it."""
    codec_for: Mapping[str, str] = field(default_factory=dict)
    """Codecs of single tensors, by name; the others get `codec`."""


@dataclass(frozen=True)
class _Described:
    """A tensor as ranks know it."""

    name: str
    own_name: str  # unlike that of any other tensor of this process
    dtype: torch.dtype
    count: int
    shape: str
    device: Any  # of the engine; None: the host


def _check_names(codec_for: Mapping[str, str], names: list[str]) -> None:
    unknown = sorted(set(codec_for) - set(names))
    if unknown:
        raise InvalidArgument(f"codec_for names '{unknown[0]}', which is not one of the {len(names)} tensors")


class GradientSynchronizer:
    """A list of tensors that all ranks have agreed on, each synchronised at most once at a time.

    Arguments:
        named_tensors: (name, tensor) pairs, the same on all ranks: shapes and dtypes are taken from them. Earlier ones
            have priority on the network, as the next forward pass needs them first.
        options: how they are combined and travel.

    Raises Mismatch (with the first difference) when the ranks' lists differ, Timeout when a rank gives none,
    DuplicateName, InvalidArgument, Unsupported.
    """

    def __init__(
        self,
        named_tensors: Iterable[tuple[str, torch.Tensor]],
        options: SynchronizationOptions | None = None,
    ) -> None:
        options = SynchronizationOptions() if options is None else options
        tensors = list(named_tensors)
        names = [name for name, _ in tensors]
        for name, count in Counter(names).items():
            if count > 1:
                raise DuplicateName(f"two tensors are called '{name}'; give every tensor its own name")
        _check_names(options.codec_for, names)
        process = runtime.current()
        self._engine = process.engine
        for name, tensor in tensors:
            operators.check_tensor(tensor.detach(), name)
        self._tensors = [
            # A second model with the same names, or the same model wrapped again, gets tensors of its own.
            _Described(
                name,
                process.numbered(name),
                tensor.dtype,
                tensor.numel(),
                operators.shape_text(tensor),
                operators.device_of(tensor, name),
            )
            for name, tensor in tensors
        ]
        self._options = options
        self._held_back = HeldBack()
        self._declared = self._engine.agree(process.numbered(_LIST), self._specs(options))

    def __len__(self) -> int:
        return len(self._declared)

    def set_codec(self, codec: str, codec_for: Mapping[str, str] | None = None) -> None:
        """From now on tensors travel with these codecs. On all ranks alike, while nothing is in flight.

        What the old codec remembers is the new one's where both have a state of that name: residuals live on. A
        residual that the new codec does not have joins the tensor's next values; other states, such as a velocity,
        are forgotten. Tensors whose codec stays as it is notice nothing.

        Raises InvalidArgument, also if a tensor is in flight; Mismatch if the ranks' codecs differ, and the old ones
        stay; Timeout if a rank does not call it.
        """
        options = replace(self._options, codec=codec, codec_for=dict(codec_for or {}))
        _check_names(options.codec_for, [tensor.name for tensor in self._tensors])
        listed = runtime.current().numbered(_LIST)
        self._declared = self._engine.agree_anew(listed, self._declared, self._specs(options))
        self._options = options
        for index, declared in enumerate(self._declared):
            for _, state, values in self._engine.take_unused_states(declared):
                if state == "residual":
                    self._held_back.keep(index, torch.from_numpy(values) / options.prescale_factor)

    def _specs(self, options: SynchronizationOptions) -> list[Any]:
        core = load_core()
        return [
            core.TensorSpec(
                tensor.own_name,
                dtype=operators.DTYPE_NUMBERS[tensor.dtype],
                count=tensor.count,
                shape=tensor.shape,
                op=options.op.name,
                prescale=options.prescale_factor,
                postscale=options.postscale_factor,
                codec=options.codec_for.get(tensor.name, options.codec),
                topology=options.topology,
                partitions=options.partitions,
                min_compress_bytes=options.min_compress_bytes,
                priority=-index,
                device=tensor.device,
            )
            for index, tensor in enumerate(self._tensors)
        ]

    def name(self, index: int) -> str:
        """The name under which ranks know the tensor at `index`."""
        return self._tensors[index].own_name

    def submit(self, index: int, tensor: torch.Tensor) -> int:
        """Starts synchronising the values of the tensor at `index`, in place; returns a handle for `wait()`.

        Returns at once. `tensor` must not be touched until `wait()`.
        """
        operators.check_tensor(tensor, self.name(index))
        added = self._held_back.add_to(index, tensor)
        handle = operators.submit_in_place(tensor, self._declared[index])
        if added:
            self._held_back.sent_with(handle, index, tensor)
        return handle

    def submit_absent(self, index: int, output: torch.Tensor) -> int:
        """Takes part without values: `output` receives what the other ranks have."""
        return operators.submit_absent(output, self._declared[index])

    def wait(self, handle: int) -> bool:
        """Waits for an operation; whether any rank had values (if none had, the output was not written).

        Raises what made it fail: PeerLost, Timeout, CorruptPayload.
        """
        absent = self._engine.wait(handle)
        self._held_back.arrived(handle)
        return not absent
