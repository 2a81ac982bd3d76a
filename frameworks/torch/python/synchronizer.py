# SPDX-License-Identifier: Apache-2.0
"""Synchronises a fixed list of tensors again and again: what DistributedOptimizer is built on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch

from hipress import runtime
from hipress._library import load_core
from hipress.errors import DuplicateName, InvalidArgument
from hipress.torch import operators
from hipress.torch.collectives import Average, ReduceOp


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
        unknown = sorted(set(options.codec_for) - set(names))
        if unknown:
            raise InvalidArgument(f"codec_for names '{unknown[0]}', which is not one of the {len(names)} tensors")
        core = load_core()
        process = runtime.current()
        self._engine = process.engine
        # A second model with the same names, or the same model wrapped again, gets tensors of its own.
        self._names = [process.numbered(name) for name in names]
        specs = []
        for index, (name, tensor) in enumerate(tensors):
            operators.check_tensor(tensor.detach(), name)
            specs.append(
                core.TensorSpec(
                    self._names[index],
                    dtype=operators.DTYPE_NUMBERS[tensor.dtype],
                    count=tensor.numel(),
                    shape=operators.shape_text(tensor),
                    op=options.op.name,
                    prescale=options.prescale_factor,
                    postscale=options.postscale_factor,
                    codec=options.codec_for.get(name, options.codec),
                    topology=options.topology,
                    partitions=options.partitions,
                    min_compress_bytes=options.min_compress_bytes,
                    priority=-index,
                )
            )
        self._declared = self._engine.agree(process.numbered("the list of tensors"), specs)

    def __len__(self) -> int:
        return len(self._declared)

    def name(self, index: int) -> str:
        """The name under which ranks know the tensor at `index`."""
        return self._names[index]

    def submit(self, index: int, tensor: torch.Tensor) -> int:
        """Starts synchronising the values of the tensor at `index`, in place; returns a handle for `wait()`.

        Returns at once. `tensor` must not be touched until `wait()`.
        """
        operators.check_tensor(tensor, self._names[index])
        return operators.submit_in_place(tensor, self._declared[index])

    def submit_absent(self, index: int, output: torch.Tensor) -> int:
        """Takes part without values: `output` receives what the other ranks have."""
        return operators.submit_absent(output, self._declared[index])

    def wait(self, handle: int) -> bool:
        """Waits for an operation; whether any rank had values (if none had, the output was not written).

        Raises what made it fail: PeerLost, Timeout, CorruptPayload.
        """
        return not self._engine.wait(handle)
