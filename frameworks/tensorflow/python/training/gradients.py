# SPDX-License-Identifier: Apache-2.0
"""Combines the gradients of a distributed optimizer or tape: dense, sparse and missing gradients."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from hipress import runtime
from hipress.adapter.compression import Compressing
from hipress.adapter.lists import restarting
from hipress.adapter.lists.restarting import waits_for_world
from hipress.adapter.planned import PlanArgument, automatic_planning, before_planning, is_automatic, plan_of
from hipress.adapter.process_sets import ProcessSet
from hipress.adapter.synchronizer import SynchronizationOptions
from hipress.errors import InvalidArgument
from hipress.launch.worlds.seat import seat
from hipress.tensorflow.collectives import allreduce
from hipress.tensorflow.training.synchronizer import GradientSynchronizer, names_of

#: The first part of the keys of shared_lists() in Runtime.kept.
_TAPES = "tensorflow tapes"

if TYPE_CHECKING:
    from hipress.adapter.automatic_codec import AutomaticCodec
    from hipress.secopa.online.automatic import AutomaticPlanning
    from hipress.secopa.plan.plan import Plan


@dataclass(frozen=True)
class Combining:
    """The options with which ranks combine the gradients of a list."""

    synchronization: SynchronizationOptions = field(default_factory=SynchronizationOptions)
    sparse_as_dense: bool = False
    """Sparse gradients (IndexedSlices) travel as dense ones, compressed; otherwise all ranks' slices are gathered."""
    compressor: Compressing | None = None
    """Compresses dense gradients, in place of codecs and plans."""
    device: str = ""
    """Ranks combine dense gradients on this device; empty: where the variables are. See places.asked_device()."""


class GradientLists:
    """The lists of variables whose gradients are combined. Ranks have agreed on each list.

    TensorFlow traces a graph several times, and eager code makes a tape in every step: all find the same lists.

    With `counts_updates` the optimizer reports each update by updated(); otherwise operators observe the variables.
    With `restarts` the lists go on in the next world of an elastic job. Tapes make theirs when graphs are traced, which
    is at other times on a new rank: they go on when a graph uses them.
    """

    def __init__(
        self, options: Combining, plan: PlanArgument = None, *, counts_updates: bool = False, restarts: bool = False
    ) -> None:
        self._restarts = restarts
        #: The key in Runtime.kept of each engine that the lists get, so that they live as long.
        self.kept_as: tuple[Any, ...] = ()
        self._counts_updates = counts_updates
        self._options = options
        self._plan = plan
        self._planning: dict[GradientSynchronizer, AutomaticPlanning | AutomaticCodec] = {}
        self._step_ended: float | None = None
        self._lists: dict[tuple[int, ...], tuple[list[weakref.ref[Any]], GradientSynchronizer]] = {}

    @property
    def process_set(self) -> ProcessSet:
        """The ranks that combine their gradients."""
        return self._options.synchronization.process_set

    def combined(self, gradients: Sequence[Any], variables: Sequence[Any], scale: Any = 1.0) -> list[Any]:
        """Combines the gradients over all ranks. None stays None: every rank has gradients for the same variables.
        `scale`: the loss scale, by which the gradients are multiplied.
        """
        if len(gradients) != len(variables):
            raise InvalidArgument(f"{len(gradients)} gradients came with {len(variables)} variables")
        if not gradients:
            return []
        result = list(gradients)
        dense: dict[int, tf.Tensor] = {}
        for index, gradient in enumerate(gradients):
            if gradient is None:
                continue
            if isinstance(gradient, tf.IndexedSlices) and not self._options.sparse_as_dense:
                result[index] = self._gathered(gradient, names_of(variables)[index])
            else:
                dense[index] = tf.convert_to_tensor(gradient)
        if self._options.compressor is not None:
            for index, gradient in dense.items():
                result[index] = self._compressed(self._options.compressor, gradient, names_of(variables)[index])
            return result if tf.executing_eagerly() else _all_or_none(result)
        synchronizer = self._list_of(variables)
        synchronizer.use(dense)
        with nullcontext() if self._counts_updates else synchronizer.observed(variables, dense):
            combined = synchronizer.synchronize(dense, scale)
        for index, gradient in combined.items():
            result[index] = gradient
        return result if tf.executing_eagerly() else _all_or_none(result)

    def updated(self, variables: Sequence[Any]) -> None:
        """Reports that the optimizer has used the gradients that combined() returned for these variables."""
        if variables:
            self._list_of(variables).updated(variables)

    def set_codec(self, codec: str, codec_for: Mapping[str, str] | None = None) -> None:
        """Replaces the codecs from the next step on. Raises the errors of TensorList.set_codec()."""
        self._check_codecs("set_codec")
        changed = replace(self._options.synchronization, codec=codec, codec_for=dict(codec_for or {}), plan=None)
        self._options = replace(self._options, synchronization=changed)
        self._plan = None
        self._planning.clear()
        for _, synchronizer in self._lists.values():
            synchronizer.set_codec(codec, codec_for)

    def set_plan(self, plan: Plan | None) -> None:
        """Follows the plan from the next step on. Raises the errors of TensorList.set_plan()."""
        self._check_codecs("set_plan")
        self._plan = None
        self._planning.clear()
        for _, synchronizer in self._lists.values():
            synchronizer.set_plan(plan)
        changed = replace(self._options.synchronization, plan=plan)
        self._options = replace(self._options, synchronization=changed)

    def list_of(self, variables: Sequence[Any] | None, doing: str) -> GradientSynchronizer:
        """The list of these variables, or without `variables` the only list. Raises InvalidArgument if it is not
        one."""
        if variables:
            return self._list_of(variables)
        if len(self._lists) != 1:
            raise InvalidArgument(
                f"{doing}(): there are {len(self._lists)} lists of gradients so far: name the variables, as in "
                f"{doing}(optimizer, ..., variables=model.trainable_variables)"
            )
        ((_, synchronizer),) = self._lists.values()
        return synchronizer

    def codecs_of(self, variables: Sequence[Any]) -> list[str]:
        """The codecs of the lists that have one of these variables."""
        asked = {id(_tensorflow_variable(variable)) for variable in variables}
        return [
            codec
            for references, synchronizer in self._lists.values()
            if asked & {id(_tensorflow_variable(reference())) for reference in references}
            for codec in synchronizer.options.codecs()
        ]

    def step_ended(self) -> None:
        """Tells automatic plans that a step has ended. Plans may change here, because no operation is in flight."""
        began, self._step_ended = self._step_ended, time.perf_counter()
        if began is not None:
            for planning in self._planning.values():
                planning.step_ended(self._step_ended - began)

    def _gathered(self, gradient: tf.IndexedSlices, name: str) -> tf.IndexedSlices:
        options = self._options.synchronization
        return allreduce(gradient, op=options.op, name=f"gradient.{name}", process_set=options.process_set)

    def _compressed(self, compressor: Compressing, gradient: tf.Tensor, name: str) -> tf.Tensor:
        options = self._options.synchronization
        return allreduce(
            gradient,
            op=options.op,
            compression=compressor,
            prescale_factor=options.prescale_factor,
            postscale_factor=options.postscale_factor,
            name=f"gradient.{name}",
            device_dense=self._options.device,
            process_set=options.process_set,
        )

    def _check_codecs(self, doing: str) -> None:
        if self._options.compressor is not None:
            raise InvalidArgument(
                f"{doing}(): every gradient travels as compression={self._options.compressor!r} makes it; give codec= "
                "or plan= instead"
            )

    def _plan_for(self, reference: weakref.ref[GradientSynchronizer]) -> None:
        """Begins to plan for a list by the times of steps, if the options say so."""
        synchronizer = reference()
        if synchronizer is None:
            return
        if self.kept_as:
            runtime.current().kept.setdefault(self.kept_as, self)
        self._planning.pop(synchronizer, None)
        options = self._options.synchronization
        planning = automatic_planning(self._plan, synchronizer, options, synchronizer.all_present)
        if planning is not None:
            self._planning[synchronizer] = planning

    def _list_of(self, variables: Sequence[Any]) -> GradientSynchronizer:
        key = tuple(map(id, variables))
        if key in self._lists:
            references, synchronizer = self._lists[key]
            if all(reference() is variable for reference, variable in zip(references, variables, strict=True)):
                return synchronizer
        # A list whose variables are gone serves nothing more; the lists of tapes live as long as the engine.
        self._lists = {
            each: kept for each, kept in self._lists.items() if all(reference() is not None for reference in kept[0])
        }
        with tf.init_scope():
            options = self._options.synchronization
            waits = self._restarts and waits_for_world()
            before = before_planning(self._plan, options)
            synchronizer = GradientSynchronizer(variables, before, self._options.device, waits=waits)
            synchronizer.when_agreed = partial(self._plan_for, weakref.ref(synchronizer))
            if not waits:
                synchronizer.when_agreed()
            if self._counts_updates:
                synchronizer.count_updates()
        if self._restarts:
            restarting.note(synchronizer)
        elif seat() is not None:
            synchronizer.restart_in_graphs()
        self._lists[key] = ([weakref.ref(variable) for variable in variables], synchronizer)
        return synchronizer


def _tensorflow_variable(variable: Any) -> Any:
    """TensorFlow's variable in a variable of Keras; other variables as they are."""
    return variable if isinstance(variable, tf.Variable) else getattr(variable, "value", variable)


def _all_or_none(gradients: list[Any]) -> list[Any]:
    """Makes a graph's gradients available only when all are combined, so that a failed step changes no variable."""
    parts = tf.nest.flatten([gradient for gradient in gradients if gradient is not None], expand_composites=True)
    waited = iter(tf.identity_n(parts)) if parts else iter(())
    return [
        None
        if gradient is None
        else tf.nest.pack_sequence_as(
            gradient, [next(waited) for _ in tf.nest.flatten(gradient, expand_composites=True)], expand_composites=True
        )
        for gradient in gradients
    ]


def shared_plan(plan: PlanArgument, codec: str, topology: str) -> Plan | None:
    """The plan of all tapes with the same file, read once per engine because eager code makes a tape in each step."""
    if is_automatic(plan):
        raise InvalidArgument("a tape may live for one step only: automatic plans need DistributedOptimizer")
    if not isinstance(plan, str | os.PathLike):
        return plan_of(plan)
    kept: dict[Any, Plan | None] = runtime.current().kept
    key = ("tensorflow plan", os.fspath(plan), codec, topology)
    if key not in kept:
        kept[key] = plan_of(plan, codec, topology)
    return kept[key]


def shared_lists(options: Combining) -> GradientLists:
    """The lists of all tapes with these options; they live as long as the engine."""
    kept: dict[Any, GradientLists] = runtime.current().kept
    settings = options.synchronization
    key = (
        _TAPES,
        options.sparse_as_dense,
        options.compressor,
        options.device,
        repr(replace(settings, plan=None)),
        id(settings.plan),
        id(settings.process_set),
    )
    if key not in kept:
        kept[key] = GradientLists(options)
        kept[key].kept_as = key
    return kept[key]


def tape_lists() -> list[GradientLists]:
    """The lists of all tapes."""
    kept: dict[Any, Any] = runtime.current().kept
    return [value for key, value in kept.items() if isinstance(key, tuple) and key[0] == _TAPES]


class LocalVariables:
    """Variables whose gradients ranks do not combine. `scale`: divide them by the number of ranks, as in Horovod."""

    def __init__(self, process_set: ProcessSet, *, scale: bool) -> None:
        self._process_set = process_set
        self._scale = scale
        self._variables: list[weakref.ref[Any]] = []

    def add(self, variable: Any) -> None:
        self._variables.append(weakref.ref(variable))

    def combined(
        self, gradients: Sequence[Any], variables: Sequence[Any], lists: GradientLists, scale: Any = 1.0
    ) -> list[Any]:
        """GradientLists.combined() for all variables except the local ones."""
        shared = self._shared(variables)
        result = list(gradients)
        combined = lists.combined([gradients[i] for i in shared], [variables[i] for i in shared], scale)
        for index, gradient in zip(shared, combined, strict=True):
            result[index] = gradient
        for index in set(range(len(result))) - set(shared):
            result[index] = self._scaled(result[index])
        return result

    def updated(self, variables: Sequence[Any], lists: GradientLists) -> None:
        """GradientLists.updated() for all variables except the local ones."""
        lists.updated([variables[index] for index in self._shared(variables)])

    def without(self, variables: Sequence[Any]) -> list[Any]:
        """All variables except the local ones."""
        return [variables[index] for index in self._shared(variables)]

    def _shared(self, variables: Sequence[Any]) -> list[int]:
        local = {id(reference()) for reference in self._variables}
        return [index for index, variable in enumerate(variables) if id(variable) not in local]

    def _scaled(self, gradient: Any) -> Any:
        if gradient is None or not self._scale:
            return gradient
        size = self._process_set.size()
        if isinstance(gradient, tf.IndexedSlices):
            return tf.IndexedSlices(gradient.values / size, gradient.indices, gradient.dense_shape)
        return gradient / size
