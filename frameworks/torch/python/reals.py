# SPDX-License-Identifier: Apache-2.0
"""The real numbers in a tensor's memory, as which it travels: of a complex tensor pairs of them.

torch conjugates and negates lazily: the memory of such a view has other values than the view.
"""

from __future__ import annotations

import torch


def is_lazy(tensor: torch.Tensor) -> bool:
    """Whether the tensor's memory has other values than the tensor."""
    return tensor.is_conj() or tensor.is_neg()


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy that has its values in memory."""
    return tensor.resolve_conj().resolve_neg()


def as_reals(tensor: torch.Tensor) -> torch.Tensor:
    """A flat view of a complex tensor's memory, which has no gaps, as real numbers; another tensor as it is."""
    if not tensor.is_complex():
        return tensor
    return torch.view_as_real(tensor.detach()).as_strided((2 * tensor.numel(),), (1,))
