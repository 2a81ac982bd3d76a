# SPDX-License-Identifier: Apache-2.0
"""`hipress codec`: checks and compares codecs, in Python, in CompLL and built-in ones."""

from __future__ import annotations

from typing import Annotated

import typer

from hipress._library import load_core
from hipress.codecs.named import codec_named
from hipress.errors import HipressError

app = typer.Typer(help="Check and compare codecs.", no_args_is_help=True, add_completion=False, rich_markup_mode=None)
_CODEC = "A codec's name, a .cll file, or module:Class; options in parentheses."


@app.command()
def check(codec: Annotated[str, typer.Argument(metavar="CODEC", help=_CODEC)]) -> None:
    """Try a codec on awkward gradients. A law that it breaks is named, and the exit code is 1."""
    from hipress.codecs.laws import breaches, facts

    try:
        text = codec_named(codec)
        made, again = load_core().create_codec(text), load_core().create_codec(text)
        broken, known = breaches(made, again), facts(made)
    except HipressError as error:
        typer.echo(f"hipress: {error}", err=True)
        raise typer.Exit(2) from None
    for breach in broken:
        typer.echo(f"{text} breaks a law: {breach.law}\n  {breach.how}")
    typer.echo(
        f"{text}: {known.bits_per_value:.2f} bits per value, squared error {known.error:.2g} of normal values, "
        f"states: {', '.join(made.states) or 'none'}" + ("; values of about 1e30 become infinite" * known.overflows)
    )
    if broken:
        raise typer.Exit(1)
    typer.echo(f"{text} keeps all laws")


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="CODEC", help=_CODEC)],
    second: Annotated[str, typer.Argument(metavar="CODEC", help="The other one.")],
    tolerance: Annotated[
        float, typer.Option(metavar="T", help="The greatest difference, by the greatest value of a gradient.")
    ] = 1e-6,
) -> None:
    """Encode awkward gradients with two codecs. If decoded values or residuals differ, the exit code is 1."""
    from hipress.codecs.comparison import difference

    try:
        texts = [codec_named(first), codec_named(second)]
        found = difference(*(load_core().create_codec(text) for text in texts))
    except HipressError as error:
        typer.echo(f"hipress: {error}", err=True)
        raise typer.Exit(2) from None
    if found.size > tolerance:
        typer.echo(f"{' and '.join(texts)} differ by {found.size:.2g} of the greatest value\n  {found.where}")
        raise typer.Exit(1)
    typer.echo(f"{' and '.join(texts)} agree: the greatest difference is {found.size:.2g} of the greatest value")
