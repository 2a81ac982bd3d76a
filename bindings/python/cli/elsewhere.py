# SPDX-License-Identifier: Apache-2.0
"""Subcommands of other parts of the package. A part is imported only when the user calls its command."""

from __future__ import annotations

import importlib
from typing import Any

import typer
from typer.core import TyperGroup

#: The module with each command's `app`, and the command's line in the list of commands, by name.
_ELSEWHERE = {
    "bench": (
        "hipress.secopa.commands.bench",
        "Measure with every codec whether compression saves time on these ranks.",
    ),
    "codec": ("hipress.codecs.cli", "Check codecs, also your own, against the laws of all codecs; compare two."),
    "compll": ("hipress.compll.cli", "Check, try, run, build and count codecs written in CompLL's language."),
    "evidence": (
        "hipress.secopa.commands.evidence",
        "Show what trainings have proved of each codec, by kind of optimizer.",
    ),
    "plan": (
        "hipress.secopa.commands.plan",
        "Decide for each gradient whether and how to compress it; show, compare and check such plans.",
    ),
    "profile": (
        "hipress.secopa.commands.profile",
        "Measure codecs, links and the engine on the ranks' machines, as the input of plans.",
    ),
    "report": (
        "hipress.secopa.commands.report",
        "Write one page about a job, from its trace, its plan and its profile.",
    ),
    "simulate": (
        "hipress.secopa.commands.simulate",
        "Simulate a step on other clusters: more hosts, another network.",
    ),
}
#: A width in characters that is above the length of every sentence.
_WHOLE = 1000


class WithCommandsElsewhere(TyperGroup):
    """A group of commands. It completes the options of the other parts' commands, too."""

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
        """Writes whole sentences, which the default cuts at the width of the terminal. It imports no other part."""
        own = {name: super(WithCommandsElsewhere, self).get_command(ctx, name) for name in super().list_commands(ctx)}
        lines = {name: command.get_short_help_str(limit=_WHOLE) for name, command in own.items() if command is not None}
        lines |= {name: about for name, (_, about) in _ELSEWHERE.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(lines.items()))
