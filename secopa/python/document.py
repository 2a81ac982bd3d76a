# SPDX-License-Identifier: Apache-2.0
"""What profiles, plans and sets of gradients have in common: readable JSON, checked when it is read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from hipress.errors import InvalidArgument

_D = TypeVar("_D", bound="Document")


class Part(BaseModel):
    """A part of a document. Immutable; a field that is not known is an error, for it may be a misspelt one."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Document(Part):
    """A JSON file of its own."""

    @classmethod
    def parse(cls: type[_D], text: str, where: str) -> _D:
        """From JSON. Raises InvalidArgument, which says `where` and what is wrong first."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise InvalidArgument(f"{where} is no {cls.__name__.lower()}: {_first_fault(error)}") from None

    @classmethod
    def read(cls: type[_D], path: str | Path) -> _D:
        """Raises InvalidArgument if the file cannot be read or is wrong."""
        return cls.parse(read_text(path), str(path))

    def write(self, path: str | Path) -> None:
        """Raises InvalidArgument if the file cannot be written."""
        write_text(path, self.to_json())

    def to_json(self) -> str:
        """Fields that say nothing are left out."""
        return _one_line_each(self.model_dump(mode="json", exclude_none=True)) + "\n"

    def fingerprint(self) -> str:
        """The same for documents that say the same."""
        said = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(said.encode()).hexdigest()[:16]


def read_text(path: str | Path) -> str:
    """Raises InvalidArgument if the file cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read {path}: {error}") from None


def write_text(path: str | Path, text: str) -> None:
    """Raises InvalidArgument if the file cannot be written."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error}") from None


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(step) for step in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def _one_line_each(value: object, indent: int = 0) -> str:
    """JSON in which whatever fits into a line has one, so that version control shows what has changed."""
    flat = json.dumps(value)
    if len(flat) + indent <= 150 and indent > 0:
        return flat
    margin = " " * (indent + 1)
    if isinstance(value, dict) and value:
        lines = [f"{margin}{json.dumps(key)}: {_one_line_each(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    if isinstance(value, list) and value:
        lines = [margin + _one_line_each(item, indent + 1) for item in value]
        return "[\n" + ",\n".join(lines) + "\n" + " " * indent + "]"
    return flat
