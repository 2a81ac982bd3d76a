# SPDX-License-Identifier: Apache-2.0
"""`hipress compll`: check, run, build and count programs. Each command imports the modules that it needs."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec

import typer

from hipress.errors import HipressError, InvalidArgument

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

app = typer.Typer(
    help="Codecs written in CompLL's language.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
_P = ParamSpec("_P")


def _explained(command: Callable[_P, None]) -> Callable[_P, None]:
    """Prints errors of programs, files and payloads without a traceback."""

    @functools.wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> None:
        from hipress.compll.ir.source import CompileError

        try:
            command(*args, **kwargs)
        except CompileError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
        except HipressError as error:
            typer.echo(f"hipress: {error}", err=True)
            raise typer.Exit(2) from None
        except MemoryError as error:
            typer.echo(f"hipress: there is not enough memory: {error}", err=True)
            raise typer.Exit(2) from None

    return wrapped


@app.command()
@_explained
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .cll file.")],
    part: Annotated[bool, typer.Option("--part", help="The file need not have both encode and decode.")] = False,
) -> None:
    """Check a program. An error has a line, a column and a hint, and the exit code is 1."""
    from hipress.compll.check.library import compile_file

    program = compile_file(file, complete=not part)
    shown = [f"{p.name}={'' if p.default is None else p.default}" for p in program.params]
    typer.echo(f"{file}: codec '{program.name}' is fine; parameters: {', '.join(shown) or 'none'}")


@app.command()
@_explained
def run(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A .cll file, or the name of a built-in codec.")],
    input: Annotated[Path, typer.Option("--input", help="The gradient (.npy), or with --decode a message.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file for the message, or for the decoded .npy.")],
    decode: Annotated[bool, typer.Option("--decode", help="Decode a message instead.")] = False,
    count: Annotated[int, typer.Option(metavar="N", help="With --decode: how many elements.")] = -1,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE.npy", help="A state; read if it exists, and written. May be repeated."),
    ] = None,
    param: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="May be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of random numbers.")] = 0,
    step: Annotated[int, typer.Option(help="Step, for random numbers.")] = 0,
    tensor: Annotated[int, typer.Option(help="Tensor, for random numbers.")] = 0,
) -> None:
    """Encode or decode with the reference interpreter."""
    import numpy as np

    from hipress.compll import Interpreter, builtin_files, compile_builtin, compile_file

    program = compile_builtin(file) if file in builtin_files() else compile_file(file, complete=False)
    codec = Interpreter(program, **_pairs(param, "--param"))
    if decode:
        if count < 0:
            raise InvalidArgument("--decode needs --count: a message does not say how many elements it is for")
        np.save(output, codec.decode(_bytes(input), count))
        return
    gradient = _array(input)
    states = codec.new_state(len(gradient))
    files = {name: Path(path) for name, path in _pairs(state, "--state").items()}
    for name, path in files.items():
        if name not in states:
            raise InvalidArgument(f"there is no state '{name}'; the states are: {', '.join(states) or 'none'}")
        if path.exists():
            states[name] = _array(path)
    message = codec.encode(gradient, states, seed=seed, step=step, tensor=tensor)
    for name, path in files.items():
        np.save(path, states[name])
    output.write_bytes(message)
    typer.echo(f"{len(gradient)} elements, {len(message)} bytes (at most {codec.max_encoded_bytes(len(gradient))})")


@app.command("try", context_settings={"ignore_unknown_options": True})  # a negative value is no option
@_explained
def try_values(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A .cll file, or the name of a built-in codec.")],
    values: Annotated[list[float], typer.Argument(metavar="VALUES", help="The values of a gradient.")],
    steps: Annotated[int, typer.Option(metavar="N", help="How often this gradient is encoded; states go on.")] = 1,
    param: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="May be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of random numbers.")] = 0,
) -> None:
    """Show the message of a few values, what it decodes to, and the states."""
    from hipress.compll.tryout import lines

    for line in lines(file, values, steps=steps, seed=seed, params=_pairs(param, "--param")):
        typer.echo(line)


class Framework(str, enum.Enum):
    """The frameworks that `build` writes operators for."""

    TORCH = "torch"
    TENSORFLOW = "tensorflow"
    MXNET = "mxnet"
    ALL = "all"


@app.command()
@_explained
def build(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .cll file.")],
    body: Annotated[bool, typer.Option("--body", "-b", help="Write the codec's C++.")] = False,
    wrapper: Annotated[bool, typer.Option("--wrapper", "-w", help="Write the C++ of a framework's operators.")] = False,
    register: Annotated[bool, typer.Option("--register", "-r", help="Write the operators' registration.")] = False,
    framework: Annotated[
        Framework, typer.Option("--framework", "-f", help="The framework for which -w and -r write operators.")
    ] = Framework.TORCH,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder for the files.")] = Path(),
    library: Annotated[
        bool, typer.Option("--library", help="Compile the codec to a library that hipress.load_codec loads.")
    ] = False,
) -> None:
    """Write a program's C++, and the C++ that makes it an operator of a framework.

    Without -b, -w, -r and --library: body, wrapper and registration.
    """
    from hipress.compll.build.codec import FRAMEWORKS, read_codec, write_library, write_sources

    wanted = {"body": body, "wrapper": wrapper, "register": register}
    parts = [name for name, chosen in wanted.items() if chosen or not (any(wanted.values()) or library)]
    codec = read_codec(file)
    written = write_sources(codec, parts, FRAMEWORKS if framework is Framework.ALL else [framework.value], output)
    if library:
        written.append(write_library(codec, output))
    for path in written:
        typer.echo(f"wrote {path}")


@app.command()
@_explained
def stats(
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILES]", help="Default: the built-ins.")] = None,
) -> None:
    """Count lines of logic and functions, operators, and lines of integration."""
    from hipress.compll.check.library import builtin_files, read
    from hipress.compll.frontend.stats import count

    typer.echo(f"{'codec':<16}{'logic':>7}{'functions':>11}{'total':>7}{'operators':>11}{'integration':>13}")
    for path in files or builtin_files().values():
        c = count(read(path), str(path))
        total = c.logic + c.functions
        typer.echo(f"{path.stem:<16}{c.logic:>7}{c.functions:>11}{total:>7}{c.operators:>11}{c.integration:>13}")


def _pairs(items: list[str] | None, option: str) -> dict[str, str]:
    pairs = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if not name or not equals:
            raise InvalidArgument(f"{option} {item}: expected NAME=VALUE")
        pairs[name] = value
    return pairs


def _array(path: Path) -> NDArray[np.float32]:
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False)
    # A file of a few bytes can claim to have any number of values.
    except (OSError, ValueError, MemoryError) as error:
        raise InvalidArgument(f"cannot read {path}: {error}") from None
    if array.dtype.kind not in "fiub":
        raise InvalidArgument(f"{path} has elements of type {array.dtype}: programs take real numbers")
    return np.ascontiguousarray(array, np.float32).reshape(-1)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error}") from None
