# SPDX-License-Identifier: Apache-2.0
"""Writes the signatures and docstrings of functions from their declared options.

Type checkers see the declaration itself (`**how: Unpack[TravelOptions]`, or the dataclass' own parameters). This module
writes from the same declaration the texts that inspect.signature() and help() show.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, ParamSpec, TypeVar

from hipress.options.declaration import Declared, declared

_P = ParamSpec("_P")
_Result = TypeVar("_Result")
_Function = TypeVar("_Function", bound=Callable[..., Any])

#: A line of a docstring that stands for the paragraphs of options.
_MARK = re.compile(r"^( *)\{([\w, ]+)\}$", re.MULTILINE)
_WIDTH = 120


def takes_all_of(
    kind: Callable[_P, Any], options: Mapping[str, Declared]
) -> Callable[[Callable[..., _Result]], Callable[_P, _Result]]:
    """A decorator: the function takes the fields of the dataclass `kind` by keyword; "{options}" describes them."""

    def decorate(function: Callable[..., _Result]) -> Callable[_P, _Result]:
        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
            return function(*args, **kwargs)

        parameters = [_keyword(each) for each in options.values()]
        _show(call, parameters, inspect.signature(function).return_annotation)
        call.__doc__ = described(function.__doc__ or "", options)
        return call

    return decorate


def takes(kind: type, **words: str) -> Callable[[_Function], _Function]:
    """A decorator for a function with `**how: Unpack[kind]`, where `kind` is a TypedDict with declared options.

    inspect.signature() then shows these options as keywords. In the docstring a line "{options}" becomes the paragraphs
    of all options, and a line "{name, name}" the paragraphs of the named options. `words` replace placeholders such as
    "{parameter}" in the texts.
    """
    options = declared(kind)

    def decorate(function: _Function) -> _Function:
        own = inspect.signature(function)
        fixed = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
        here = {each.name for each in fixed}
        keywords = [_keyword(each) for name, each in options.items() if name not in here]
        if any(each.kind is each.VAR_KEYWORD for each in own.parameters.values()):
            _show(function, [*fixed, *keywords], own.return_annotation)
        function.__doc__ = described(function.__doc__ or "", options, **words)
        return function

    return decorate


def in_order(order: str) -> Callable[[_Function], _Function]:
    """A decorator: the function takes positional arguments in this `order` (names separated by spaces), as in Horovod.

    Type checkers see the function's own signature: its leading parameters by position, the others by keyword.
    """
    names = order.split()

    def decorate(function: _Function) -> _Function:
        own = inspect.signature(function)
        positions = [name for name, each in own.parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
        lead = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(names, positions, strict=False)))

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) > len(names):
                raise TypeError(
                    f"{function.__name__}() takes {len(names)} positional arguments; {len(args)} were given"
                )
            for name, value in zip(names[lead:], args[lead:], strict=False):
                if name in kwargs:
                    raise TypeError(f"{function.__name__}() got two values for argument '{name}'")
                kwargs[name] = value
            return function(*args[:lead], **kwargs)

        positional = [own.parameters[name].replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        rest = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, each in own.parameters.items()
            if name not in names
        ]
        call.__signature__ = own.replace(parameters=[*positional, *rest])  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


def described(docstring: str, options: Mapping[str, Declared], **words: str) -> str:
    """The docstring with the paragraphs of options in place of the marks."""

    def paragraphs(found: re.Match[str]) -> str:
        names = list(options) if found[2] == "options" else [name.strip() for name in found[2].split(",")]
        return "\n".join(_paragraph(options[name], found[1], words) for name in names)

    return _MARK.sub(paragraphs, docstring)


def about(option: Declared, words: Mapping[str, str]) -> str:
    """The option's text with the words of a framework."""
    text = option.option.about
    for word, meant in words.items():
        text = text.replace("{" + word + "}", meant)
    return text


def _paragraph(option: Declared, indent: str, words: Mapping[str, str]) -> str:
    text = f"{option.name}: {about(option, words)}"
    lines = textwrap.wrap(text, _WIDTH - len(indent) - 4, break_long_words=False, break_on_hyphens=False)
    return f"\n{indent}    ".join([indent + lines[0], *lines[1:]])


def _keyword(option: Declared) -> inspect.Parameter:
    annotation = option.kind if isinstance(option.kind, type) else option.kind_text
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=annotation)


def _show(function: Any, parameters: Sequence[inspect.Parameter], returns: Any) -> None:
    function.__signature__ = inspect.Signature(list(parameters), return_annotation=returns)
