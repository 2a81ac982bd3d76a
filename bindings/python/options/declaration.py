# SPDX-License-Identifier: Apache-2.0
"""The declaration of an option, and functions that read a class with declared options.

A class declares its options as annotated fields. A dataclass gives the default in the usual way; a TypedDict, which
types the keyword arguments of a function, gives it in the Option:

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        timeout: Annotated[float, Option("Seconds until …", above=0)] = 600.0

    class Travel(TypedDict, total=False):
        codec: Annotated[str, Option("How gradients are compressed", default="none")]

Modules with such classes must not import `annotations` from `__future__`: the annotations are read at run time.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ForwardRef, get_args, get_origin

from hipress.errors import InvalidArgument

#: The value of Option.default if the dataclass field has the default, or if the option has none.
_NOT_HERE = object()


@dataclass(frozen=True)
class Option:
    """The declaration of an option, without its name and its type."""

    about: str
    """The meaning, for docstrings and tables: sentences without the name."""
    default: Any = _NOT_HERE
    """The default of an option in a TypedDict."""
    above: float | None = None
    """Values must be larger than this."""
    at_least: float | None = None
    """The smallest valid value."""
    at_most: float | None = None
    """The largest valid value."""
    one_of: tuple[str, ...] = ()
    """The valid texts; empty: all."""
    variable: str = ""
    """The environment variable; empty: "HIPRESS_" and the name in capitals. Only options of init() have variables."""
    default_text: str = ""
    """The default in tables, if it is not a fixed value."""
    same_on_all_ranks: bool = False
    """Whether init() compares the values of all ranks."""
    of_engine: bool = False
    """Whether the core's engine takes the option under the same name."""


@dataclass(frozen=True)
class Declared:
    """One option of a class."""

    name: str
    kind: Any
    """The type in the annotation of the class."""
    default: Any
    option: Option

    @property
    def variable(self) -> str:
        """The environment variable."""
        return self.option.variable or f"HIPRESS_{self.name.upper()}"

    @property
    def has_range(self) -> bool:
        """Whether some values are invalid."""
        option = self.option
        return bool(option.one_of) or not option.above is option.at_least is option.at_most is None

    @property
    def kind_text(self) -> str:
        """The type as Python code."""
        if isinstance(self.kind, ForwardRef):
            return self.kind.__forward_arg__
        if get_origin(self.kind) is None and isinstance(self.kind, type):
            return self.kind.__name__
        return str(self.kind).replace("typing.", "").replace("collections.abc.", "")

    def check(self, value: Any, said: str = "") -> None:
        """Raises InvalidArgument, with the valid values, if `value` is out of range.

        `said`: the option and value as the error repeats them; default: "name=value".
        """
        option = self.option
        if not self.has_range or (value is None and self.default is None):
            return
        said = said or f"{self.name}={value!r}"
        number = _number(value)
        if option.one_of and value not in option.one_of:
            raise InvalidArgument(f"{said} does not exist; choose {' or '.join(option.one_of)}")
        if number is None:
            return
        if option.above is not None and not number > option.above:
            raise InvalidArgument(f"{said} is too small: expected more than {option.above:g}")
        if option.at_least is not None and not number >= option.at_least:
            raise InvalidArgument(f"{said} is too small: expected at least {option.at_least:g}")
        if option.at_most is not None and number > option.at_most:
            raise InvalidArgument(f"{said} is too large: expected at most {option.at_most:g}")


def _number(value: Any) -> float | None:
    """The value as a number; None for a value that has no range."""
    try:
        return None if isinstance(value, str | bool) else float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return None


@functools.cache
def declared(kind: type) -> Mapping[str, Declared]:
    """The options that `kind` and its bases declare, by name, in order of declaration. Other fields are left out."""
    found: dict[str, Declared] = {}
    for base in reversed(_bases(kind)):
        for name, annotation in inspect.get_annotations(base).items():
            option = next((each for each in get_args(annotation)[1:] if isinstance(each, Option)), None)
            if option is None:
                continue
            default = vars(base).get(name) if option.default is _NOT_HERE else option.default
            found[name] = Declared(name, get_args(annotation)[0], default, option)
    return found


def _bases(kind: type) -> tuple[type, ...]:
    """The classes with annotations. A TypedDict has its bases' annotations itself and is not derived from them."""
    return (kind,) if hasattr(kind, "__total__") else kind.__mro__


def filled(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of `kind` with the values of `given`, or else their defaults. Checks the range of every value.

    Raises InvalidArgument for a value out of range, or of another type than text where text is meant; TypeError for a
    name that `kind` does not declare.
    """
    defaults, bounded, texts = _prepared(kind)
    if unknown := given.keys() - defaults.keys():
        raise TypeError(f"unexpected keyword argument '{min(unknown)}'; the options are {', '.join(defaults)}")
    for each in texts:
        if each.name in given:
            check_text(each.name, given[each.name])
    for each in bounded:
        if each.name in given:
            each.check(given[each.name])
    return {**defaults, **given}


def check_text(name: str, value: Any) -> None:
    """Raises InvalidArgument unless the option's value is a text, or a dict of texts, or None in place of a dict."""
    if isinstance(value, Mapping) and name.endswith("_for"):
        for key, each in value.items():
            check_text(f"{name}[{key!r}]", each)
    elif not isinstance(value, str) and not (value is None and name.endswith("_for")):
        expected = "a dict with texts" if name.endswith("_for") else "a text"
        raise InvalidArgument(f"{name}={value!r} is a {type(value).__name__}: expected {expected}")


@functools.cache
def _prepared(kind: type) -> tuple[Mapping[str, Any], Sequence[Declared], Sequence[Declared]]:
    """The defaults, which are in range, the options with a range, and the options that are texts; cached, as each
    all-reduce needs them."""
    options = declared(kind)
    bounded = [each for each in options.values() if each.has_range]
    texts = [each for each in options.values() if each.kind in (str, Mapping[str, str] | None)]
    return {name: each.default for name, each in options.items()}, bounded, texts
