# SPDX-License-Identifier: Apache-2.0
"""Codec states of a list of tensors for checkpoints: a flat dict of arrays, which every file format can store.

    "hipress"             int64 [format, ranks, rank, steps of the list's owner]; rank -1: the mean over all ranks.
                          States of earlier versions have no fourth number, see owners_steps()
    "weight:shape"        uint8, the shape of the tensor "weight" as text, as ranks compare it
    "weight:steps"        int64 [number of steps in which it was sent, number that seeds its random values]
    "weight/residual"     float32 [elements], a state of its codec, in memory order; the same for every other state
    "weight/limit:block"  int64 [1], only of a state that has one value for each block: the elements of a block
    "weight:stretches"    float64 [stretches, 3], only in the states of one rank: elements, role, factor; see _ROLES
    "weight:unsent"       float32 [elements], only in the states of one rank: the unsent residual

A residual has the unit of the encoded values: factor · gradient. So residual / factor is the part of the gradients that
a rank has not sent yet, in every role. The mean of these parts over all ranks is the part that the average still lacks.
mean_states() returns the mean in this unit. When a job loads the mean, each of its ranks takes the mean as its own
residual, so the next averages get all of it, with any number of ranks.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hipress.adapter import collectives
from hipress.adapter.lists.description import TensorDescription
from hipress.adapter.state_blocks import block_key, block_of, check_block, length_of, set_block, values_of
from hipress.adapter.synchronizer import TensorList
from hipress.errors import HipressError, InvalidArgument, Mismatch

Array = NDArray[Any]
States = Mapping[str, Array]
_Result = TypeVar("_Result")

FORMAT = 1
ABOUT = "hipress"
RESIDUAL = "residual"
#: The roles in "stretches": None: this rank does not encode the elements; otherwise it encodes them in this role.
_ROLES = (None, "worker", "aggregator")


def own_states(tensors: TensorList) -> dict[str, Array]:
    """A copy of this rank's states. It asks no other rank. Raises InvalidArgument within a step, NotInitialized."""
    engine = tensors.engine
    tensors.set_loss_scale(1.0)  # what a file has does not depend on the loss scale of its last step
    states: dict[str, Array] = {ABOUT: np.array([FORMAT, *_place(tensors), tensors.steps], np.int64)}
    for index, tensor in enumerate(tensors.as_saved()):
        name, handle = tensor.name, tensors.handle(index)
        steps, random, stretches, kept = engine.kept_states(handle)
        states[f"{name}:shape"] = np.frombuffer(tensor.shape.encode(), np.uint8).copy()
        states[f"{name}:steps"] = np.array([steps, random], np.int64)
        rows = [(count, _ROLES.index(role), factor) for count, role, factor in stretches]
        # One row without elements in place of an empty array, because some file formats take no empty array.
        states[f"{name}:stretches"] = np.array(rows or [(0, 0, 1.0)], np.float64)
        for state, block in kept.items():
            states[f"{name}/{state}"] = engine.read_state(handle, state, block)
            set_block(states, f"{name}/{state}", block)
        waiting = tensors.held_back(index)
        if waiting is not None:
            states[f"{name}:unsent"] = waiting.copy()
    return states


def mean_states(tensors: TensorList) -> dict[str, Array]:
    """The mean of all ranks' states, for any number of ranks. All ranks call it between the same steps.

    Raises InvalidArgument within a step; the other ranks then raise Mismatch. Raises Mismatch if the ranks' numbers of
    steps differ; Timeout if a rank does not call it; NotInitialized.
    """

    def described() -> tuple[dict[str, Array], dict[str, dict[str, Array]]]:
        own = own_states(tensors)
        names = state_names(own)
        # It works in place, because these arrays are copies and a model's states are large.
        parts = {each.name: of_gradients(own, each.name, names, in_place=True) for each in tensors.as_saved()}
        return own, parts

    def compared(made: tuple[dict[str, Array], dict[str, dict[str, Array]]]) -> dict[str, Any]:
        own, parts = made
        return {
            "the number of steps before codecs' states were saved": _steps_text(own, tensors),
            "the number of the optimizer's steps": str(tensors.steps),
            "parts": {
                name: {part: block_of(own, f"{name}/{part}") for part in sorted(each)}
                for name, each in parts.items()
                if each
            },
            "workers": {name: _workers(own, name) for name, each in parts.items() if each.keys() - {RESIDUAL}},
        }

    (own, parts), gathered = _agreed(tensors, described, compared)
    operations = []
    blocks: dict[str, dict[str, int]] = {}
    for index, tensor in enumerate(tensors.as_saved()):
        # A rank without this state takes part in the mean, too, with zeros.
        blocks[tensor.name] = {}
        for each in gathered:
            blocks[tensor.name].update(each["parts"].get(tensor.name, {}))
        for part, block in sorted(blocks[tensor.name].items()):
            zeros = np.zeros(length_of(tensor.count, block), np.float32)
            values = parts[tensor.name].setdefault(part, zeros)
            label = f"codec_states.{tensors.name(index)}.{part}"
            operations.append(collectives.allreduce(values, values, name=label, process_set=tensors.process_set))
    for operation in operations:
        operation.wait()
    about = {ABOUT: np.array([FORMAT, _place(tensors)[0], -1, tensors.steps], np.int64)}
    return {**about, **_as_mean(tensors, own, parts, blocks, [each["workers"] for each in gathered])}


def _as_mean(
    tensors: TensorList,
    own: States,
    parts: Mapping[str, dict[str, Array]],
    blocks: Mapping[str, Mapping[str, int]],
    workers: Sequence[Mapping[str, Sequence[tuple[int, int]]]],
) -> dict[str, Array]:
    """The mean states from the means over all ranks, in which a rank without a state counts as zeros. The mean of a
    state other than the residual is over the ranks that have it. `blocks`: how many elements share a value, by tensor
    and state. `workers`: the result of _workers() by tensor, of each rank. It changes `parts`.
    """
    states: dict[str, Array] = {}
    for tensor in tensors.as_saved():
        for key in ("shape", "steps"):
            states[f"{tensor.name}:{key}"] = own[f"{tensor.name}:{key}"]
        ranges = [each.get(tensor.name, ()) for each in workers]
        for part, values in parts[tensor.name].items():
            key, block = f"{tensor.name}/{part}", blocks[tensor.name].get(part, 1)
            if part != RESIDUAL:
                for first, end, ranks in _covered(ranges):
                    values[values_of(slice(first, end), block)] *= np.float32(len(workers) / ranks)
            states[key] = values
            set_block(states, key, block)
    return states


def _workers(own: States, name: str) -> list[tuple[int, int]]:
    """First element and end of each range that a rank encodes as a worker."""
    ranges = _ranges(own[f"{name}:stretches"])
    return [(part.start, part.stop) for part, role, _ in ranges if role == "worker"]


def _covered(workers: Iterable[Sequence[tuple[int, int]]]) -> Iterator[tuple[int, int, int]]:
    """First element, end, and the number of ranks that are workers there, from the ranges of each rank; ranges without
    a worker are left out."""
    changes: Counter[int] = Counter()
    for ranges in workers:
        for first, end in ranges:
            changes[first] += 1
            changes[end] -= 1
    ranks = 0
    for first, end in pairwise(sorted(changes)):
        ranks += changes[first]
        if ranks:
            yield first, end, ranks


def state_names(states: Iterable[str]) -> dict[str, list[str]]:
    """The names of the states of each tensor, by the tensor's name, from keys such as "weight/residual"."""
    names: dict[str, list[str]] = {}
    for key in states:
        name, found, state = key.rpartition("/")
        if found and state.isidentifier():
            names.setdefault(name, []).append(state)
    return names


def of_gradients(own: States, name: str, names: Mapping[str, list[str]], *, in_place: bool = False) -> dict[str, Array]:
    """The values that a rank adds to the mean, by state, in the unit of gradients. A velocity has zeros where the rank
    is no worker. With `in_place` the function changes arrays of `own` and returns them.
    """
    parts: dict[str, Array] = {}
    ranges = _ranges(own[f"{name}:stretches"])
    for state in names.get(name, ()):
        key = f"{name}/{state}"
        if state == RESIDUAL:
            values = own[key] if in_place else own[key].copy()
            for part, _, factor in ranges:
                if factor == 0.0:
                    values[part] = 0.0  # factor 0: these values are never sent
                elif factor != 1.0:
                    values[part] /= factor
            parts[state] = values
            continue
        values = own[key] if in_place else own[key].copy()
        for part, role, _ in ranges:
            if role != "worker":
                values[values_of(part, block_of(own, key))] = 0.0
        parts[state] = values
    waiting = own.get(f"{name}:unsent")
    if waiting is not None:
        parts[RESIDUAL] = parts[RESIDUAL] + waiting if RESIDUAL in parts else waiting
    return parts


def _ranges(stretches: Array) -> list[tuple[slice, str | None, float]]:
    ranges, first = [], 0
    for count, role, factor in stretches:
        ranges.append((slice(first, first + int(count)), _ROLES[int(role)], float(factor)))
        first += int(count)
    return ranges


def load_states(
    tensors: TensorList,
    states: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    to_array: Callable[[Any], Array] = np.asarray,
) -> None:
    """Replaces the states by saved states. All ranks call it between the same steps.

    Arguments:
        states: the result of mean_states(), for any number of ranks; or the result of own_states() of this rank, for
            the same number of ranks; or the sequence of all ranks' results of own_states(), in rank order, for any
            number of ranks.
        to_array: makes an array of a value of `states`; an exception of it becomes InvalidArgument.

    Raises InvalidArgument, with the first difference, for states of other tensors; the other ranks then raise Mismatch.
    Raises Mismatch if ranks give states of different steps; Timeout if a rank does not call it. After an error the
    states are unchanged.
    """
    load_lists([(tensors, states)], to_array)


def load_lists(
    lists: Sequence[tuple[TensorList, Mapping[str, Any] | Sequence[Mapping[str, Any]]]],
    to_array: Callable[[Any], Array] = np.asarray,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Does load_states() for several lists, each with its states. After an error all lists are unchanged.

    `check`: the last check of the states; the other ranks raise Mismatch if it raises an error of HiPress.
    """

    def checked() -> list[tuple[dict[str, Array], Any]]:
        made = [_checked(tensors, states, to_array) for tensors, states in lists]
        check()
        return made

    made, _ = _agreed(
        lists[0][0],
        checked,
        lambda made: {
            "the number of steps in codecs' states": ", ".join(
                _steps_text(given, tensors) for (given, _), (tensors, _) in zip(made, lists, strict=True)
            ),
            "the number of the optimizer's steps": str([owners_steps(given) for given, _ in made]),
            "whether codecs' states are the mean over ranks": str([bool(given[ABOUT][2] < 0) for given, _ in made]),
        },
    )
    for (tensors, _), (given, restored) in zip(lists, made, strict=True):
        _restore(tensors, given, restored)


def load_own_states(
    tensors: TensorList, states: Mapping[str, Any], to_array: Callable[[Any], Array] = np.asarray
) -> None:
    """Replaces the states by the result of own_states() of this rank, from a job with the same number of ranks.

    It is for states in a checkpoint of one rank, and asks no other rank. Raises InvalidArgument as load_states(); the
    states are then unchanged.
    """
    given, restored = _checked(tensors, states, to_array)
    _restore(tensors, given, restored)


def forget_states(tensors: TensorList) -> None:
    """Sets all states of this rank to zero. It asks no other rank. Raises InvalidArgument within a step."""
    own = own_states(tensors)
    states = {f"{name}/{state}" for name, kept in state_names(own).items() for state in kept}
    unsent = {f"{tensor.name}:unsent" for tensor in tensors.as_saved()}
    nothing = {key: np.zeros_like(each) if key in states else each for key, each in own.items() if key not in unsent}
    load_own_states(tensors, nothing)


def _checked(
    tensors: TensorList, states: Mapping[str, Any] | Sequence[Mapping[str, Any]], to_array: Callable[[Any], Array]
) -> tuple[dict[str, Array], list[Any]]:
    """The states for this rank, and the same in the form that the engine takes. Raises InvalidArgument."""
    for index in range(len(tensors)):
        tensors.engine.kept_states(tensors.handle(index))  # raises within a step
    several = isinstance(states, Sequence)
    saved = [_as_arrays(each, to_array) for each in (states if several else [states])]
    given = _for_this_rank(tensors, saved, several)
    return given, _restored(tensors, given)


def owners_steps(given: States) -> int:
    """Number of steps of the list's owner. States without it: the greatest number of averages of a tensor."""
    about = given[ABOUT]
    sent = (int(each[0]) for key, each in given.items() if key.endswith(":steps"))
    return int(about[3]) if len(about) > 3 else max(sent, default=0)


def _restore(tensors: TensorList, given: States, restored: list[Any]) -> None:
    # The codec comes first: it takes the states that it had in this step, and residuals stay residuals.
    tensors.steps = owners_steps(given)
    tensors.follow_warm_up()
    names = state_names(given)
    blocks = [
        {state: block_of(given, f"{tensor.name}/{state}") for state in names.get(tensor.name, ())}
        for tensor in tensors.as_saved()
    ]
    handles = [tensors.handle(index) for index in range(len(tensors))]
    unsent = tensors.engine.restore_states(handles, restored, blocks)
    waiting: dict[int, Array] = {}
    for index, (tensor, values) in enumerate(zip(tensors.as_saved(), unsent, strict=True)):
        kept = given.get(f"{tensor.name}:unsent")
        both = [each for each in (kept, values) if each is not None]
        if both:
            waiting[index] = both[0].copy() if len(both) == 1 else both[0] + both[1]
    tensors.replace_held_back(waiting)
    tensors.states_replaced()


def _as_arrays(states: Any, to_array: Callable[[Any], Array]) -> dict[str, Array]:
    if not isinstance(states, Mapping):
        raise InvalidArgument(f"codecs' states are a dict of tensors, not a {type(states).__name__}")
    arrays = {}
    for key in states:
        try:
            arrays[str(key)] = np.asarray(to_array(states[key]))
        except Exception as error:  # a damaged file may raise any type
            raise InvalidArgument(f"{key!r} of the codecs' states is no array: {error}") from error
    return arrays


def _for_this_rank(tensors: TensorList, saved: list[dict[str, Array]], several: bool) -> dict[str, Array]:
    here = _place(tensors)
    if not several:
        (given,) = saved
        _check(tensors, given)
        world, rank = (int(each) for each in given[ABOUT][1:3])
        if rank >= 0 and (world, rank) != here:
            raise InvalidArgument(
                f"the codecs' states are of rank {rank} of {world} alone (exact=True), and this is rank "
                f"{here[1]} of {here[0]}: load a list with the states of all {world} ranks, or save them "
                "without exact=True"
            )
        return given
    for each in saved:
        _check(tensors, each)
    about = [tuple(int(number) for number in each[ABOUT][1:3]) for each in saved]
    if not saved or about != [(len(saved), rank) for rank in range(len(saved))]:
        raise InvalidArgument(
            "a list of codecs' states has the states of all ranks (exact=True), in their order; here the ranks are "
            f"{[rank for _, rank in about]} of {sorted({world for world, _ in about})}"
        )
    return saved[here[1]] if len(saved) == here[0] else _mean_of(tensors, saved)


def _place(tensors: TensorList) -> tuple[int, int]:
    """The number of ranks that synchronise the tensors, and the position of this rank among them."""
    return tensors.process_set.size(), tensors.process_set.rank()


def _mean_of(tensors: TensorList, saved: Sequence[States]) -> dict[str, Array]:
    parts: dict[str, dict[str, Array]] = {}
    blocks: dict[str, dict[str, int]] = {}
    names = [state_names(own) for own in saved]
    for tensor in tensors.as_saved():
        total: dict[str, Array] = {}
        parts[tensor.name] = total
        blocks[tensor.name] = {}
        for own, kept in zip(saved, names, strict=True):
            for part, values in of_gradients(own, tensor.name, kept).items():
                block = block_of(own, f"{tensor.name}/{part}")
                if blocks[tensor.name].setdefault(part, block) != block:
                    raise InvalidArgument(f"the ranks' states '{tensor.name}/{part}' are of different codecs")
                total[part] = total[part] + values if part in total else values.astype(np.float64)
        for part in total:
            total[part] = (total[part] / len(saved)).astype(np.float32)
    about = {ABOUT: np.array([FORMAT, len(saved), -1, owners_steps(saved[0])], np.int64)}
    workers = [{tensor.name: _workers(own, tensor.name) for tensor in tensors.as_saved()} for own in saved]
    return {**about, **_as_mean(tensors, saved[0], parts, blocks, workers)}


def _restored(tensors: TensorList, given: States) -> list[Any]:
    """The states in the form that Engine.restore_states() takes."""
    world = int(given[ABOUT][1])
    # With op=Sum, the sum over another number of ranks must get the same total of the residuals.
    factor = world / _place(tensors)[0] if tensors.options.op.name == "sum" else 1.0
    restored = []
    names = state_names(given)
    for tensor in tensors.as_saved():
        values = {state: given[f"{tensor.name}/{state}"] for state in names.get(tensor.name, ())}
        steps, random = (int(each) for each in given[f"{tensor.name}:steps"])
        stretches: list[tuple[int, str | None, float]] = [(tensor.count, "worker", 1.0)]
        if int(given[ABOUT][2]) >= 0:
            rows = given[f"{tensor.name}:stretches"]
            stretches = [(int(count), _ROLES[int(role)], float(each)) for count, role, each in rows]
        elif factor != 1.0 and RESIDUAL in values:
            values[RESIDUAL] = (values[RESIDUAL] * factor).astype(np.float32)
        restored.append((steps, random, stretches, values))
    return restored


def _check(tensors: TensorList, given: dict[str, Array]) -> None:
    """Raises InvalidArgument, with the first difference, unless `given` has the states of these tensors."""
    about = given.get(ABOUT)
    if about is None or about.shape not in ((3,), (4,)) or about.dtype.kind not in "iu" or about[3:].min(initial=0) < 0:
        raise InvalidArgument("these are no codecs' states: give the result of codec_states()")
    if int(about[0]) != FORMAT:
        raise InvalidArgument(f"the codecs' states have format {int(about[0])}, and this version reads {FORMAT}")
    known = {ABOUT}
    names = state_names(given)
    for index, tensor in enumerate(tensors.as_saved()):
        *_, own = tensors.engine.kept_states(tensors.handle(index))
        for state in names.get(tensor.name, ()):
            check_block(given, f"{tensor.name}/{state}", own.get(state))
        known |= _check_tensor(tensor, given, names.get(tensor.name, ()), is_mean=int(about[2]) < 0)
    for key in given:
        if key not in known:
            name = key.rpartition(":")[0] or key.rpartition("/")[0] or key
            raise InvalidArgument(f"the codecs' states have '{name}' ({key!r}), which is not among these tensors")


def _check_tensor(tensor: TensorDescription, given: States, kept: Iterable[str], *, is_mean: bool) -> set[str]:
    """Checks the values of one tensor with the states `kept`, and returns their keys. Raises InvalidArgument."""
    name, count, shape = tensor.name, tensor.count, tensor.shape
    needed = {"shape": "u", "steps": "iu"} if is_mean else {"shape": "u", "steps": "iu", "stretches": "f"}
    for key, kinds in needed.items():
        if f"{name}:{key}" not in given:
            raise InvalidArgument(f"the codecs' states lack '{name}' ('{name}:{key}'): they are of another model")
        if given[f"{name}:{key}"].dtype.kind not in kinds:
            raise InvalidArgument(f"'{name}:{key}' of the codecs' states has elements of another type")
    saved = given[f"{name}:shape"].tobytes().decode(errors="replace")
    if saved != shape:
        raise InvalidArgument(f"'{name}' has shape {saved} in the codecs' states, and {shape} here")
    steps = given[f"{name}:steps"]
    if steps.shape != (2,) or not all(0 <= int(each) < 2**32 for each in steps):
        raise InvalidArgument(f"'{name}:steps' of the codecs' states has no two numbers of at least 0")
    if not is_mean:
        _check_stretches(name, count, given[f"{name}:stretches"])
    states = [f"{name}/{state}" for state in kept]
    if not is_mean and f"{name}:unsent" in given:
        states.append(f"{name}:unsent")
    for key in states:
        length = length_of(count, block_of(given, key))
        if given[key].dtype != np.float32 or given[key].shape != (length,):
            raise InvalidArgument(
                f"'{key}' of the codecs' states is {given[key].dtype} of shape {list(given[key].shape)}; expected "
                f"float32 of shape [{length}]"
            )
        if not np.isfinite(given[key]).all():
            raise InvalidArgument(f"'{key}' of the codecs' states has an element that is not finite")
    return {*(f"{name}:{key}" for key in needed), *states, *(block_key(key) for key in states)}


def _check_stretches(name: str, count: int, rows: Array) -> None:
    fits = rows.ndim == 2 and rows.shape[1] == 3 and bool(np.isfinite(rows).all())
    if (
        not fits
        or rows[:, 0].sum() != count
        or (rows[:, 0] < 0).any()
        or (rows[:, 0] % 1).any()
        or not np.isin(rows[:, 1], (0, 1, 2)).all()
    ):
        raise InvalidArgument(f"'{name}:stretches' of the codecs' states do not cover the {count} elements")


def _steps_text(states: States, tensors: TensorList) -> str:
    steps = [int(states[f"{tensor.name}:steps"][0]) for tensor in tensors.as_saved()]
    if len(set(steps)) == 1:
        return str(steps[0])
    return f"{min(steps, default=0)} to {max(steps, default=0)} (check sum {zlib.crc32(json.dumps(steps).encode())})"


def _agreed(
    tensors: TensorList, make: Callable[[], _Result], compared: Callable[[_Result], dict[str, Any]]
) -> tuple[_Result, list[dict[str, Any]]]:
    """The result of `make()` on this rank and of `compared()` on all ranks. If `make()` raises on a rank, it raises the
    error, and all others raise Mismatch. All raise Mismatch if the texts in the results of `compared()` differ.
    """
    made: _Result | None = None
    error: HipressError | None = None
    try:
        made = make()
    except HipressError as raised:
        error = raised
    own = {"error": str(error)} if error is not None or made is None else compared(made)
    gathered = [json.loads(each) for each in tensors.gather("codec states", json.dumps(own).encode())]
    if error is not None:
        raise error
    for rank, theirs in zip(tensors.process_set.ranks, gathered, strict=True):
        if "error" in theirs:
            raise Mismatch(f"rank {rank} refused, so nothing was changed on any rank: {theirs['error']}")
        for key, value in own.items():
            if isinstance(value, str) and theirs[key] != value:
                raise Mismatch(
                    f"the ranks differ in {key}: rank {tensors.engine.rank} has {value}, rank {rank} has "
                    f"{theirs[key]}; all ranks save and load codecs' states between the same steps"
                )
    assert made is not None
    return made, gathered
