# SPDX-License-Identifier: Apache-2.0
"""Changes a CompLL program by tokens, so that the result is mostly a program again; changes of single characters seldom
leave one."""

from __future__ import annotations

import random
import re


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_TYPES = ("int", "int32", "float", "double", "bool", "uint1", "uint2", "uint4", "uint8", "uint<4>", "void")
_NUMBERS = _words("""
    0 1 2 3 7 8 9 31 32 33 64 1000 65535 65536 16777217 2147483647 2147483648 4294967296 0x7fffffff 0.0 0.5 1.0 1.5
    1e-46 1e-20 1e38 3.5e38 1e308 1e400 1f .5 5. true false inf 99999999999999999999
""")
_OPERATORS = _words("+ - * / % & && | || ^ << >> < > <= >= == !=")
_FUNCTIONS = _words("""
    map reduce reduce_blocks filter sort scatter gather take range fill concat spread blocks require abs min max floor
    ceil round sqrt exp log pow
""")
_OTHERS = _words("""
    param in state if else return extract lambda_func random for while params gradient compressed size ( ) [ ] { } ! ~
    ? : ; , . = -> [&] += ++ // /* */ é \0
""")
# The expressions that may replace an expression; x, y and z are expressions of the program.
_WRAPS = """
    (x+y)|(x-y)|(x*y)|(x/y)|(x%y)|(x<<y)|(x>>y)|(x&y)|(x<y)|(x==y)|(x<y?y:z)|(y?x:z)|min(x,y)|max(x,y)|pow(x,y)|abs(x)
    floor(x)|ceil(x)|round(x)|sqrt(x)|-x|!x|~x|(int)x|(float)x|(double)x|(bool)x|(uint2)x|(uint8)x|x.size|x[y]|(x)
    random<float>(x,y)|random<float,16>(x,y)|random<int>(x,y)|range(x)|fill(x,y)|take(x,y)|gather(x,y)|scatter(x,y,z)|concat(x,y)|spread(x,y)
    blocks(x,y)|reduce(x,y,min)|reduce_blocks(x,y,max,z)|map(x,[&](float g)->float{return g+y;})|x,y
    sort(x,[&](float g)->float{return -g;})|filter(x,[&](float g)->bool{return g>y;})|map(x,[&](int i)->int{return y;})
""".replace("\n", "|").split("|")
_TOKEN = re.compile(r"//[^\n]*|\s+|\d[\w.]*|\w+|&&|\|\||<<|>>|[<>=!]=|->|\[&\]|.", re.DOTALL)
_ATOM = re.compile(r"[A-Za-z_]\w*$|[\d.]")


def change_program(text: str, dice: random.Random) -> str:
    """`text` with one to four changes."""
    tokens: list[str] = _TOKEN.findall(text)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        tokens = _changed(tokens, dice)
    return "".join(tokens)


def _changed(tokens: list[str], dice: random.Random) -> list[str]:
    words = [i for i, token in enumerate(tokens) if not token.isspace() and not token.startswith("//")]
    if len(words) < 2:
        return [*tokens, dice.choice((*_TYPES, *_OTHERS))]
    atoms = _atoms(tokens, words)
    match dice.randrange(10):
        case 0 | 1 | 2:
            _replace(tokens, words, [tokens[i] for i in atoms], dice)
        case 3 | 4 | 5 | 6 if atoms:
            _wrap(tokens, atoms, dice)
        case 7:
            _copy_statement(tokens, words, dice)
        case 8:
            _copy_group(tokens, words, dice)
        case _:
            _disturb(tokens, dice.choice(words), dice.choice(words), dice)
    return tokens


def _atoms(tokens: list[str], words: list[int]) -> list[int]:
    """The positions of names and numbers that are expressions, as far as their neighbours show it."""
    before = {"return", *_OPERATORS, *"([,=?:{"} - {"*"}
    after = {*_OPERATORS, *")],;?:."}
    return [
        i
        for last, i, following in zip(words, words[1:], words[2:], strict=False)
        if _ATOM.match(tokens[i]) and tokens[last] in before and tokens[following] in after
    ]


def _replace(tokens: list[str], words: list[int], expressions: list[str], dice: random.Random) -> None:
    """Replaces a token by another token of its kind, from the language or from this program."""
    at = dice.choice(words)
    token = tokens[at]
    for kind in (_TYPES, _OPERATORS, _FUNCTIONS):
        if token in kind:
            tokens[at] = dice.choice(kind)
            return
    if token[0].isdigit() or token in _NUMBERS:
        tokens[at] = dice.choice(_NUMBERS)
    elif token in expressions or dice.random() < 0.1:
        tokens[at] = dice.choice([*expressions, token])


def _wrap(tokens: list[str], atoms: list[int], dice: random.Random) -> None:
    """Makes a name or a number a part of a larger expression."""
    at = dice.choice(atoms)

    def operand() -> str:
        return tokens[dice.choice(atoms)] if dice.random() < 0.7 else dice.choice(_NUMBERS)

    pieces = {"x": tokens[at], "y": operand(), "z": operand()}
    wrapped = re.sub(r"\b[xyz]\b", lambda found: pieces[found[0]], dice.choice(_WRAPS).strip())
    tokens[at : at + 1] = _TOKEN.findall(wrapped)


def _copy_statement(tokens: list[str], words: list[int], dice: random.Random) -> None:
    """Copies or moves a statement behind another statement, or leaves it out."""
    ends = [i for i in words if tokens[i] in ";{}"]
    if len(ends) < 2:
        return
    number = dice.randrange(len(ends) - 1)
    begin, end = ends[number] + 1, ends[number + 1] + 1
    statement = tokens[begin:end]
    target = dice.choice(ends) + 1
    if dice.random() < 0.3:
        del tokens[begin:end]
    elif dice.random() < 0.5 or begin <= target <= end:
        tokens[target:target] = statement
    else:
        for place in sorted((begin, target), reverse=True):
            if place == begin:
                del tokens[begin:end]
            else:
                tokens[target:target] = statement


def _copy_group(tokens: list[str], words: list[int], dice: random.Random) -> None:
    """Replaces the content of a pair of brackets by the content of another pair of that kind."""
    opening = dice.choice("({[")
    closing = {"(": ")", "{": "}", "[": "]"}[opening]
    groups = []
    open_at = []
    for i in words:
        if tokens[i] == opening:
            open_at.append(i)
        elif tokens[i] == closing and open_at:
            groups.append((open_at.pop(), i + 1))
    if groups:
        begin, end = dice.choice(groups)
        other_begin, other_end = dice.choice(groups)
        tokens[begin:end] = tokens[other_begin:other_end]


def _disturb(tokens: list[str], at: int, other: int, dice: random.Random) -> None:
    """Changes single tokens; the result is hardly ever a program."""
    match dice.randrange(4):
        case 0:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case 1:
            tokens.insert(at, f" {dice.choice((*_TYPES, *_OTHERS, *_FUNCTIONS, *_NUMBERS))} ")
        case 2:
            del tokens[at : at + dice.randrange(1, 6)]
        case 3:
            tokens[at:at] = tokens[other : other + dice.randrange(1, 12)]
