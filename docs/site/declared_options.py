# SPDX-License-Identifier: Apache-2.0
"""Shows the declared options of functions with the decorator @takes(Options) in the reference.

hipress.options.signatures does the same at run time. The reference is made without an import of the package, because no
environment has all frameworks. So this module reads the declarations from the sources.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import griffe

_MARK = re.compile(r"^( *)\{([\w, ]+)\}$", re.MULTILINE)
#: Several arguments with one paragraph, up to the next line with the same indentation.
_SEVERAL = re.compile(r"^( +)(\w+(?:, \w+)+): (.*(?:\n\1 +.*)*)$", re.MULTILINE)
_DECORATORS = {"takes", "takes_all_of"}


@dataclass(frozen=True)
class Declared:
    """One option of the source text."""

    kind: str
    about: str
    default: str | None


class DeclaredOptions(griffe.Extension):
    """Replaces `**options` and "{options}" of every decorated function by the declared options."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Processes the whole package, because a declaration may be in another module than its function."""
        for decorated in _documented(pkg):
            if decorated.docstring is not None:
                decorated.docstring.value = _SEVERAL.sub(_one_by_one, decorated.docstring.value)
            for decorator in decorated.decorators:
                call = _parsed(decorator.value)
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _DECORATORS:
                    _show(decorated, call)


def _documented(parent: griffe.Module | griffe.Class) -> Iterator[griffe.Function | griffe.Class]:
    for member in parent.members.values():
        if member.is_alias:
            continue
        if isinstance(member, griffe.Function | griffe.Class):
            yield member
        if isinstance(member, griffe.Module | griffe.Class):
            yield from _documented(member)


def _one_by_one(shared: re.Match[str]) -> str:
    """Repeats the paragraph for each argument, because the reference has a row for each."""
    return "\n".join(f"{shared[1]}{name}: {shared[3]}" for name in shared[2].split(", "))


def _show(decorated: griffe.Function | griffe.Class, call: ast.Call) -> None:
    kind = _resolved(decorated, ast.unparse(call.args[0]))
    assert isinstance(kind, griffe.Class), f"{decorated.path} takes the options of {ast.unparse(call.args[0])}"
    options = _declared(kind)
    if isinstance(decorated, griffe.Function):
        _show_keywords(decorated, options)
    if decorated.docstring is not None:
        decorated.docstring.value = _described(decorated.docstring.value, options, _words(decorated, call))


def _show_keywords(function: griffe.Function, options: dict[str, Declared]) -> None:
    own = [each for each in function.parameters if each.kind is not griffe.ParameterKind.var_keyword]
    if len(own) == len(function.parameters):
        return
    keyword_only = griffe.ParameterKind.keyword_only
    keywords = [
        griffe.Parameter(name, annotation=each.kind, kind=keyword_only, default=each.default)
        for name, each in options.items()
        if name not in {parameter.name for parameter in own}
    ]
    function.parameters = griffe.Parameters(*own, *keywords)


def _words(decorated: griffe.Function | griffe.Class, call: ast.Call) -> dict[str, str]:
    """The framework's words, from the decorator's keywords and dictionaries of keywords."""
    words: dict[str, str] = {}
    for keyword in call.keywords:
        if keyword.arg is not None:
            words[keyword.arg] = ast.literal_eval(keyword.value)
            continue
        constant = _resolved(decorated, ast.unparse(keyword.value))
        assert isinstance(constant, griffe.Attribute)
        words.update(ast.literal_eval(str(constant.value)))
    return words


def _declared(kind: griffe.Class) -> dict[str, Declared]:
    """The options of a class and its bases, by name."""
    found: dict[str, Declared] = {}
    for base in kind.bases:
        known = _resolved(kind, str(base))
        if isinstance(known, griffe.Class):
            found.update(_declared(known))
    for name, attribute in kind.attributes.items():
        annotation = _parsed(attribute.annotation)
        if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
            found[name] = _option(annotation.slice, None if attribute.value is None else str(attribute.value))
    return found


def _option(annotated: ast.expr, default: str | None) -> Declared:
    assert isinstance(annotated, ast.Tuple)
    kind, option = annotated.elts[:2]
    assert isinstance(option, ast.Call)
    for keyword in option.keywords:
        if keyword.arg == "default":
            default = ast.unparse(keyword.value)
    return Declared(ast.unparse(kind), ast.literal_eval(option.args[0]), default)


def _described(docstring: str, options: dict[str, Declared], words: dict[str, str]) -> str:
    def paragraphs(mark: re.Match[str]) -> str:
        names = list(options) if mark[2] == "options" else [name.strip() for name in mark[2].split(",")]
        return "\n".join(f"{mark[1]}{name}: {_in_words(options[name].about, words)}" for name in names)

    return _MARK.sub(paragraphs, docstring)


def _in_words(text: str, words: dict[str, str]) -> str:
    for word, meant in words.items():
        text = text.replace("{" + word + "}", meant)
    return text


def _resolved(place: griffe.Function | griffe.Class, name: str) -> griffe.Object | None:
    """The object of a name at a place; None if it is outside the package."""
    try:
        found = place.modules_collection[place.resolve(name)]
        return found.final_target if found.is_alias else found
    except (KeyError, griffe.GriffeError):
        return None


def _parsed(expression: Any) -> ast.expr | None:
    return None if expression is None else ast.parse(str(expression), mode="eval").body
