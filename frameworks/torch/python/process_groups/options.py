# SPDX-License-Identifier: Apache-2.0
"""Which tensors a process group averages with which codec."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hipress import _core
from hipress._library import load_core
from hipress.errors import InvalidArgument, Unsupported
from hipress.options.declaration import check_text
from hipress.options.travel import AUTO, MIN_COMPRESS_BYTES
from hipress.options.warmup import Warmup
from hipress.torch.process_groups.dtypes import CORE_NAMES, TensorShape
from hipress.torch.process_groups.ranks import is_hierarchical

if TYPE_CHECKING:
    from hipress.secopa.plan.choice import Choice
    from hipress.secopa.plan.plan import Plan


def chosen_codec(codec: str | None, call: str, *instead: object) -> str:
    """The codec that `call` was given. Raises InvalidArgument if it got none, nor anything `instead`: it would cost
    groups and threads and compress nothing."""
    if codec == AUTO:
        raise Unsupported(
            f'{call} chooses no codec: codec="auto" is for hipress.torch.ddp.compress(), fsdp.compress_replicas() and '
            "DistributedOptimizer; `hipress evidence` shows which codecs are cleared for an optimizer"
        )
    if codec is None and not any(instead):
        raise InvalidArgument(
            f"{call} needs a codec, such as codec='int8'; codec='none' averages exact values, as without HiPress"
        )
    return "none" if codec is None else codec


@dataclass(frozen=True)
class GroupOptions:
    """How tensors are averaged over a process group. The same on all ranks of the group."""

    codec: str = "none"
    """The codec of a tensor, with options if it has any: "onebit", "dgc(ratio=0.01)". "none" sends exact values."""
    topology: str = "auto"
    """"ps": each rank averages its share of a tensor and encodes the average again. "allgather": each rank sends its
    encoded tensor to all others, which suits sparse codecs on few ranks. "ring" and "butterfly" pass partial sums on.
    "auto": "allgather" between two ranks, and "ps" between more. "hierarchical": the ranks of a host add raw values,
    and one of them averages the sum with the other hosts, as with "ps" or, for example, "hierarchical(ring)"."""
    ranks_per_host: int = 0
    """With topology "hierarchical": how many ranks each host has. Ranks with consecutive numbers share a host."""
    min_compress_bytes: int = MIN_COMPRESS_BYTES
    """A tensor with fewer bytes is averaged exactly."""
    compress_vectors: bool = False
    """Whether tensors with one dimension or none (biases, norms) are compressed, too."""
    codec_for: Mapping[str, str] = field(default_factory=dict)
    """Codecs of single tensors, by name. They hold for vectors and small tensors, too."""
    warmup: Warmup | None = None
    """Another codec in the first steps, for tensors that have one later."""
    seed: int = 0
    """Of random rounding."""
    portion_bytes: int = 4 << 20
    """So many encoded bytes of a batch travel at a time, if they can be parted: while one portion is on its way, ranks
    average an earlier one and encode a later one. Each portion costs two more collectives."""
    plan: Plan | None = None
    """The codec, topology and partitions of each tensor, in place of codec, codec_for, topology, min_compress_bytes and
    compress_vectors. Tensors that it groups have the group's codec and topology, and partitions by size: what is
    averaged in one call travels together anyway. Tensors without a codec travel as the plan's own topology says."""

    def __post_init__(self) -> None:
        check_text("codec", self.codec)
        check_text("codec_for", self.codec_for)
        if self.plan is None:
            return
        if self.warmup is not None:
            raise InvalidArgument("a warm-up goes with codec and codec_for: give it without plan")
        object.__setattr__(self, "_choices", self.plan.specs())
        object.__setattr__(self, "topology", self.plan.topology)

    scaler: Any = field(default=None, compare=False)
    """Of the losses, as LossScale takes it, or a LossScale. Ranks do not compare it."""
    _choices: Mapping[str, Choice] = field(default_factory=dict, init=False, compare=False)

    @property
    def is_hierarchical(self) -> bool:
        """Whether the topology of any tensor depends on hosts."""
        planned = (choice.topology for choice in self._choices.values())
        return any(map(is_hierarchical, (self.topology, *planned)))

    def check(self, names: Collection[str], *, matrices: bool = False, whole: bool = False) -> None:
        """Raises InvalidArgument for options that do not fit tensors with these names.

        Raises Unsupported for codec "powersgd" unless the tensors are `matrices`, and for codecs whose encoded values
        ranks add unless every rank averages `whole` tensors.
        """
        load_core().check_topology(self.topology)
        if self.min_compress_bytes < 0:
            raise InvalidArgument("min_compress_bytes must be 0 or more")
        if self.portion_bytes < 1:
            raise InvalidArgument("portion_bytes must be 1 or more")
        unknown = sorted(set(self.codec_for) - set(names))
        if unknown:
            raise InvalidArgument(f"codec_for names '{unknown[0]}', which is not one of the {len(names)} parameters")
        for text, topology in self._ways():
            codec = load_core().create_codec(text)
            if codec.low_rank is not None:
                self._check_low_rank(matrices, topology)
            if codec.summed is not None:
                self._check_summed(codec.name, whole, topology)
            if codec.merges_decoded and self.plan is None and not load_core().is_direct(self.topology):
                raise Unsupported(
                    f"codec {codec.name} merges every rank's values as decoded from its message, and topology "
                    f"'{self.topology}' adds values without a codec or partial sums: use topology 'ps' or 'allgather', "
                    "or another codec"
                )
        if self.warmup is not None:
            self.warmup.stages(self.codec)
            self._check_states(self.warmup)

    def check_plan(self, tensors: Mapping[str, TensorShape], world: int) -> None:
        """Raises InvalidArgument, with the first difference, for a plan of other tensors, ranks or codecs."""
        if self.plan is None:
            return
        from hipress.secopa.plan.check import check_plan
        from hipress.secopa.profile.gradients import Gradient, GradientSet

        gradients = (
            Gradient(name=name, elements=shape.count, dtype=CORE_NAMES[shape.dtype]) for name, shape in tensors.items()
        )
        check_plan(self.plan, GradientSet(gradients=tuple(gradients)), world)

    def way_of(self, name: str) -> tuple[str, int]:
        """The plan's topology of a tensor and its number of partitions, 0 for a number by size."""
        choice = self._choices.get(name)
        if choice is None:
            return "", 0
        return choice.topology, choice.partitions if choice.group is None else 0

    def _texts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for text, _ in self._ways()))

    def _ways(self) -> tuple[tuple[str, str], ...]:
        """Codecs, each with a topology of its tensors."""
        if self._choices:
            return tuple(dict.fromkeys((choice.codec, choice.topology) for choice in self._choices.values()))
        texts = (self.codec, *self.codec_for.values(), *([self.warmup.codec] if self.warmup else ()))
        return tuple((text, self.topology) for text in texts)

    def check_sums(self, world: int) -> None:
        """Raises InvalidArgument for a codec of which the sum over `world` ranks could overflow."""
        for text in self._texts():
            summed = load_core().create_codec(text).summed
            if summed is not None and world > summed[2]:
                raise InvalidArgument(
                    f"codec '{text}' adds levels of up to {summed[1]} in 8 bits, which holds the sum of {summed[2]} "
                    f"ranks at most, and there are {world}; choose options with which levels are up to {127 // world}, "
                    "or another codec"
                )

    def _check_summed(self, codec: str, whole: bool, topology: str) -> None:
        if not whole or is_hierarchical(topology):
            raise Unsupported(
                f"codec {codec} is summed over all ranks alike, and here ranks average shares: use it with "
                "hipress.torch.ddp.compress() and topology 'ps', or another codec"
            )
        if self.warmup is not None and (self.warmup.codec != "none" or self.warmup.ratios):
            raise Unsupported(
                f"with carrier 'group' codec {codec} begins after steps without a codec: give warmup a number of "
                "steps, or use carrier 'hipress'"
            )

    def _check_low_rank(self, matrices: bool, topology: str) -> None:
        if not matrices:
            raise Unsupported(
                "codec powersgd needs whole matrices, which hipress.torch.ddp.compress() and "
                "hipress.torch.DistributedOptimizer have: use one of these, or another codec here"
            )
        if is_hierarchical(topology):
            raise Unsupported(
                "codec powersgd sums its factors over all ranks alike: use topology 'ps' with it, or carrier 'hipress'"
            )
        if self.warmup is not None and (self.warmup.codec != "none" or self.warmup.ratios):
            raise Unsupported(
                "with carrier 'group' codec powersgd begins after steps without a codec: give warmup a number of "
                "steps, or use carrier 'hipress'"
            )

    def _check_states(self, warmup: Warmup) -> None:
        create = load_core().create_codec
        for text in () if warmup.ratios else (self.codec, *self.codec_for.values()):
            for _, before in warmup.stages(self.codec):
                lost = set(create(before).states) - set(create(text).states)
                if lost and create(text).name != "none":
                    raise InvalidArgument(
                        f"the warm-up's codec '{before}' keeps values ({min(lost)}) that the next codec, '{text}', "
                        "would not send: give it error_feedback=false, or another codec"
                    )

    def codec_at(self, name: str, step: int) -> str:
        """The codec's text, in step `step` of a warm-up, of a tensor that has a codec after it."""
        own = self.codec_for.get(name)
        if self.warmup is None or step >= self.warmup.steps or (own is not None and self.warmup.ratios):
            return self.codec if own is None else own
        return self.warmup.codec_at(step, self.codec)

    def keeps_states(self) -> bool:
        """Whether a codec of any tensor remembers values from step to step."""
        texts = list(self._texts())
        if self.warmup is not None:
            texts += [text for _, text in self.warmup.stages(self.codec)]
        return any(_keeps_states(load_core().create_codec(text)) for text in texts)

    @property
    def compresses(self) -> bool:
        """Whether a large tensor has a codec other than "none"."""
        texts = self._texts() if self._choices else (self.codec,)
        return any(load_core().create_codec(text).name != "none" for text in texts)

    def codec_of(self, name: str, elements: int, bytes_per_element: int, dimensions: int) -> _core.Codec | None:
        """The codec of a tensor; None: it travels exactly."""
        text = self._own_codec(name)
        if text is None:
            small = elements * bytes_per_element < self.min_compress_bytes
            if small or (dimensions < 2 and not self.compress_vectors):
                return None
            text = self.codec
        codec = load_core().create_codec(text)
        return None if codec.name == "none" else codec

    def names_codec(self, name: str) -> bool:
        """Whether the program has chosen a codec other than "none" for a tensor. codec_of() may leave it out."""
        text = self._own_codec(name)
        return bool(load_core().create_codec(self.codec if text is None else text).name != "none")

    def _own_codec(self, name: str) -> str | None:
        return self._choices[name].codec if name in self._choices else self.codec_for.get(name)

    def described(self, with_host_group: bool = False) -> str:
        """What ranks compare."""
        create = load_core().create_codec
        special = [f"{name} {create(text).signature}" for name, text in sorted(self.codec_for.items())]
        parts = [
            f"codec {create(self.codec).signature}",
            f"topology {self.topology}",
            f"ranks_per_host {'of a group' if with_host_group else self.ranks_per_host}",
            f"min_compress_bytes {self.min_compress_bytes}",
            f"compress_vectors {self.compress_vectors}",
            f"warmup {self.warmup}",
            f"seed {self.seed}",
            f"portion_bytes {self.portion_bytes}",
        ]
        planned = [
            f"plan for {name}: {create(each.codec).signature}, {each.topology}, {self.way_of(name)[1]}"
            for name, each in self._choices.items()
        ]
        return "\n".join(parts + [f"codec for {each}" for each in special] + planned)


def _keeps_states(codec: _core.Codec) -> bool:
    if codec.low_rank is not None:
        return codec.low_rank[2] or codec.low_rank[3]
    return bool(codec.states or (codec.summed is None and codec.for_aggregate().states))
