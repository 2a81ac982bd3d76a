# SPDX-License-Identifier: Apache-2.0
"""Subcommands that live in other parts of the package, which are imported only when they are asked for."""

from __future__ import annotations

import importlib
from typing import Any

import typer
from typer.core import TyperGroup

#: By name: the module with the command's `app`, and its line in the list of commands.
_ELSEWHERE = {
    "bench": (
        "hipress.secopa.commands.bench",
        "Tell whether compression pays on these ranks: every codec, losing ones too.",
    ),
    "compll": ("hipress.compll.cli", "Check, try, run, build and count codecs written in CompLL's language."),
    "plan": (
        "hipress.secopa.commands.plan",
        "Decide, gradient by gradient, whether to compress it, and how; show, compare and check such plans.",
    ),
    "profile": (
        "hipress.secopa.commands.profile",
        "Measure codecs, links and the engine on the machines of the ranks, to plan with.",
    ),
    "report": (
        "hipress.secopa.commands.report",
        "Write one page about a run, from its trace, its plan and its profile.",
    ),
    "simulate": (
        "hipress.secopa.commands.simulate",
        "Simulate a step on other clusters: more hosts, another network.",
    ),
}
#: A limit that no sentence reaches.
_WHOLE = 1000


class WithCommandsElsewhere(TyperGroup):
    """A group of commands that completes the options of the other parts' commands like those of its own."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted([*super().list_commands(ctx), *_ELSEWHERE])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, about = _ELSEWHERE[cmd_name]
        command = typer.main.get_command(importlib.import_module(module).app)
        command.name, command.short_help = cmd_name, about
        for one in getattr(command, "commands", {}).values():
            one.short_help = one.short_help or one.get_short_help_str(limit=_WHOLE)
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Whole sentences: the default cuts them at the width of the terminal. It imports no other part."""
        own = {name: super(WithCommandsElsewhere, self).get_command(ctx, name) for name in super().list_commands(ctx)}
        lines = {name: command.get_short_help_str(limit=_WHOLE) for name, command in own.items() if command is not None}
        lines |= {name: about for name, (_, about) in _ELSEWHERE.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(lines.items()))
