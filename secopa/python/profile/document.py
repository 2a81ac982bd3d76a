# SPDX-License-Identifier: Apache-2.0
"""The base of profiles, plans and gradient sets: JSON files that a person can read, and that are checked when read."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from hipress.errors import InvalidArgument

_D = TypeVar("_D", bound="Document")

#: Largest file: a plan with about 50,000 decisions.
MOST_BYTES = 16 << 20
#: Most entries of one JSON object, such as the codecs of a profile.
MOST_ENTRIES = 1000
#: Control characters, line ends, characters that reverse the text's direction, and halves of surrogate pairs.
_NOT_TEXT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class MalformedFile(InvalidArgument):
    """The content of a file is wrong. Commands end with exit code 1, as for a wrong program."""


class Part(BaseModel):
    """A part of a document. It is immutable. An unknown field is an error, because it may be a misspelt one."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _knows_its_fields(cls, content: Any) -> Any:
        """Reports the first unknown or too large field only: pydantic would report every one."""
        if isinstance(content, dict):
            for name, value in content.items():
                if name not in cls.model_fields:
                    raise ValueError(f"{clipped(str(name), 80)}: Extra inputs are not permitted")
                if isinstance(value, dict) and len(value) > MOST_ENTRIES:
                    raise ValueError(f"{name}: more than {MOST_ENTRIES} entries")
        return content

    @field_validator("*")
    @classmethod
    def _is_one_line(cls, value: Any) -> Any:
        """Refuses control characters: texts appear in terminals, in tables, and as lines of other files."""
        texts = [value] if isinstance(value, str) else value if isinstance(value, dict) else ()
        for text in texts:
            if isinstance(text, str) and (found := _NOT_TEXT.search(text)):
                raise ValueError(f"{shown(text)} has the character U+{ord(found[0]):04X}, which is no text")
        return value


class Document(Part):
    """A part that has its own JSON file."""

    @classmethod
    def parse(cls: type[_D], text: str, where: str) -> _D:
        """Parses JSON text. Raises MalformedFile, which names `where` and the first fault."""
        # pydantic's own JSON reader needs five times the memory for JSON that does not match the model.
        return cls.of(read_json(text, where), where)

    @classmethod
    def of(cls: type[_D], content: Any, where: str) -> _D:
        """Builds the document from parsed JSON. Raises MalformedFile as parse() does."""
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise MalformedFile(f"{where} is no {cls.__name__.lower()}: {first_fault(error)}") from None

    @classmethod
    def read(cls: type[_D], path: str | Path) -> _D:
        """Reads a file. Raises InvalidArgument if it cannot be read, MalformedFile if its content is wrong."""
        return cls.parse(read_text(path), str(path))

    def write(self, path: str | Path) -> None:
        """Writes a file. Raises InvalidArgument if it cannot be written."""
        write_text(path, self.to_json())

    def to_json(self) -> str:
        """JSON text, without the fields that are None."""
        return _one_line_each(self.model_dump(mode="json", exclude_none=True)) + "\n"

    def fingerprint(self) -> str:
        """A hash of the content: equal documents have equal fingerprints."""
        said = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(said.encode()).hexdigest()[:16]


def read_text(path: str | Path) -> str:
    """Reads a text file. Raises InvalidArgument if it cannot be read, MalformedFile if it is empty or above
    MOST_BYTES."""
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error}") from None
    if len(content) > MOST_BYTES:
        raise MalformedFile(f"{path} has more than {MOST_BYTES >> 20} MiB: it is no file of HiPress")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise MalformedFile(f"cannot read {path}: {error}") from None
    if not text.strip():
        raise MalformedFile(f"{path} is empty")
    return text


def read_json(text: str, where: str) -> Any:
    """Parses JSON. Raises MalformedFile, which names `where`, if the text is not JSON."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise MalformedFile(f"{where} is nested too deeply") from None
    except ValueError as error:  # raised for a number with thousands of digits, too
        raise MalformedFile(f"{where}: {clipped(str(error))}") from None


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def shown(text: str) -> str:
    """A text from a file for an error message: clipped() and in quotes."""
    return f"'{clipped(text, 80)}'"


def clipped(text: str, most: int = 300) -> str:
    """A text for an error message: at most `most` characters, with control characters escaped."""
    said = _NOT_TEXT.sub(lambda found: f"\\x{ord(found[0]):02x}", text[:most])
    return f"{said}…" if len(text) > most else said


def write_text(path: str | Path, text: str) -> None:
    """Writes a text file. Raises InvalidArgument if it cannot be written."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error}") from None


def first_fault(error: ValidationError) -> str:
    """The field and the message of pydantic's first error."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(step)[:80] for step in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return clipped(f"{place}: {message}" if place else message)


def _one_line_each(value: object, indent: int = 0) -> str:
    """JSON with one line for every value that fits into a line, so that version control shows small differences."""
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
