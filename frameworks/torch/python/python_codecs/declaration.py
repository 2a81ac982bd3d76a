# SPDX-License-Identifier: Apache-2.0
"""What a class says of its codec: name, options, states, and a checksum of its text."""

from __future__ import annotations

import inspect
import re
import zlib
from dataclasses import dataclass
from typing import Any

from hipress.codecs.typed import Value, value_text
from hipress.errors import InvalidArgument

#: The state in which HiPress keeps what a message did not hold.
RESIDUAL = "residual"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
#: The options of every codec with a residual: name, default, meaning.
_OWN_OPTIONS = (
    ("error_feedback", True, "Whether the residual is added to the next gradient: true or false."),
    ("residual_factor", 1.0, "The factor of the residual that is added to the next gradient: float in [0, 1]."),
    ("gradient_factor", 1.0, "The factor of the gradient that the residual is added to: float in (0, 1]."),
)
OWN_OPTIONS = tuple(name for name, _, _ in _OWN_OPTIONS)


@dataclass(frozen=True)
class Declaration:
    """A class and what it says of itself."""

    kind: Any
    name: str
    summary: str
    #: The options that the class takes, and their defaults.
    usual: dict[str, Value]
    states: tuple[str, ...]
    keeps_residual: bool
    #: By which ranks notice that they have registered different classes.
    fingerprint: str

    @property
    def all_states(self) -> list[str]:
        """The residual, if there is one, comes first."""
        return [RESIDUAL] * self.keeps_residual + list(self.states)

    def described_options(self) -> list[tuple[str, str, str]]:
        """The name, default and meaning of each option."""
        options = [(name, value_text(value), type(value).__name__) for name, value in self.usual.items()]
        if self.keeps_residual:
            options += [(name, value_text(value), meaning) for name, value, meaning in _OWN_OPTIONS]
        return options

    def read(self, texts: dict[str, str]) -> dict[str, Value]:
        """The values of all options. Raises InvalidArgument."""
        usual = {**self.usual, **{name: value for name, value, _ in _OWN_OPTIONS}}
        values = {option: _read(self.name, option, text, usual[option]) for option, text in texts.items()}
        for option, low in (("residual_factor", 0.0), ("gradient_factor", 1e-30)):
            factor = values.get(option, 1.0)
            if not (isinstance(factor, float) and low <= factor <= 1):
                raise InvalidArgument(f"codec {self.name}: option {option} is {factor}; it must be 0 to 1")
            if factor != 1 and not values["error_feedback"]:
                raise InvalidArgument(
                    f"codec {self.name}: option {option} is a factor beside the residual, and with "
                    "error_feedback=false no residual is kept: leave the option out, or set error_feedback=true"
                )
        return values


def declaration_of(kind: Any, name: str | None, source: str | None = None) -> Declaration:
    """Reads a class. `source`: the text of which the fingerprint is made, in place of the class's own. Raises
    InvalidArgument that says which part is missing or wrong."""
    if not isinstance(kind, type):
        raise InvalidArgument(f"{kind!r} is no class: give the class itself; options are given by its codec's name")
    name = kind.__name__.lower() if name is None else name
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"{name!r} cannot be a codec's name: small letters, digits and underscores can")
    for function, arguments in (("encode", "values, state"), ("decode", "tensors, shape")):
        if not callable(getattr(kind, function, None)):
            raise InvalidArgument(f"class {kind.__qualname__} has no function {function}(self, {arguments})")
    states = _states_of(kind)
    text = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return Declaration(
        kind,
        name,
        text or f"{kind.__qualname__} of {kind.__module__}, in Python.",
        _options_of(kind),
        states,
        bool(getattr(kind, "error_feedback", True)),
        f"{zlib.crc32((source or _text_of(kind)).encode()):08x}",
    )


def _states_of(kind: type) -> tuple[str, ...]:
    states = getattr(kind, "states", ())
    states = (states,) if isinstance(states, str) else tuple(states)
    for state in states:
        if not isinstance(state, str) or not _NAME.fullmatch(state) or state in (RESIDUAL, "step", "generator"):
            raise InvalidArgument(
                f"class {kind.__qualname__} has a state {state!r}: a state is a name of its own, such as 'momentum'; "
                "HiPress keeps the residual itself"
            )
    return states


def _options_of(kind: type) -> dict[str, Value]:
    options: dict[str, Value] = {}
    if "__init__" not in vars(kind) and kind.__init__ is object.__init__:  # type: ignore[misc]
        return options
    for parameter in list(inspect.signature(kind).parameters.values()):
        wrong = f"class {kind.__qualname__}: option {parameter.name}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise InvalidArgument(f"{wrong} must be an argument with a name and a default")
        if not isinstance(parameter.default, bool | int | float | str):
            raise InvalidArgument(f"{wrong} needs a default that is a bool, an int, a float or a str")
        if parameter.name in OWN_OPTIONS:
            raise InvalidArgument(f"{wrong} is HiPress' own, which every codec with a residual has: leave it out")
        options[parameter.name] = parameter.default
    return options


def _read(codec: str, option: str, text: str, usual: Value) -> Value:
    wanted = type(usual)
    if wanted is bool:
        if text in ("true", "false"):
            return text == "true"
    else:
        try:
            value = wanted(text)
        except ValueError:
            pass
        else:
            if value == value:  # not NaN
                return value
    kind = "true or false" if wanted is bool else f"of type {wanted.__name__}"
    raise InvalidArgument(f"codec {codec}: option {option} is {text}; it must be {kind}")


def _text_of(kind: type) -> str:
    """The text of a class and of its base classes; without one (a class that was typed in) its compiled code."""
    texts = []
    for each in kind.__mro__[:-1]:
        try:
            texts.append(inspect.getsource(each))
        except (OSError, TypeError):
            code = [getattr(part, "__code__", None) for part in vars(each).values()]
            texts += [f"{part.co_code.hex()} {part.co_consts}" for part in code if part is not None]
    return "\n".join(texts)
