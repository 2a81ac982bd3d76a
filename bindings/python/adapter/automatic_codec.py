# SPDX-License-Identifier: Apache-2.0
"""codec="auto" of the distributed optimizers: the codecs that are cleared for the optimizer, tried in real steps."""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hipress import runtime
from hipress._library import load_core
from hipress.adapter.compression import codec_of, compressor_of
from hipress.adapter.lists.checks import keeps_states
from hipress.adapter.optim.optimizer_traits import traits_of
from hipress.adapter.synchronizer import TensorList
from hipress.errors import InvalidArgument, Unsupported
from hipress.options.travel import AUTO
from hipress.secopa.evidence.clearance import cleared
from hipress.secopa.evidence.optimizers import kind_named
from hipress.secopa.online.probe import seconds_per_byte
from hipress.secopa.online.race import Way
from hipress.secopa.online.ways import AutomaticWays
from hipress.secopa.profile.gradients import Gradient


@dataclass(frozen=True)
class AutomaticCodecs:
    """In place of a plan: the codecs to try, the most exact one first."""

    codecs: tuple[str, ...]


def kind_of(optimizer: Any) -> str:
    """The kind of an optimizer of any framework, or the one that a text names; "unknown" for None. Raises
    InvalidArgument."""
    if optimizer is None:
        return "unknown"
    return kind_named(optimizer) if isinstance(optimizer, str) else traits_of(optimizer).kind


def with_automatic_codec(given: dict[str, Any], optimizer: Any) -> dict[str, Any]:
    """The options of a distributed optimizer; with codec "auto" they have AutomaticCodecs in place of a plan.

    Raises InvalidArgument for what does not go together.
    """
    accuracy = given["accuracy"]
    if given["codec"] != AUTO:
        check_no_accuracy(accuracy)
        return given
    beside = [name for name in ("plan", "warmup") if given.get(name) is not None]
    if codec_of(given["compression"]) != "none" or compressor_of(given["compression"]) is not None:
        beside.append("compression")
    if beside:
        raise InvalidArgument(f'codec="auto" chooses how gradients travel: give it without {beside[0]}')
    codecs = cleared(kind_of(optimizer), accuracy or "safe")
    return {**given, "codec": "none", "accuracy": None, "plan": AutomaticCodecs(codecs)}


def check_no_accuracy(accuracy: str | None) -> None:
    """Raises InvalidArgument for an accuracy that was given with a codec."""
    if accuracy is not None:
        raise InvalidArgument(f'accuracy={accuracy!r} is for codec="auto", which it tells what to choose from')


def refuse_automatic_codec(codec: str) -> None:
    """Raises Unsupported for codec "auto" where nobody sees whole steps."""
    if codec == AUTO:
        raise Unsupported(
            'codec="auto" measures whole steps, and this call sees single gradients: give it to DistributedOptimizer, '
            "DistributedTrainer, hipress.torch.ddp.compress() or fsdp.compress_replicas(), or name a codec (`hipress "
            "evidence` shows the cleared ones)"
        )


class AutomaticCodec:
    """The race of codecs for the tensors of a distributed optimizer; see AutomaticPlanning for its methods."""

    def __init__(self, tensors: TensorList, asked: AutomaticCodecs, settle: Callable[[], None] = lambda: None) -> None:
        self._training = _EngineTraining(tensors, settle)
        ways = ways_of(tensors, asked.codecs)
        self.ways = AutomaticWays(self._training, ways, says=runtime.current().place.rank == 0)
        self._alone = runtime.current().place.size == 1

    def released(self, index: int) -> None:
        """See AutomaticPlanning."""

    def backward_ended(self) -> None:
        """See AutomaticPlanning."""

    def step_ended(self, _seconds: float) -> None:
        """Notes that a step has ended. This call may change the codec."""
        if not self._alone:
            self.ways.step_begins()


def ways_of(tensors: TensorList, codecs: Sequence[str]) -> list[Way]:
    """How the tensors may travel: with these codecs, by the topology that was asked for."""
    options, world = tensors.options, runtime.size()
    topology = load_core().resolved_topology(options.topology, world)
    create = load_core().create_codec
    sent = [
        Gradient(name=each.name, elements=each.count, dtype=each.dtype) for each in tensors.tensors if each.has_gradient
    ]
    found = []
    for text in codecs:
        summed = create(text).summed
        if summed is not None and world > summed[2]:
            continue
        total = 0
        for each in sent:
            codec = create(options.codec_for.get(each.name, text))
            small = each.bytes < options.min_compress_bytes
            total += each.bytes if small else min(each.bytes, codec.max_encoded_bytes(each.elements))
        found.append(Way(text, topology, total))
    return found


class _EngineTraining:
    """A training whose gradients travel by the engine."""

    def __init__(self, tensors: TensorList, settle: Callable[[], None]) -> None:
        self._tensors, self._settle = tensors, settle
        self._process = runtime.current()

    def mark(self) -> float:
        """See Training."""
        return time.perf_counter()

    def seconds(self, marks: Sequence[float]) -> list[float]:
        """See Training."""
        return [after - before for before, after in itertools.pairwise(marks)]

    def agreed(self, seconds: float) -> float:
        """See Training."""
        told = self._process.engine.allgather("seconds of a step", json.dumps(seconds).encode())
        return statistics.median(float(json.loads(each)) for each in told)

    def seconds_per_byte(self) -> float:
        """See Training."""
        self._settle()
        return seconds_per_byte(self._add, self.agreed)

    def _add(self, elements: int) -> float:
        core, engine = load_core(), self._process.engine
        name = self._process.numbered("a try of the network")
        handles = engine.agree(name, [core.TensorSpec(name, count=elements, shape=f"[{elements}]")])
        values, output = np.zeros(elements, np.float32), np.empty(elements, np.float32)
        start = time.perf_counter()
        engine.wait(engine.submit(handles[0], values, output))
        seconds = time.perf_counter() - start
        engine.forget(handles)
        return seconds

    def takes(self, way: Way) -> bool:
        """See Training."""
        return self._tensors.knows_loss_scale() or not keeps_states(way.codec)

    def change(self, way: Way) -> None:
        """See Training."""
        self._settle()
        self._tensors.travel_by(way.codec)
