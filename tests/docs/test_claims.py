# SPDX-License-Identifier: Apache-2.0
"""A measured figure in a sentence of the README or of a guide is computed here from its result file.

Tables between "benchmarks: begin" and "end" are written from result files (test_benchmarks_page.py), so this test reads
the sentences around them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs import pages

RESULTS = pages.ROOT / "benchmarks" / "results"
PAGES = ["README.md", "docs/faq.md", *sorted(f"docs/guide/{file.name}" for file in Path("docs/guide").glob("*.md"))]
#: A time, a rate, a loss or a ratio that somebody has measured.
FIGURE = re.compile(
    r"\d[\d.,]* ?(×(?! \d)|(ms|ns|nats)\b|GB/s|MB/s)|\b\d[\d.,]* times (as|the|fewer|less|more)\b"
    r"|\ba \d+(th|st|nd|rd)\b|\b\d+\.\d+ (above|below)\b|\b\d+ points\b"
)
#: A sentence with these words says itself that its figures have none.
NO_FILE = "of which no result file was kept"
#: Figures that nobody measured: definitions, settings, and results of papers, which the sentence links to.
NOT_MEASURED = (
    "a round trip of 50 ms",
    "64 × 64",
    "losses more than 0.1 above it are bold",
    "1,024 × 1,024",
    "at least 1.25 times as fast",
    "messages have a 205th of the float32 bytes",  # the size of a coded value
    "Two ranks send a 240th of DiLoCo's bytes, four ranks a 120th, twenty ranks a 24th",  # the formula beside it
)

Rows = dict[str, dict[str, Any]]


def rows(name: str, key: Callable[[dict[str, Any]], str]) -> Rows:
    return {key(row): row for row in json.loads((RESULTS / f"{name}.json").read_text())}


def own() -> Rows:
    return rows("adam-own-seed0", lambda row: f"{row['system']} {row['learning_rate']:g}")


def below_adamw() -> str:
    each = own()
    gains = {
        f"{each[f'ddp {rate}']['loss_nats'] - each[f'OneBitAdam {rate}']['loss_nats']:.2f}" for rate in (0.001, 0.003)
    }
    (gain,) = gains
    share = each["LAMB 0.01"]["bytes"] / each["OneBitAdam 0.001"]["bytes_frozen"]
    return f"`OneBitAdam` ends {gain} nats below AdamW at both learning rates, with a {share:.0f}th of the bytes"


def zero_one() -> str:
    each = own()
    above = each["ZeroOneAdam 0.0003"]["loss_nats"] - each["ddp 0.001"]["loss_nats"]
    assert 1.9 < each["OneBitAdam 0.001"]["bytes_frozen"] / each["ZeroOneAdam 0.0003"]["bytes_frozen"] < 2.1
    return f"`ZeroOneAdam` ends {above:.2f} nats above AdamW at 0.001, with half of `OneBitAdam`'s bytes"


def lamb() -> str:
    each = own()
    above = each["OneBitLamb 0.01"]["loss_nats"] - each["LAMB 0.01"]["loss_nats"]
    adamw = each["LAMB 0.01"]["loss_nats"] - each["ddp 0.001"]["loss_nats"]
    return f"`OneBitLamb` ends {above:.2f} nats above LAMB. LAMB ends {adamw:.2f} nats above AdamW at 0.001"


def demo() -> str:
    each = own()
    assert each["DeMo 0.003"]["loss_nats"] == min(row["loss_nats"] for row in each.values())
    share = each["LAMB 0.01"]["bytes"] / each["DeMo 0.003"]["bytes"]
    return f"`DeMo` has the lowest loss of the table, with a {share:.0f}th of float32's bytes"


def sparseloco() -> str:
    each = rows("diloco-4-100mbit", lambda row: str(row["system"]))
    assert each["diloco"]["steps"] == each["sparseloco"]["steps"] == 4 * each["ddp-bf16"]["steps"]
    equal, whole = "equal_tokens_loss_nats", "loss_nats"
    return (
        f"its loss at the tokens of DDP's {each['ddp-bf16']['steps']} steps is {each['sparseloco'][equal]:.3f} nats, "
        f"`diloco` has {each['diloco'][equal]:.3f} nats and DDP {each['ddp-bf16'][whole]:.3f} nats. With four times "
        f"the tokens it has {each['sparseloco'][whole]:.3f} nats, and `diloco` {each['diloco'][whole]:.3f} nats."
    )


def powersgd() -> str:
    each = rows("optimizers", lambda row: f"{row['codec']} {row['optimizer']}")
    above = each["powersgd sgd"]["loss_nats"] - each["none sgd"]["loss_nats"]
    return f"With rank 1 and plain SGD it ends {above:.3f} nats above no compression in the table above"


def fsdp_losses() -> str:
    seeds = [rows(f"fsdp-loss-help-{seed}", lambda row: str(row["system"])) for seed in range(3)]
    whole, short = ([float(each[system]["loss_nats"]) for each in seeds] for system in ("fsdp", "fsdp-int8"))
    more = 100 * (sum(short) / sum(whole) - 1)
    (short_text, whole_text) = (f"{a:.2f}, {b:.2f} and {c:.2f}" for a, b, c in (short, whole))
    return (
        f"ended with losses of {short_text} nats, and with float32 of {whole_text}, by seed: {more:.1f} % more in the "
        "mean, within the spread of seeds"
    )


#: Sentences by page. The page must have each one, with the figures that the results give.
CLAIMS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("docs/guide/adam.md", below_adamw),
    ("docs/guide/adam.md", zero_one),
    ("docs/guide/adam.md", lamb),
    ("docs/guide/adam.md", demo),
    ("docs/guide/over-the-internet.md", sparseloco),
    ("docs/guide/choosing-a-codec.md", powersgd),
    ("docs/guide/pytorch.md", fsdp_losses),
)


def sentences(page: str) -> Iterator[str]:
    """The sentences of a page outside code, generated blocks and tables, each on one line."""
    text = (pages.ROOT / page).read_text()
    text = re.sub(r"```.*?```|<!-- (\w+): begin.*?<!-- \1: end -->", "\n\n", text, flags=re.DOTALL)
    for part in re.split(r"\n\s*\n|\n(?=[-*|#])", text):
        if not part.lstrip().startswith("|"):
            yield from re.split(r"(?<=[.!?])\s", " ".join(part.split()))


@pytest.mark.parametrize(
    ("page", "claim"), CLAIMS, ids=lambda value: value if isinstance(value, str) else value.__name__
)
def test_a_claim_is_what_the_results_say(page: str, claim: Callable[[], str]) -> None:
    assert claim() in " ".join((pages.ROOT / page).read_text().split())


@pytest.mark.parametrize("page", PAGES)
def test_a_measured_figure_is_one_of_the_claims(page: str) -> None:
    claimed = " ".join(claim() for of, claim in CLAIMS if of == page)
    for sentence in sentences(page):
        rest = "" if NO_FILE in sentence else sentence
        for known in NOT_MEASURED:
            rest = rest.replace(known, "")
        for found in FIGURE.finditer(rest):
            assert found.group() in claimed, (
                f"{page}: {sentence!r} has a measured figure: let update_benchmarks.py write it, or add it to CLAIMS"
            )
