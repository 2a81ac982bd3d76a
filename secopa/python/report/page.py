# SPDX-License-Identifier: Apache-2.0
"""The whole page: one file that needs no other, no script and no network."""

from __future__ import annotations

from hipress.secopa.report import sections
from hipress.secopa.report.markup import Markup, element, joined
from hipress.secopa.report.plan_section import costs, decisions
from hipress.secopa.report.run import Run
from hipress.secopa.report.style import STYLE

_WORDS = (
    ("rank", "One of the processes that train together. Each has a copy of the model and its own share of the data."),
    ("gradient", "What a step says about how a tensor of the model is to change. Ranks need the average of theirs."),
    ("codec", "How a gradient is written with fewer bytes: a bit per value, or only its largest values."),
    ("encode, decode, add up", "Making the short form, reading it, and adding several ranks' gradients."),
    ("parts (K)", "A gradient is cut into so many, so that one is sent while another is encoded or added up."),
    (
        "way (topology)",
        "Who sends to whom. ps: each part is added up by one rank, which sends the sum to all. ring: parts go round, "
        "and everybody adds. allgather: everybody sends everything to everybody. hierarchical: ranks of a host add up "
        "first.",
    ),
    ("group", "Small gradients that travel as one, as each message costs something, however small it is."),
)


def page(run: Run) -> str:
    """As HTML. Raises InvalidArgument if the trace shows no step."""
    title = "A training run" if run.plan is None or not run.plan.model else f"A training run of {run.plan.model}"
    parts = [
        element("h1", title),
        element("p", "HiPress averages the gradients of several processes that train one model.", class_="soft"),
        sections.summary(run),
        sections.where_time_goes(run),
        sections.what_happened_when(run),
        sections.bytes_saved(run),
        sections.predicted_and_measured(run),
        decisions(run),
    ]
    if run.profile is not None:
        parts.append(costs(run.profile))
    words = joined(joined([element("dt", word), element("dd", said)]) for word, said in _WORDS)
    parts.append(element("section", element("h2", "Words"), element("dl", words), id="words"))
    # Nothing may be loaded, whatever is in a name: the browser itself sees to that.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"{element('title', title)}{element('style', Markup(STYLE))}"
    )
    body = element("body", joined(joined([part, "\n"]) for part in parts))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n{body}</html>\n'
