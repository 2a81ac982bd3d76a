# SPDX-License-Identifier: Apache-2.0
"""How each tensor of an average over a process group travels: its codec, its partitions, and who averages them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from hipress._library import load_core
from hipress.torch.process_groups.dtypes import TensorShape
from hipress.torch.process_groups.layout import Compressed, Layout
from hipress.torch.process_groups.linked import LinkedAverage
from hipress.torch.process_groups.options import GroupOptions
from hipress.torch.process_groups.ranks import Ranks
from hipress.torch.process_groups.states.average_states import Travelling

if TYPE_CHECKING:
    from hipress._core import Codec


@dataclass(frozen=True)
class Route:
    """How tensors of a batch travel, by their places in it."""

    compressed: Sequence[int]
    exact: Sequence[int]
    names: tuple[str, ...]
    """Of the compressed ones."""
    layout: Layout
    linked: Sequence[int] = ()
    """The tensors whose averages are computed from two summed tensors each."""
    raw_bytes: int = 0
    """Of what travels as it is although the program has chosen a codec for it."""


class Routes:
    """The tensors that have been declared.

    Arguments:
        ranks: that average.
    """

    def __init__(self, options: GroupOptions, linked: LinkedAverage, ranks: Ranks) -> None:
        self._options, self._linked, self._ranks = options, linked, ranks
        self.shapes: dict[str, TensorShape] = {}
        self._codecs: dict[str, Codec | None] = {}
        self._left_out: set[str] = set()
        self._not_shrunk: set[str] = set()
        self._warm_codecs: dict[str, Codec | None] = {}
        self._made: dict[tuple[tuple[str, ...], tuple[torch.dtype, ...], str | None], Route] = {}

    def add(self, name: str, shape: TensorShape) -> None:
        """The next tensor, in the same order on all ranks. Raises Unsupported."""
        self.shapes[name] = shape
        codec = self._options.codec_of(name, shape.count, shape.dtype.itemsize, shape.dimensions)
        if codec is not None:
            codec = self._linked.add(name, codec, shape.rows, shape.count, shape.dtype.itemsize)
        self._codecs[name] = codec
        if codec is None and self._options.names_codec(name):
            self._left_out.add(name)
        elif codec is not None and name not in self._linked:
            alone = Layout([self._compressed(name, codec)], self._ranks)
            if all(partition.raw for partition in alone.partitions):
                self._not_shrunk.add(name)

    def __len__(self) -> int:
        return len(self._codecs)

    @property
    def exact_tensors(self) -> tuple[str, ...]:
        """The names of the tensors that travel without a codec."""
        return tuple(name for name, codec in self._codecs.items() if codec is None or name in self._not_shrunk)

    def is_left_out(self, name: str, step: int) -> bool:
        """Whether a tensor travels exactly in this step although the program has chosen a codec for it."""
        warmup = self._options.warmup
        if name not in self._left_out or warmup is None or step >= warmup.steps:
            return name in self._left_out
        return self._created(self._options.codec_at(name, step)) is not None

    def codec_of(self, name: str) -> str:
        """The codec, with all options, with which a tensor travels after a warm-up."""
        codec = self._codecs[name]
        return "none" if codec is None else codec.signature

    def are_exact(self, names: tuple[str, ...], step: int) -> bool:
        """Whether all of these tensors travel without a codec in this step."""
        return all(self._codec(name, step) is None for name in names)

    def travelling(self) -> Travelling:
        """What saved states belong to."""
        tensors = [
            self._compressed(name, codec)
            for name, codec in self._codecs.items()
            if codec is not None and name not in self._linked
        ]
        return Travelling({name: shape.count for name, shape in self.shapes.items()}, tensors)

    def route(self, names: tuple[str, ...], dtypes: tuple[torch.dtype, ...], step: int) -> Route:
        """Of a batch of these tensors, whose values have these types."""
        warmup = self._options.warmup
        warm = warmup is not None and step < warmup.steps
        key = (names, dtypes, warmup.codec_at(step, self._options.codec) if warmup is not None and warm else None)
        if key not in self._made:
            codecs = [self._codec(name, step) for name in names]
            exact = [place for place, codec in enumerate(codecs) if codec is None]
            sent = {place: codec for place, codec in enumerate(codecs) if codec is not None}
            linked = [place for place in sent if names[place] in self._linked]
            others = [place for place in sent if names[place] not in self._linked]
            tensors = [replace(self._compressed(names[place], sent[place]), dtype=dtypes[place]) for place in others]
            layout = Layout(tensors, self._ranks)
            left_out = (place for place in exact if self.is_left_out(names[place], step))
            raw = sum(self.shapes[names[place]].count * dtypes[place].itemsize for place in left_out)
            raw += sum(partition.payload_bytes for partition in layout.partitions if partition.raw)
            self._made[key] = Route(others, exact, tuple(names[place] for place in others), layout, linked, raw)
        return self._made[key]

    def _compressed(self, name: str, codec: Codec) -> Compressed:
        shape = self.shapes[name]
        topology, pieces = self._options.way_of(name)
        return Compressed(name, shape.count, codec, dtype=shape.dtype, topology=topology, pieces=pieces)

    def _codec(self, name: str, step: int) -> Codec | None:
        """The codec of a tensor in a step; None: it travels exactly."""
        after = self._codecs[name]
        warmup = self._options.warmup
        if after is None or warmup is None or step >= warmup.steps:
            return after
        return self._created(self._options.codec_at(name, step))

    def _created(self, text: str) -> Codec | None:
        if text not in self._warm_codecs:
            codec: Codec = load_core().create_codec(text)
            self._warm_codecs[text] = None if codec.name == "none" else codec
        return self._warm_codecs[text]
