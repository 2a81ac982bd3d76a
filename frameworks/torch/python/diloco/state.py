# SPDX-License-Identifier: Apache-2.0
"""What DiLoCo saves, and whether a saved state belongs to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hipress.errors import InvalidArgument
from hipress.torch.diloco.averaging import Values
from hipress.torch.diloco.outer import OuterParameters, fingerprint
from hipress.torch.diloco.tokens import Tokens

#: Since 2 a state may have what codecs over a process group held back, which versions that read 1 would lose.
_FORMAT, _READ = 2, (1, 2)


@dataclass
class Exchange:
    """A fragment's pseudo-gradients on their way."""

    fragment: int
    due: int
    """After which inner step the outer optimizer takes the averages."""
    wait: Callable[[], Values]
    """Of Averaging.start()."""
    tokens: float = 0.0
    """This rank's count when it began, see Tokens."""
    arrived: Values | None = None

    def averages(self) -> Values:
        """Waits for them. Raises the error of the exchange."""
        if self.arrived is None:
            self.arrived = self.wait()
        return self.arrived


@dataclass(frozen=True)
class Counted:
    """How far a training has come, in whole numbers."""

    step: int
    """Inner steps taken."""
    exchanges: int
    """Exchanges begun."""
    tokens: list[float]
    """Of this rank, since the last exchange of each fragment."""


def saved(
    outer: OuterParameters,
    schedule: Mapping[str, Any],
    counted: Counted,
    exchange: Exchange | None,
    residuals: dict[str, Any] | None,
    codecs: dict[str, Any] | None,
) -> dict[str, Any]:
    """The state, in tensors and plain values that torch.save() and torch.load(weights_only=True) take.

    `residuals`: of saved_residuals(); `codecs`: of saved_codecs().
    """
    pending = None
    if exchange is not None:
        averages = {name: each.clone() for name, each in exchange.averages().items()}
        pending = {"fragment": exchange.fragment, "due": exchange.due, "averages": averages}
    return {
        "format": _FORMAT,
        "step": counted.step,
        "exchanges": counted.exchanges,
        "tokens": list(counted.tokens),
        "schedule": dict(schedule),
        "parameters": {name: each.detach().clone() for name, each in outer.values.items()},
        "outer_optimizer": {"class": type(outer.optimizer).__name__, "state": _copied(outer.optimizer.state_dict())},
        "exchange": pending,
        "residuals": residuals,
        "codecs": codecs,
    }


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def checked_states(
    state: Any, outer: OuterParameters, schedule: Mapping[str, Any], names: list[list[str]]
) -> list[Mapping[str, Any]]:
    """The states in `state`: one rank's, or all old ranks'. Raises InvalidArgument as _check_state() does, and if
    values differ that all ranks have in common."""
    listed = [state] if isinstance(state, Mapping) or not isinstance(state, Sequence) else list(state)
    if not listed:
        raise InvalidArgument("the list of states is empty: give the states of all old ranks, in their order")
    for each in listed:
        _check_state(each, outer, schedule, names)
    first = _shared(listed[0])
    for place, each in enumerate(listed):
        for what, value in _shared(each).items():
            if value != first[what]:
                raise InvalidArgument(
                    f"states 0 and {place} differ in {what}: they are not of one step of one training"
                )
    return listed


def _check_state(state: Any, outer: OuterParameters, schedule: Mapping[str, Any], names: list[list[str]]) -> None:
    """Raises InvalidArgument, with the first difference, if `state` is of another model, schedule or optimizer."""
    try:
        if state["format"] not in _READ:
            raise InvalidArgument(f"the state has format {state['format']!r}, and this version reads 1 and 2")
        if not isinstance(state["step"], int) or state["step"] < 0:
            raise InvalidArgument(f"the state's step {state['step']!r} is no whole number of at least 0")
        tokens = state.get("tokens")
        if tokens is not None and (len(tokens) != len(names) or not all(each >= 0 for each in tokens)):
            raise InvalidArgument(f"the state's tokens {tokens!r} are no count for each of {len(names)} fragments")
        if not isinstance(state.get("exchanges", 0), int) or state.get("exchanges", 0) < 0:
            raise InvalidArgument(f"the state's exchanges {state['exchanges']!r} are no whole number of at least 0")
        for key, value in schedule.items():
            if state["schedule"][key] != value:
                raise InvalidArgument(
                    f"the state was saved with {key}={state['schedule'][key]!r}, and here it is {value!r}"
                )
        own = {name: outer.values[name] for name in outer.values}
        _check_tensors("parameters", state["parameters"], own)
        _check_optimizer(state["outer_optimizer"], outer.optimizer)
        if (exchange := state["exchange"]) is not None:
            fragment = exchange["fragment"]
            if fragment not in range(len(names)) or not state["step"] < exchange["due"]:
                raise InvalidArgument(f"the state's exchange of fragment {fragment!r} does not fit its step")
            _check_tensors("averages", exchange["averages"], {name: own[name] for name in names[fragment]})
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise InvalidArgument(
            f"this is no state of DiLoCo ({type(error).__name__}: {error}): give what its state_dict() returned"
        ) from error


def _check_optimizer(state: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> None:
    if state["class"] != type(optimizer).__name__:
        raise InvalidArgument(
            f"the state's outer optimizer is {state['class']}, and here it is {type(optimizer).__name__}"
        )
    sizes = [len(group["params"]) for group in state["state"]["param_groups"]]
    if sizes != (own := [len(group["params"]) for group in optimizer.param_groups]):
        raise InvalidArgument(f"the state's outer optimizer has groups of {sizes} parameters, and here it has {own}")
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    for index, values in state["state"]["state"].items():
        for key, value in values.items():
            is_moment = isinstance(value, torch.Tensor) and value.dim() > 0
            if is_moment and value.shape != parameters[index].shape:
                raise InvalidArgument(f"the outer optimizer's '{key}' of parameter {index} has another shape")


def _check_tensors(what: str, theirs: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor]) -> None:
    for name, tensor in own.items():
        if name not in theirs:
            raise InvalidArgument(f"the state's {what} lack '{name}': it is of another model")
        for each in ("shape", "dtype"):
            if getattr(theirs[name], each) != getattr(tensor, each):
                raise InvalidArgument(
                    f"'{name}' has {each} {getattr(theirs[name], each)} in the state's {what}, and "
                    f"{getattr(tensor, each)} here: it is of another model"
                )
    if unknown := [name for name in theirs if name not in own]:
        raise InvalidArgument(f"the state's {what} have '{unknown[0]}', which this model has not")


def described(listed: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What of checked states must be the same on all ranks."""
    if len(listed) == 1:
        return _shared(listed[0])
    residuals = [each["residuals"]["values"] for each in listed if each.get("residuals") is not None]
    tensors = (values[name] for values in residuals for name in sorted(values))
    return {**_shared(listed[0]), "the states' residuals": f"of {len(listed)} ranks, {fingerprint(tensors)}"}


def _shared(state: Mapping[str, Any]) -> dict[str, str]:
    """What of a checked state is the same on all ranks that saved it."""
    moments = [
        value
        for _, values in sorted(state["outer_optimizer"]["state"]["state"].items())
        for _, value in sorted(values.items())
        if isinstance(value, torch.Tensor)
    ]
    exchange = state["exchange"] or {"fragment": None, "averages": {}}
    return {
        "the state's step": str(state["step"]),
        "the state's exchanges": str(state.get("exchanges")),
        "the state's parameters": fingerprint(state["parameters"][name] for name in sorted(state["parameters"])),
        "the state's outer optimizer": fingerprint(moments),
        "the state's exchange": str(exchange["fragment"])
        + fingerprint(exchange["averages"][name] for name in sorted(exchange["averages"])),
    }


def exchanges_of(state: Mapping[str, Any], distance: int) -> int:
    """The number of exchanges that a training with a checked state has begun, one every `distance` steps.

    States of earlier versions have it beside the codec's residuals, if at all.
    """
    codecs = state.get("codecs") or {}
    return int(state.get("exchanges", codecs.get("exchanges", state["step"] // distance)))


def tokens_of(
    state: Mapping[str, Any] | Sequence[Mapping[str, Any]], rank: int, world: int, fragments: int
) -> list[float]:
    """What this rank had counted, in a checked state: its own, or all old ranks'. With other ranks it begins anew."""
    listed = [state] if isinstance(state, Mapping) else list(state)
    own = listed[0] if len(listed) == 1 else listed[rank] if len(listed) == world else {}
    return list(own.get("tokens") or [0.0] * fragments)


def exchange_of(state: Mapping[str, Any], tokens: Tokens) -> Exchange | None:
    """The exchange of a checked state: its averages have arrived. `tokens`: of tokens_of()."""
    if (exchange := state["exchange"]) is None:
        return None
    values = {name: each.clone() for name, each in exchange["averages"].items()}
    begun = tokens.total - tokens.since(exchange["fragment"])
    return Exchange(exchange["fragment"], exchange["due"], lambda: values, begun)
