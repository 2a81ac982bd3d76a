# SPDX-License-Identifier: Apache-2.0
"""From text to syntax tree."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput

from hipress.compll.frontend import syntax as s
from hipress.compll.frontend.program_limits import check_length, check_tree
from hipress.compll.frontend.program_limits import span_of as _span
from hipress.compll.frontend.syntax_errors import explain
from hipress.compll.ir.source import Source, Span


def parse(source: Source) -> s.File:
    """The syntax tree of `source`. Raises CompileError at the first place that is not in the language, or too large."""
    check_length(source)
    try:
        tree = _grammar().parse(source.text)
    except UnexpectedInput as error:
        raise explain(source, error) from None
    check_tree(source, tree)
    return _Builder().file(tree)


@cache
def _grammar() -> Lark:
    text = (Path(__file__).parent / "grammar.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", propagate_positions=True, maybe_placeholders=True)


class _Builder:
    """Turns lark's tree, in which everything is a list, into the classes of syntax.py."""

    def file(self, tree: Tree[Any]) -> s.File:
        return s.File(_span(tree), tuple(self.build(item) for item in tree.children))

    def build(self, tree: Any) -> Any:
        method: Callable[[Span, list[Any]], Any] = getattr(self, "on_" + str(tree.data))
        return method(_span(tree), tree.children)

    def maybe(self, tree: Any) -> Any:
        return None if tree is None else self.build(tree)

    def each(self, trees: list[Any]) -> tuple[Any, ...]:
        return tuple(self.build(tree) for tree in trees if tree is not None)

    def on_param_block(self, span: Span, children: list[Any]) -> s.ParamBlock:
        return s.ParamBlock(span, str(children[0]), self.each(children[1:]))

    def on_param_field(self, span: Span, children: list[Any]) -> s.ParamField:
        kind, name, *rest = children
        default, domain, merged = map(self.maybe, rest)
        return s.ParamField(_span(name), self.build(kind), str(name), default, domain, merged)

    def on_set_domain(self, span: Span, children: list[Any]) -> s.SetDomain:
        return s.SetDomain(span, self.each(children))

    def on_interval_domain(self, span: Span, children: list[Any]) -> s.IntervalDomain:
        left, low, high, right = children
        return s.IntervalDomain(span, self.build(low), self.build(high), left == "(", right == ")")

    def on_function(self, span: Span, children: list[Any]) -> s.Function:
        results, name, *parameters, body = children
        types = () if isinstance(results, Token) else self.build(results)
        types = (types,) if isinstance(types, s.TypeName) else types
        return s.Function(_span(name), str(name), types, self.each(parameters), self.build(body))

    def on_table(self, span: Span, children: list[Any]) -> s.Table:
        _, kind, name, size, values = children
        return s.Table(_span(name), str(name), self.build(kind), self.build(size), self.build(values))

    def on_listed(self, span: Span, children: list[Any]) -> tuple[s.Expression, ...]:
        return self.each(children)

    def on_global_variable(self, span: Span, children: list[Any]) -> s.GlobalVariable:
        return s.GlobalVariable(_span(children[1]), str(children[1]))

    def on_results(self, span: Span, children: list[Any]) -> tuple[s.TypeName, ...]:
        return self.each(children)

    on_result_types = on_results

    def on_parameter(self, span: Span, children: list[Any]) -> s.Parameter:
        state, kind, name, length = children if len(children) == 4 else (None, *children, None)
        written = s.TypeName(_span(kind), str(kind), None, False) if isinstance(kind, Token) else self.build(kind)
        return s.Parameter(_span(name), written, str(name), state is not None, self.maybe(length))

    def on_type(self, span: Span, children: list[Any]) -> s.TypeName:
        base, star = children
        name, width = self.build(base)
        return s.TypeName(span, name, width, star is not None)

    def on_base(self, span: Span, children: list[Any]) -> tuple[str, None]:
        return str(children[0]), None

    def on_sized_uint(self, span: Span, children: list[Any]) -> tuple[str, s.Expression]:
        return "uint", self.build(children[0])

    def on_block(self, span: Span, children: list[Any]) -> s.Block:
        return s.Block(span, self.each(children))

    def on_declaration(self, span: Span, children: list[Any]) -> s.Declaration:
        kind, name, value = children
        return s.Declaration(_span(name), self.build(kind), str(name), self.maybe(value))

    def on_assignment(self, span: Span, children: list[Any]) -> s.Assignment:
        return s.Assignment(_span(children[0]), str(children[0]), self.build(children[1]))

    def on_multi_assignment(self, span: Span, children: list[Any]) -> s.MultiAssignment:
        return s.MultiAssignment(span, self.each(children[:-1]), self.build(children[-1]))

    def on_target(self, span: Span, children: list[Any]) -> s.Target:
        return s.Target(_span(children[1]), self.maybe(children[0]), str(children[1]))

    def on_lambda_definition(self, span: Span, children: list[Any]) -> s.LambdaDefinition:
        return s.LambdaDefinition(_span(children[0]), str(children[0]), self.build(children[1]))

    def on_if_statement(self, span: Span, children: list[Any]) -> s.If:
        condition, yes, no = children
        otherwise = self.maybe(no)
        if isinstance(otherwise, s.If):
            otherwise = s.Block(otherwise.span, (otherwise,))
        return s.If(span, self.build(condition), self.build(yes), otherwise)

    def on_return_statement(self, span: Span, children: list[Any]) -> s.Return:
        return s.Return(span, self.each(children))

    def on_extract_statement(self, span: Span, children: list[Any]) -> s.Extract:
        return s.Extract(_span(children[0]), str(children[0]), self.each(children[1:]))

    def on_field(self, span: Span, children: list[Any]) -> s.Field:
        kind, name, length = children
        return s.Field(_span(name), self.maybe(kind), str(name), self.maybe(length))

    def on_call_statement(self, span: Span, children: list[Any]) -> s.CallStatement:
        return s.CallStatement(_span(children[0]), str(children[0]), self.each(children[1:]))

    def on_element_assignment(self, span: Span, children: list[Any]) -> s.ElementAssignment:
        return s.ElementAssignment(_span(children[0]), str(children[0]))

    def on_compound_assignment(self, span: Span, children: list[Any]) -> s.CompoundAssignment:
        return s.CompoundAssignment(_span(children[0]), str(children[0]))

    def on_lambda(self, span: Span, children: list[Any]) -> s.Lambda:
        *parameters, results, body = children
        return s.Lambda(span, self.each(parameters), self.build(results), self.build(body))

    def on_conditional(self, span: Span, children: list[Any]) -> s.Conditional:
        return s.Conditional(span, *self.each(children))

    def on_binary(self, span: Span, children: list[Any]) -> s.Binary:
        left, operator, right = children
        return s.Binary(span, str(operator), self.build(left), self.build(right))

    def on_prefix(self, span: Span, children: list[Any]) -> s.Prefix:
        return s.Prefix(span, str(children[0]), self.build(children[1]))

    def on_cast(self, span: Span, children: list[Any]) -> s.Cast:
        return s.Cast(span, self.build(children[0]), self.build(children[1]))

    def on_attribute(self, span: Span, children: list[Any]) -> s.Attribute:
        return s.Attribute(span, self.build(children[0]), str(children[1]))

    def on_index(self, span: Span, children: list[Any]) -> s.Index:
        return s.Index(span, *self.each(children))

    def on_number(self, span: Span, children: list[Any]) -> s.Number:
        return s.Number(span, str(children[0]))

    def on_boolean(self, span: Span, children: list[Any]) -> s.Boolean:
        return s.Boolean(span, children[0] == "true")

    def on_name(self, span: Span, children: list[Any]) -> s.Name:
        return s.Name(span, str(children[0]))

    def on_call(self, span: Span, children: list[Any]) -> s.Call:
        return s.Call(span, str(children[0]), self.each(children[1:]))

    def on_random(self, span: Span, children: list[Any]) -> s.Random:
        return s.Random(span, self.build(children[0]), "32", False, self.each(children[1:]))

    def on_random_of_bits(self, span: Span, children: list[Any]) -> s.Random:
        return s.Random(span, self.build(children[0]), str(children[1]), False, self.each(children[2:]))

    def on_shared_random(self, span: Span, children: list[Any]) -> s.Random:
        return s.Random(span, self.build(children[0]), "32", True, self.each(children[2:]))

    def on_shared_random_of_bits(self, span: Span, children: list[Any]) -> s.Random:
        return s.Random(span, self.build(children[0]), str(children[1]), True, self.each(children[3:]))

    def on_bitcast(self, span: Span, children: list[Any]) -> s.Bitcast:
        return s.Bitcast(span, self.build(children[0]), self.each(children[1:]))
