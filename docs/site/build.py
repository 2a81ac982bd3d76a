# SPDX-License-Identifier: Apache-2.0
"""Builds the site of the documentation: `make docs` writes it to build/docs/site. Every warning is an error.

    python docs/site/build.py [FOLDER]      site/ and the staged pages/ are made in FOLDER

The pages keep their places in the repository, so their links work in both. Files that a page links to (sources,
results) are copied beside the pages.
"""

from __future__ import annotations

import logging
import re
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from mkdocs import config as mkdocs_config
from mkdocs.commands.build import build

from docs.site import reference

ROOT = Path(__file__).parents[2]
CONFIGURATION = Path(__file__).with_name("mkdocs.yml")
STYLE = Path(__file__).with_name("site.css")
OUTSIDE = (
    "README.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "examples/README.md",
)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)]*)?\)")


def pages() -> list[Path]:
    """The Markdown files of the site, by their paths in the repository."""
    return [*map(Path, OUTSIDE), *sorted(page.relative_to(ROOT) for page in (ROOT / "docs").rglob("*.md"))]


def stage(staged: Path) -> None:
    """Copies the pages and the files that they link to, and writes the reference."""
    shutil.rmtree(staged, ignore_errors=True)
    known = set(pages())
    for page in known:
        text = (ROOT / page).read_text()
        _write(staged / page, _without_folders(page, text, known, staged))
    for page, text in reference.pages().items():
        _write(staged / page, text)
    _copy(STYLE.relative_to(ROOT), staged)


def _without_folders(page: Path, text: str, known: set[Path], staged: Path) -> str:
    """Stages the linked files, and returns the text. A link to a folder becomes plain text: a site lists no folders."""
    inside_code = [match.span() for match in _CODE.finditer(text) if match.group().startswith("```")]

    def with_its_file(match: re.Match[str]) -> str:
        if any(start <= match.start() < end for start, end in inside_code):
            return match.group()
        target = ((ROOT / page).parent / match[3]).resolve()
        if target.is_dir():
            return match[2]
        relative = target.relative_to(ROOT)
        if relative not in known:
            _copy(relative, staged)
        return match.group()

    return _LINK.sub(with_its_file, text)


def _with_folders(places: Any, staged: Path) -> Any:
    """The navigation, with the pages of a folder in place of the folder."""
    if isinstance(places, list):
        return [_with_folders(place, staged) for place in places]
    if isinstance(places, dict):
        return {title: _with_folders(place, staged) for title, place in places.items()}
    if places.endswith("/"):
        others = (page.name for page in (staged / places).glob("*.md") if page.name != "README.md")
        return [f"{places}README.md", *(places + name for name in sorted(others))]
    return places


def _write(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def _copy(file: Path, staged: Path) -> None:
    place = staged / file
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / file, place)


def main() -> None:
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "docs").resolve()
    stage(folder / "pages")
    site = mkdocs_config.load_config(
        str(CONFIGURATION), strict=True, docs_dir=str(folder / "pages"), site_dir=str(folder / "site")
    )
    site.nav = _with_folders(site.nav, folder / "pages")
    python = site.plugins["mkdocstrings"].config.handlers["python"]
    python["paths"] = [str(reference.package().parent)]
    python["options"]["extensions"] = [str(Path(__file__).with_name("declared_options.py"))]
    build(site)
    print(f"{site.site_dir}/index.html")


if __name__ == "__main__":
    main()
