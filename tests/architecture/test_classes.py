# SPDX-License-Identifier: Apache-2.0
"""No class of the runtime has so many private methods that it hides a second class."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.architecture.files import ROOT, tracked

MOST_PRIVATE_METHODS = 12

_CLASS = re.compile(r"\b(class|struct)\s+(?:HIPRESS_\w+(?:\([^)]*\))?\s+)?(\w+)[^;{()]*\{")
_ACCESS = re.compile(r"\b(public|protected|private):")
#: A method's name and the parenthesis behind it. An annotation is not a method. The type of a member may contain
#: parentheses within angle brackets only.
_METHOD = re.compile(r"(~?\w+|operator\S+)\s*\(")
_NO_METHOD = re.compile(r"^(using|friend|static_assert|enum|class|struct|HIPRESS_)\b|=\s*(default|delete)$")


def block(text: str, begin: int) -> str:
    """The text between an opening brace and the brace that closes it."""
    depth = 1
    for end in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return text[begin:end]
    raise ValueError("a brace is not closed")


def outline(body: str) -> str:
    """The declarations of a class body; a semicolon replaces each body in braces."""
    result, depth = "", 0
    for character in body:
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            result += ";" if depth == 0 else ""
        elif depth == 0:
            result += character
    return result


def without_templates(declaration: str) -> str:
    """The declaration without the text in angle brackets; the innermost brackets go first."""
    while (shorter := re.sub(r"<[^<>]*>", "", declaration)) != declaration:
        declaration = shorter
    return declaration


def private_methods(text: str) -> Iterator[tuple[str, list[str]]]:
    """The classes of a C++ file, with the names of their private methods."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', '""', text)
    for found in _CLASS.finditer(text):
        kind, name = found.groups()
        parts = _ACCESS.split(outline(block(text, found.end())))
        accesses = ["private" if kind == "class" else "public", *parts[1::2]]
        private = ";".join(part for access, part in zip(accesses, parts[::2], strict=True) if access == "private")
        declarations = [without_templates(each).strip() for each in private.split(";")]
        declarations = [re.sub(r"\s*HIPRESS_\w+\([^)]*\)", "", each) for each in declarations]
        methods = [
            method.group(1)
            for each in declarations
            if not _NO_METHOD.search(each) and (method := _METHOD.search(each)) and method.group(1) != name
        ]
        yield name, methods


def test_no_class_of_the_runtime_has_many_private_methods() -> None:
    classes = [
        (f"{file}: {name}", methods)
        for file in tracked(".cc", ".h")
        if file.startswith("core/casync/")
        for name, methods in private_methods((ROOT / file).read_text())
    ]
    assert len(classes) > 80
    assert {name: methods for name, methods in classes if len(methods) > MOST_PRIVATE_METHODS} == {}
    assert len(dict(classes)["core/casync/run/engine.h: Engine"]) >= 5  # The search finds methods.


def test_private_methods_are_told_from_everything_else() -> None:
    text = """
class HIPRESS_CAPABILITY("mutex") Seen final : public Base<int> {
  int first() const;
 public:
  Seen();
  void open() { if (x) { close(); } }
 private:
  struct Inner { void ofInner(); };
  explicit Seen(int);
  template <typename T> std::vector<T> second(std::function<void(int)> done) HIPRESS_REQUIRES(mutex_) { f(); }
  void done(const int& a) override { table_.end(a, nullptr); }  // third( )
  bool operator==(const Seen&) const = default;
  static int fourth(std::map<int, std::function<int(int)>> a,
                    int b);
  std::function<void(int)> callback_ = nullptr;
  int guarded_ HIPRESS_GUARDED_BY(mutex_) = 1;
  const std::string text_ = "call()";
};
"""
    assert dict(private_methods(text)) == {"Seen": ["first", "second", "done", "fourth"], "Inner": []}
