# SPDX-License-Identifier: Apache-2.0
"""The rules of our English about phrases, which a program can check. docs/glossary.md has the rules about words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: The largest number of words of a sentence; a longer sentence states two things.
LONGEST_SENTENCE = 45

#: The parts of a text that are no prose: code, links, comments.
_QUOTED = re.compile(r"```.*?```|`[^`]*`|<!--.*?-->|\]\([^)]*\)|\{[\w, ]+\}", re.DOTALL)
#: A line that ends before the margin: it ends its paragraph, or belongs to a list.
_SHORT_LINE = re.compile(r"(?m)^(.{0,79}|.*[^.] {3,}.*)$")
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+|\n\s*\n|\n\s*[-*|>]|\s\|\s")


@dataclass(frozen=True)
class Rule:
    """Words that a text must not use, and the advice to the writer."""

    pattern: re.Pattern[str]
    instead: str


def _rule(words: str, instead: str) -> Rule:
    return Rule(re.compile(words, re.IGNORECASE), instead)


RULES = (
    # The rule holds only after a word: an ellipsis between commas or after a bracket continues a list.
    _rule(r"(?<=[a-z])(?:…|\.\.\.)(?=$|[\s\"'])", "end the sentence: an ellipsis leaves out what the reader needs"),
    _rule(r"\bthose (?:that|who|of which)\b", "name what it is: the tensors that, the ranks that"),
    _rule(r"\bwho ?ever\b|\bhe who\b", "name the actor: a user, a rank, a process"),
    _rule(r"\bwhat (?:is|are) \w+(?:ed|en|ent|ept|wn)\b", "name the thing: the message, the payload, the value"),
    _rule(r"\bin order to\b", "to"),
    _rule(r"\bdue to the fact that\b", "because"),
    _rule(r"\bit should be noted that\b|\bnote that\b|\bplease note\b", "say it without the announcement"),
    _rule(r"\b(?:really|simply|obviously|of course)\b", "leave the word out"),
    _rule(r"\butili[sz]e[sd]?\b", "use"),
    _rule(r"\bleverage[sd]?\b", "use"),
    _rule(r"\bas is the case (?:with|for)\b", "as for"),
)


def complaints(text: str) -> Iterator[tuple[str, str]]:
    """The words of a text that break a rule, each with the advice to the writer."""
    spoken = _QUOTED.sub(" x ", text)
    for rule in RULES:
        for found in rule.pattern.finditer(spoken):
            around = spoken[max(0, found.start() - 30) : found.end() + 20]
            yield " ".join(around.split()), rule.instead
    for sentence in _SENTENCE_END.split(_SHORT_LINE.sub(r"\1\n", spoken)):
        words = re.findall(r"[A-Za-z][\w'-]*", sentence)
        if len(words) > LONGEST_SENTENCE:
            yield (
                " ".join(words[:8]),
                f"split the sentence: it has {len(words)} words, and {LONGEST_SENTENCE} are enough",
            )
