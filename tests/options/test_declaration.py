# SPDX-License-Identifier: Apache-2.0
"""Functions accept, refuse and document the options that a declaration lists."""

import inspect
from typing import Annotated, Any, TypedDict

import pytest

from hipress.errors import InvalidArgument
from hipress.options.declaration import Option, declared, filled
from hipress.options.signatures import in_order, takes
from hipress.options.tables import table_of_arguments


class Base(TypedDict, total=False):
    pieces: Annotated[int, Option("Into how many pieces a {thing} is split.", default=2, at_least=1, at_most=9)]


class Options(Base, total=False):
    factor: Annotated[float, Option("The {thing} is multiplied by it.", default=0.5, above=0)]
    way: Annotated[str, Option("Which way it takes.", default="left", one_of=("left", "right"))]


@in_order("subject factor pieces")
@takes(Options, thing="cake")
def share(subject: str, **options: Any) -> dict[str, Any]:
    """Shares.

    Arguments:
        subject: what is shared.
        {options}
    """
    return {"subject": subject, **filled(Options, options)}


def test_bases_declare_their_options_first() -> None:
    assert list(declared(Options)) == ["pieces", "factor", "way"]
    assert declared(Options)["pieces"].default == 2


def test_what_is_not_given_has_its_default() -> None:
    assert share("a") == {"subject": "a", "pieces": 2, "factor": 0.5, "way": "left"}


def test_positional_arguments_come_in_the_given_order() -> None:
    assert share("a", 3.0, 4) == {"subject": "a", "pieces": 4, "factor": 3.0, "way": "left"}
    assert share(subject="a", pieces=5)["pieces"] == 5
    with pytest.raises(TypeError, match="takes 3 positional arguments; 4 were given"):
        share("a", 1.0, 2, "left")
    with pytest.raises(TypeError, match="two values for argument 'factor'"):
        share("a", 1.0, factor=2.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pieces": 0}, "pieces=0 is too small: expected at least 1"),
        ({"pieces": 10}, "pieces=10 is too large: expected at most 9"),
        ({"factor": 0.0}, "factor=0.0 is too small: expected more than 0"),
        ({"factor": float("nan")}, "factor=nan is too small"),
        ({"way": "up"}, "way='up' does not exist; choose left or right"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        share("a", **given)


def test_a_name_that_is_not_declared_is_refused_with_the_names() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'peaces'; the options are pieces, factor, way"):
        share("a", peaces=1)


def test_signature_and_docstring_show_the_declaration() -> None:
    parameters = inspect.signature(share).parameters
    assert list(parameters) == ["subject", "factor", "pieces", "way"]
    assert [parameters[name].default for name in ("factor", "pieces", "way")] == [0.5, 2, "left"]
    assert parameters["way"].kind is inspect.Parameter.KEYWORD_ONLY
    assert parameters["pieces"].annotation is int
    assert share.__doc__ is not None
    assert "        pieces: Into how many pieces a cake is split.\n" in share.__doc__


def test_a_table_has_a_row_for_each_option() -> None:
    assert table_of_arguments(declared(Options), thing="cake").splitlines()[2:] == [
        "| `pieces` | 2 | Into how many pieces a cake is split. |",
        "| `factor` | 0.5 | The cake is multiplied by it. |",
        "| `way` | `left` | Which way it takes. |",
    ]
