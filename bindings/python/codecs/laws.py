# SPDX-License-Identifier: Apache-2.0
"""What every codec must keep, tried on awkward gradients: `hipress codec check` names the law that a codec breaks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hipress.codecs.awkward import COUNTS, gradients
from hipress.errors import CorruptPayload, HipressError

if TYPE_CHECKING:
    from hipress._core import Codec

    _Law = Callable[[Codec, Codec], Iterator[str]]

_STEPS = 3
#: Steps after which a codec must have sent most of a gradient that stays the same, and steps before.
_LATE, _EARLY = 200, 20
_SAMPLE = 10_000
#: Greater values may become infinite: facts() says so.
_MOST = 6e4


@dataclass(frozen=True)
class Breach:
    """A law that a codec breaks, and how."""

    law: str
    how: str


@dataclass(frozen=True)
class Facts:
    """The size and the error of a codec's message of normal values, in a first step."""

    bits_per_value: float
    #: The squared error by the squared length of the gradient.
    error: float
    #: Whether values of about 1e30 become infinite, as in float16.
    overflows: bool


def breaches(codec: Codec, again: Codec) -> list[Breach]:
    """The laws that a codec breaks, each with the first input at which it does. `again`: the same codec, made anew."""
    found = []
    for law, tried in _LAWS.items():
        try:
            how = next(tried(codec, again), None)
        except HipressError as error:
            how = str(error)
        if how is not None:
            found.append(Breach(law, how))
    return found


def facts(codec: Codec) -> Facts:
    """Measured on 10,000 values."""
    values = np.random.default_rng(0).standard_normal(_SAMPLE).astype(np.float32)
    message = _message(codec, values)
    error = values.astype(np.float64) - codec.decode(message, _SAMPLE)
    large = codec.decode(_message(codec, values * np.float32(1e30)), _SAMPLE)
    return Facts(
        8 * len(message) / _SAMPLE,
        float(np.square(error).sum() / np.square(values.astype(np.float64)).sum()),
        not np.isfinite(large).all(),
    )


def new_states(codec: Codec, count: int) -> dict[str, NDArray[np.float32]]:
    """The states of a first step."""
    return {name: np.zeros(-(-count // codec.state_block(name)), np.float32) for name in codec.states}


def _message(codec: Codec, values: NDArray[np.float32], step: int = 0) -> bytes:
    return codec.encode(values, new_states(codec, len(values)) or None, step=step)


def _inputs() -> Iterator[tuple[str, NDArray[np.float32]]]:
    for count in COUNTS:
        for what, values in gradients(count):
            yield f"{count} elements, {what}", values


def _repeats(codec: Codec, again: Codec) -> Iterator[str]:
    for what, values in _inputs():
        first = _message(codec, values, 3)
        _message(codec, values[::-1].copy(), 4)
        if _message(codec, values, 3) != first:
            yield (
                f"a second encode gives another message ({what}): what lasts must be a state, and random numbers must "
                "come from the generator that HiPress gives"
            )
        if _message(again, values, 3) != first:
            yield f"the codec made anew, as on another rank, gives another message ({what})"


def _needs_the_message_only(codec: Codec, again: Codec) -> Iterator[str]:
    for what, values in _inputs():
        message = _message(codec, values)
        if not np.array_equal(codec.decode(message, len(values)), again.decode(message, len(values)), equal_nan=True):
            yield f"the codec made anew decodes other values ({what}): decode must use the message alone"


def _fits(codec: Codec, _again: Codec) -> Iterator[str]:
    for what, values in _inputs():
        size, most = len(_message(codec, values)), codec.max_encoded_bytes(len(values))
        if size > most:
            yield f"a message has {size} bytes, and it said {most} at most ({what})"


def _conserves(codec: Codec, _again: Codec) -> Iterator[str]:
    factor = re.search(r"residual_factor=([^,)]+)", codec.signature)
    kept = np.float32(factor[1] if factor else 1)
    if tuple(codec.states) != ("residual",):
        return
    for what, values in _inputs():
        states = new_states(codec, len(values))
        for step in range(_STEPS):
            entering = np.float32(codec.gradient_factor) * values + kept * states["residual"]
            decoded = codec.decode(codec.encode(values, states, step=step), len(values))
            leaving = decoded.astype(np.float64) + states["residual"]
            away = np.abs(leaving - entering)
            allowed = 2e-6 * np.maximum(np.abs(entering), np.abs(decoded)).astype(np.float64) + 1e-44
            if (away > allowed).any():
                place = int(np.argmax(away - allowed))
                yield (
                    f"step {step}, {what}, element {place}: {entering[place]:g} went in, and {decoded[place]:g} was "
                    f"sent with {states['residual'][place]:g} in the residual"
                )


def _stays_finite(codec: Codec, _again: Codec) -> Iterator[str]:
    for what, values in _inputs():
        if np.abs(values).max() > _MOST:
            continue
        message = _message(codec, values)
        if message and not np.isfinite(codec.decode(message, len(values))).all():
            yield f"finite values decode to values that are not ({what})"
        if not message:
            yield f"finite values are refused as if they were not ({what})"


def _refuses(codec: Codec, _again: Codec) -> Iterator[str]:
    for what, bad in (("NaN", np.nan), ("infinity", np.inf)):
        values = np.ones(1000, np.float32)
        values[17] = bad
        states = {name: np.full_like(each, 0.5) for name, each in new_states(codec, 1000).items()}
        if np.isfinite(codec.decode(codec.encode(values, states or None), 1000)).all():
            yield f"a gradient with {what} decodes to finite values, so that no rank sees it"
        if any((each != 0.5).any() for each in states.values()):
            yield f"a gradient with {what} changes states"


def _checks(codec: Codec, _again: Codec) -> Iterator[str]:
    values = dict(gradients(1000))["normal values"]
    message = _message(codec, values)
    for what, bad in (("a byte less", message[:-1]), ("a byte more", message + b"\0"), ("one byte", b"\1")):
        output = np.full(1000, 7, np.float32)
        try:
            codec.decode_into(bad, output)
        except CorruptPayload:
            if (output != 7).any():
                yield f"a message with {what} is refused after values were written"
        else:
            yield f"a message with {what} is decoded as if it were whole"


def _catches_up(codec: Codec, _again: Codec) -> Iterator[str]:
    if tuple(codec.states) != ("residual",):  # a momentum sends more than it was given
        return
    # Of a gradient's usual size: codecs with a fixed threshold send little more than that in a step.
    values = (0.01 * np.random.default_rng(1).standard_normal(1000)).astype(np.float32)
    states, sent, short = new_states(codec, 1000), np.zeros(1000), {}
    for step in range(1, _LATE + 1):
        sent += codec.decode(codec.encode(values, states, step=step), 1000)
        short[step] = float(np.linalg.norm(sent / step - values) / np.linalg.norm(values))
    if short[_LATE] > 0.9 * short[_EARLY] and short[_LATE] > 1e-3:
        yield (
            f"of a gradient that stays the same {100 * short[_EARLY]:.0f} % are missing after {_EARLY} steps, and "
            f"{100 * short[_LATE]:.0f} % after {_LATE}: the residual is never sent"
        )


_LAWS: dict[str, _Law] = {
    "equal inputs give equal messages": _repeats,
    "a message is all that decode needs": _needs_the_message_only,
    "a message has the promised size at most": _fits,
    "gradient + old residual = decoded + new residual": _conserves,
    "finite values stay finite": _stays_finite,
    "values that are not finite reach all ranks, and no state": _refuses,
    "a damaged message is refused and changes nothing": _checks,
    "the residual is sent later": _catches_up,
}
