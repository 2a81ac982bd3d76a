# SPDX-License-Identifier: Apache-2.0
"""The whole page: one HTML file without other files, scripts and network access."""

from __future__ import annotations

from hipress.secopa.report import sections
from hipress.secopa.report.markup import Markup, element, joined
from hipress.secopa.report.plan_section import costs, decisions
from hipress.secopa.report.run import Run
from hipress.secopa.report.style import STYLE

_WORDS = (
    ("rank", "One of the processes that train together. Each has a copy of the model and its own share of the data."),
    ("gradient", "The direction in which a step changes a tensor of the model. The ranks average their gradients."),
    ("codec", "A method to store a gradient in fewer bytes, such as one bit per value, or only the largest values."),
    ("encode, decode, merge", "A codec compresses values, restores them, and adds the values of several ranks."),
    ("partitions (K)", "The pieces of a gradient: one piece is sent while another is encoded or merged."),
    (
        "topology",
        "The scheme of the messages. ps: one rank per partition merges it and sends the sum to all. ring: partitions "
        "pass from rank to rank, and each rank adds its values. allgather: each rank sends its values to all others. "
        "hierarchical: the ranks of a host add their values first.",
    ),
    ("group", "Small gradients that are synchronised as one tensor, which saves messages."),
)


def page(run: Run) -> str:
    """The HTML text. Raises InvalidArgument if the trace has no step."""
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
    # With this policy a browser loads nothing, even if a name contained markup.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"{element('title', title)}{element('style', Markup(STYLE))}"
    )
    body = element("body", joined(joined([part, "\n"]) for part in parts))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n{body}</html>\n'
