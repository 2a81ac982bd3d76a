# SPDX-License-Identifier: Apache-2.0
"""Values at sampled places of gradients, and the errors of their averages over a window of steps."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch

from hipress.torch.process_groups.dtypes import flat_reals
from hipress.watching.figures import TensorFigures


class Samples:
    """The sampled values of one step after the other. All ranks sample the same places.

    Arguments:
        tensors: elements and codec of each gradient, by name.
        places: how many are sampled of each; of smaller ones all.
        seed: chooses the places, with the names.
        device: of the gradients.
    """

    def __init__(self, tensors: Mapping[str, tuple[int, str]], places: int, seed: int, device: torch.device) -> None:
        self._tensors = tensors
        self._places = {
            name: _places(count, places, f"{seed} {name}").to(device) for name, (count, _) in tensors.items()
        }
        ends = torch.tensor([len(each) for each in self._places.values()]).cumsum(0).tolist()
        self._ranges = {
            name: slice(end - len(self._places[name]), end) for name, end in zip(self._places, ends, strict=True)
        }
        size = ends[-1] if ends else 0
        self.own = torch.zeros(size, device=device)
        """This rank's values of the step."""
        self._averages = torch.zeros_like(self.own)
        self._squared_errors, self._squared_gradients, self._products = torch.zeros(
            (3, size), device=device, dtype=torch.float64
        )
        self._counted = torch.zeros((), device=device, dtype=torch.int64)

    def begin_step(self) -> None:
        """Gradients that are not given count as zeros."""
        self.own.zero_()
        self._averages.zero_()

    def before(self, name: str, gradient: torch.Tensor) -> None:
        """Takes the values of this rank's gradient. Names that are not sampled are passed over."""
        self._take(self.own, name, gradient)

    def after(self, name: str, average: torch.Tensor) -> None:
        """Takes the values of the average of all ranks."""
        self._take(self._averages, name, average)

    def _take(self, into: torch.Tensor, name: str, tensor: torch.Tensor) -> None:
        places = self._places.get(name)
        if places is not None:
            into[self._ranges[name]] = flat_reals(tensor).index_select(0, places).float()

    def end_step(self, exact: torch.Tensor) -> None:
        """`exact`: the exact average of all ranks' `own`. A step with values that are not finite does not count."""
        error, gradient = self._averages.double() - exact.double(), exact.double()
        counts = error.isfinite().all()
        error, gradient = (torch.where(counts, each, 0.0) for each in (error, gradient))
        self._squared_errors += error.square()
        self._squared_gradients += gradient.square()
        self._products += (gradient + error) * gradient
        self._counted += counts

    def counted(self) -> int:
        """How many steps count so far."""
        return int(self._counted)

    def figures(self) -> dict[str, TensorFigures]:
        """The figures of the window, by name."""
        sums = torch.stack((self._squared_errors, self._squared_gradients, self._products)).cpu()
        found = {}
        for name, (count, codec) in self._tensors.items():
            part = sums[:, self._ranges[name]]
            scale = count / max(1, part.shape[1])  # each sampled place stands for as many elements
            found[name] = TensorFigures(name, codec, count, *(scale * part.sum(1)).tolist())
        return found


def _places(count: int, places: int, key: str) -> torch.Tensor:
    if count <= places:
        return torch.arange(count)
    generator = torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") >> 1)
    # One place in each of equal parts, so that no part of a layer is missed.
    firsts = torch.arange(places) * count // places
    widths = torch.cat((firsts[1:], torch.tensor([count]))) - firsts
    return firsts + (torch.rand(places, generator=generator, dtype=torch.float64) * widths).long()
