# SPDX-License-Identifier: Apache-2.0
"""The command `hipress`. A subcommand imports its modules only when it runs, so that a job starts fast."""

from __future__ import annotations

import enum
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from hipress import __version__
from hipress.cli.elsewhere import WithCommandsElsewhere
from hipress.errors import HipressError

if TYPE_CHECKING:
    from hipress.launch.launcher import LaunchOptions

app = typer.Typer(
    name="hipress",
    cls=WithCommandsElsewhere,
    help="Compression-aware gradient synchronisation for data-parallel training.",
    no_args_is_help=True,
    # Rich markup would read the "[rank]" in the help as a style.
    rich_markup_mode=None,
    # A pretty traceback shows local variables, which include the environment of the job.
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hipress {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


# The first word that is not an option and all later words are the command; typer does not parse them.
@app.command(context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[
        list[str], typer.Argument(metavar="CMD...", help="The program of each rank, with its arguments.")
    ],
    size: Annotated[
        int | None, typer.Option("-np", "-n", "--ranks", metavar="N", help="How many ranks to start.")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            "-H", "--hosts", metavar="H1:N1,H2:N2", help="Start ranks on these hosts, with the launcher of --launcher."
        ),
    ] = None,
    launcher: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With -H: horovodrun, mpirun or srun. Default: the first one installed."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", metavar="K[=V]", help="Set a variable for all ranks, or hand this one on. May be repeated."
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="S", help="End the job after S seconds, with exit code 124."),
    ] = None,
    grace: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds between asking a rank to end and killing it; 5.")
    ] = None,
    prefix: Annotated[
        bool | None, typer.Option("--prefix/--no-prefix", help='Begin each line with "[rank] " (default).')
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write each rank's output to DIR/rank-R.out and rank-R.err."),
    ] = None,
    elastic: Annotated[
        bool, typer.Option("--elastic", help="Go on when a rank is lost, and let others come in (hipress.elastic).")
    ] = False,
    min_np: Annotated[
        int | None, typer.Option(metavar="N", help="With --elastic: wait while there are fewer ranks; 1.")
    ] = None,
    max_np: Annotated[
        int | None, typer.Option(metavar="N", help="With --elastic: the most ranks; as many as -np.")
    ] = None,
    elastic_timeout: Annotated[
        float | None, typer.Option(metavar="S", help="With --elastic: seconds to wait for enough ranks; 600.")
    ] = None,
    host_discovery_script: Annotated[
        str | None,
        typer.Option(
            metavar="PROGRAM", help="With --elastic: a program that prints the hosts and their ranks, host1:4."
        ),
    ] = None,
    slots_per_host: Annotated[
        int | None,
        typer.Option(metavar="N", help="With --elastic: the ranks of a host that it prints without a number."),
    ] = None,
    restarts: Annotated[
        int | None, typer.Option(metavar="N", help="With --elastic: how often a lost process is started again; 10.")
    ] = None,
) -> None:
    """Run CMD as N ranks on this machine.

    Each rank leads its own process group, and rank 0 reads standard input. When a rank fails, hipress run ends the
    other ranks and exits with the code of the rank that failed first.

    With --elastic the others go on from the last commit instead, and a new process takes the place of the lost one.

    With -H another launcher starts the ranks, on other hosts. That launcher then has the output and the exit code.
    """
    variables: dict[str, str] = {}
    for item in env or ():
        name, equals, value = item.partition("=")
        if not name or not (equals or name in os.environ):
            _fail(f"--env {item}: expected K=V, such as --env NCCL_DEBUG=INFO, or a variable that is set here")
        variables[name] = value if equals else os.environ[name]
    here_only: dict[str, Any] = {"--timeout": timeout, "--grace": grace, "--prefix": prefix, "--output-dir": output_dir}
    elastic_only: dict[str, Any] = {
        "--min-np": min_np,
        "--max-np": max_np,
        "--elastic-timeout": elastic_timeout,
        "--host-discovery-script": host_discovery_script,
        "--slots-per-host": slots_per_host,
        "--restarts": restarts,
    }
    # As with horovodrun, each of its options asks for an elastic job.
    elastic = elastic or any(value is not None for value in elastic_only.values())
    here_only |= {"--elastic": elastic or None, **elastic_only}
    try:
        if hosts is not None:
            given = [option for option, value in here_only.items() if value is not None]
            if given:
                _fail(f"{given[0]} is for jobs on this machine; with -H use the launcher's own option")
            _hand_over(tuple(command), hosts, size, launcher, variables)
        if launcher is not None:
            _fail("--launcher is for jobs on other machines: expected -H, too")
        if size is None:
            _fail("expected the number of ranks: -np N")
        from hipress.launch.launcher import LaunchOptions, launch

        options = LaunchOptions(
            command=tuple(command),
            size=size,
            env=variables,
            timeout=timeout,
            grace=5.0 if grace is None else grace,
            prefix=prefix is not False,
            output_dir=output_dir,
        )
        code = launch(options) if not elastic else _launch_elastic(options, elastic_only)
    except HipressError as error:
        _fail(str(error))
    raise typer.Exit(code)


def _launch_elastic(options: LaunchOptions, given: dict[str, Any]) -> int:
    """`given`: the options of elastic jobs, by their names on the command line; None: the default."""
    from hipress.launch.elastic.launcher import ElasticOptions, launch_elastic

    def chosen(name: str, default: Any) -> Any:
        return default if given[name] is None else given[name]

    elastic = ElasticOptions(
        least=chosen("--min-np", 1),
        most=chosen("--max-np", options.size),
        timeout=chosen("--elastic-timeout", ElasticOptions.timeout),
        restarts=chosen("--restarts", ElasticOptions.restarts),
        discovery=given["--host-discovery-script"],
        slots=given["--slots-per-host"],
    )
    return launch_elastic(options, elastic)


def _hand_over(
    command: tuple[str, ...], hosts: str, size: int | None, launcher: str | None, variables: dict[str, str]
) -> NoReturn:
    """Replaces this process by the other launcher, which then handles signals and returns the exit code."""
    from hipress.launch.handover import HandoverOptions, environment, hand_over

    started = hand_over(HandoverOptions(command, hosts, size, launcher, variables))
    os.execve(started[0], started, environment())


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs and bug reports.")] = False,
    ranks: Annotated[
        int, typer.Option("-np", metavar="N", min=1, help="Ranks on this host, for which shared memory is computed; 2.")
    ] = 2,
) -> None:
    """Show what this installation has and what it misses, and how to get it.

    The exit code is 0 if the core library works, 1 otherwise.
    """
    from hipress.cli.doctor import examine, print_report

    report = examine(__version__, ranks=ranks)
    print_report(report, as_json=as_json)
    raise typer.Exit(0 if report.ok else 1)


class Buildable(str, enum.Enum):
    """The frameworks for which `build` makes operators. The other frameworks' operators fit all their versions."""

    TENSORFLOW = "tensorflow"


@app.command()
def build(
    framework: Annotated[Buildable, typer.Argument(metavar="FRAMEWORK", help="tensorflow")],
) -> None:
    """Build the operators for the installed version of a framework, in seconds, if HiPress came without them."""
    from hipress.build_tensorflow import build as build_tensorflow
    from hipress.secopa.commands.progress import progress

    try:
        with progress("hipress build") as stage:
            stage(f"compiling the operators for {framework.value}")
            library = build_tensorflow()
    except HipressError as error:
        _fail(str(error))
    typer.echo(f"HiPress' operators for {framework.value}: {library}")


def _fail(message: str) -> NoReturn:
    """Print the message and exit with 2, as for every mistake in a command line."""
    typer.echo(f"hipress: {message}", err=True)
    raise typer.Exit(2)


def main() -> None:
    """The entry point of the command."""
    app()
