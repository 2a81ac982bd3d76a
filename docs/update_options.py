# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of options in the guides, from the declarations of the options.

python docs/update_options.py                           write
python docs/update_options.py --check                   fail if a page is not in step
"""

from __future__ import annotations

import sys
from pathlib import Path

from hipress.adapter.gradient_options import GradientTravel
from hipress.options.declaration import declared
from hipress.options.runtime import RUNTIME_OPTIONS
from hipress.options.tables import table_of_arguments, table_of_variables
from hipress.torch.ddp.options import WORDS, HookOptions

ROOT = Path(__file__).parents[1]
END = "<!-- options: end -->\n"


def tables() -> dict[tuple[str, str], str]:
    """The tables by page and name."""
    words = {
        "parameter": "parameter",
        "codec_for_example": '`{"embedding.weight": "fp16"}`',
        "plan_names": "",
        "plan_needs": "",
    }
    return {
        ("docs/guide/training.md", "variables"): table_of_variables(RUNTIME_OPTIONS),
        ("docs/guide/training.md", "arguments"): table_of_arguments(declared(GradientTravel), **words),
        ("docs/guide/pytorch.md", "compress"): table_of_arguments(declared(HookOptions), **{**WORDS, **words}),
    }


def main(arguments: list[str]) -> int:
    """Writes or checks the pages. Returns the exit code."""
    for (page, name), table in tables().items():
        path = ROOT / page
        text = path.read_text()
        begin = f"<!-- options: {name} (docs/update_options.py) -->\n"
        before, rest = text.split(begin)
        _, after = rest.split(END, 1)
        written = f"{before}{begin}{table}{END}{after}"
        if "--check" not in arguments:
            path.write_text(written)
        elif written != text:
            print(f"{page} is not in step with the declared options: run python docs/update_options.py")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
