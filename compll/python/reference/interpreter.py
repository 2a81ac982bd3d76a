# SPDX-License-Identifier: Apache-2.0
"""The reference interpreter: it defines what a program means, and the rules that hold for every codec.

1. Before encoding, the gradient is multiplied by the caller's scale, in float32. For a program with a residual, this
   scale is first multiplied by the option gradient_factor. The option is 1 where merged gradients are encoded again.
2. A gradient without elements has an empty message; encode is not run, and states keep their values.
3. If an element of the scaled gradient, or any new value of a state, is NaN or infinite, then the message is empty and
   every state keeps its old value. An empty message for one element or more decodes to NaN everywhere. (So encode must
   not give an empty message for any other reason.)
4. A program reads a state's value from before the step; the state changes at the end of the step. For a caller that
   keeps no states, a program reads zeros, and there are no new values. What it reads of the state `residual` is
   multiplied by the option residual_factor before, in float32.
5. The value of agree(...) is this rank's statistics, or what all ranks have made of theirs, if the caller says so. The
   message with the sum of all ranks' levels in place of one rank's decodes to the sum of the ranks' values.
6. A decode that accumulates adds the decoded value to the output element by element, in float32. If the gradient is
   scatter over fill(…, 0.0), it changes only the elements at the indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress.compll import ir
from hipress.compll.reference import bounds, message
from hipress.compll.reference.evaluate import Environment, evaluate
from hipress.compll.reference.instantiate import bind_params
from hipress.compll.reference.operators import MEANINGS
from hipress.compll.reference.philox import RandomKey
from hipress.errors import CorruptPayload, InvalidArgument

Floats = NDArray[np.float32]
#: From a rank's statistics to what all ranks agree on.
Agree = Callable[[Floats], Floats]


class Interpreter:
    """A program with values for its parameters. Raises InvalidArgument for a missing, unknown or wrong parameter."""

    def __init__(self, program: ir.Program, **params: Any) -> None:
        self.program = program
        self.params = bind_params(program.params, params)
        if not self.keeps_states:
            for param in program.params:
                if param.implicit and self.params[param.name] != param.default:
                    raise InvalidArgument(
                        f"{param.name}={self.params[param.name]:g} is a factor beside the residual, and with "
                        f"{ir.ERROR_FEEDBACK}=false no residual is kept: leave the option out, or set "
                        f"{ir.ERROR_FEEDBACK}=true"
                    )

    def for_aggregate(self) -> Interpreter:
        """The codec that encodes merged gradients again."""
        replaced = {param.name: param.merged for param in self.program.params if param.merged is not None}
        return Interpreter(self.program, **{**self.params, **replaced})

    @property
    def keeps_states(self) -> bool:
        """Whether states last: the parameter error_feedback, if the program declares it."""
        return bool(self.params.get(ir.ERROR_FEEDBACK, True))

    def new_state(self, count: int) -> dict[str, Floats]:
        """Zeros for every state that lasts, for a gradient of `count` elements. A state may have fewer values."""
        kept = self.program.encode is not None and self.keeps_states
        return self._zeros(count) if kept else {}

    def _zeros(self, count: int) -> dict[str, Floats]:
        encode = self._encode()
        return {name: np.zeros(encode.state_length(name, count), np.float32) for name in encode.states}

    def max_encoded_bytes(self, count: int) -> int:
        """The most bytes that encode gives for any gradient of `count` elements."""
        return bounds.max_encoded_bytes(self._encode(), count, self.params)

    @np.errstate(all="ignore")
    def encode(
        self,
        gradient: Floats,
        state: dict[str, Floats] | None = None,
        *,
        seed: int = 0,
        step: int = 0,
        tensor: int = 0,
        first_element: int = 0,
        scale: float = 1.0,
        agree: Agree | None = None,
    ) -> bytes:
        """The message; the arrays of `state` get their new values in place.

        `agree`: for a program with agree(...), combines this rank's statistics with those of other ranks.
        """
        function = self._encode()
        factor = self.params[ir.GRADIENT_FACTOR] if self.program.scales_gradients else 1.0
        if np.iscomplexobj(gradient):
            raise InvalidArgument(
                f"the gradient has elements of type {np.asarray(gradient).dtype}, and programs compute with float32: "
                "give its real numbers, gradient.view() as the type of its parts"
            )
        scaled = np.asarray(gradient, np.float32) * (np.float32(scale) * np.float32(factor))
        old = self._zeros(len(scaled)) if state is None or not self.keeps_states else state
        for name in function.states:
            length = function.state_length(name, len(scaled))
            if name not in old or len(old[name]) != length:
                raise InvalidArgument(f"state '{name}' must have {length} elements")
        if not len(scaled) or not np.isfinite(scaled).all():
            return b""
        run = _Run(self.params, decoding=False)
        run.environment.random = RandomKey(seed, step, tensor, first_element)
        factors = {state: np.float32(self.params[param]) for state, param in function.factors}
        read = {name: old[name] * factors[name] if name in factors else old[name] for name in function.states}
        run.environment.vectors.update({ir.GRADIENT: scaled, **read})
        if function.summed is not None and agree is not None:
            run.agreed = {function.summed.statistics: agree}
        run.statements(function.body)
        if not run.message:
            raise InvalidArgument(
                f"'{self.program.name}' made an empty message; only a gradient that is not finite may have one"
            )
        kept = state is not None and self.keeps_states
        if kept and not all(np.isfinite(values).all() for values in run.states.values()):
            return b""
        for name, values in run.states.items():
            old[name][:] = values
        return run.message

    def decode(self, data: bytes, count: int) -> Floats:
        """The gradient. Raises CorruptPayload if `data` is no message for `count` elements."""
        output = np.empty(count, np.float32)
        self.decode_into(data, output)
        return output

    @np.errstate(all="ignore")
    def decode_into(self, data: bytes, output: Floats, *, accumulate: bool = False) -> None:
        """Decodes into `output`, or adds to it. CorruptPayload leaves it unchanged."""
        function = self.program.decode
        if function is None:
            raise InvalidArgument(f"'{self.program.name}' has no decode")
        if not len(output):
            if data:
                raise CorruptPayload(f"{len(data)} bytes for no elements")
            return
        if not data:
            output[:] = np.nan
            return
        run = _Run(self.params, decoding=True)
        run.environment.vectors[ir.MESSAGE] = np.frombuffer(data, np.uint8)
        run.data, run.count = data, len(output)
        # While decode runs, the gradient has a size and no values.
        run.environment.vectors[ir.GRADIENT] = np.broadcast_to(np.float32(0), output.shape)
        run.statements(function.body)
        if not accumulate:
            output[:] = run.gradient
        elif run.touched is None:
            output += run.gradient
        else:
            output[run.touched] += run.gradient[run.touched]

    def _encode(self) -> ir.Function:
        if self.program.encode is None:
            raise InvalidArgument(f"'{self.program.name}' has no encode")
        return self.program.encode


class _Run:
    """One execution of one function."""

    def __init__(self, params: Mapping[str, Any], *, decoding: bool) -> None:
        self.environment = Environment(params, decoding=decoding)
        self.types: dict[str, ir.Vector] = {}
        self.definitions: dict[str, ir.Operator] = {}
        self.states: dict[str, Floats] = {}
        self.agreed: dict[str, Agree] = {}
        self.message = self.data = b""
        self.count = 0
        self.gradient: Floats = np.empty(0, np.float32)
        self.touched: NDArray[Any] | None = (
            None  # indices of the elements that an accumulating decode changes; None: all elements
        )

    def statements(self, body: Iterable[ir.Statement]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, statement: ir.Statement) -> None:
        env = self.environment
        match statement:
            case ir.Let():
                self.bind(statement.name, statement.type, self.value(statement))
            case ir.LetMany():
                results = MEANINGS[type(statement.value)](statement.value, env)
                for name, type_, result in zip(statement.names, statement.types, results, strict=True):
                    self.bind(name, type_, result)
            case ir.If():
                chosen = bool(evaluate(statement.condition, env))
                self.statements(statement.yes if chosen else statement.no)
                for join in statement.joins:
                    name = join.yes if chosen else join.no
                    known = env.vectors if isinstance(join.type, ir.Vector) else env.scalars
                    self.bind(join.name, join.type, known[name])
            case ir.WriteState():
                # A copy, because the vector may be the old value of another state.
                self.states[statement.state] = env.vectors[statement.vector].copy()
            case ir.WriteMessage():
                self.message = message.concat(statement.items, self.types, env)
            case ir.WriteGradient():
                self.gradient = env.vectors[statement.vector]
                self.touched = self.scattered(statement.vector)
            case ir.Extract():
                message.extract(statement.fields, self.data, env)
            case ir.Require():
                if not evaluate(statement.condition, env):
                    raise CorruptPayload(f"the requirement in line {statement.span.line} does not hold")

    def bind(self, name: str, type_: ir.Type, value: Any) -> None:
        if name in self.agreed:
            value = self.agreed[name](value)
        if isinstance(type_, ir.Vector):
            self.types[name] = type_
            self.environment.vectors[name] = value
        else:
            self.environment.scalars[name] = value

    def value(self, let: ir.Let) -> Any:
        op, env = let.value, self.environment
        if isinstance(op, ir.Expr):
            return evaluate(op, env)
        self.definitions[let.name] = op
        result = MEANINGS[type(op)](op, env)
        return result[0] if isinstance(result, tuple) else result

    def scattered(self, vector: str) -> NDArray[Any] | None:
        """The indices, if the vector is scatter(fill(…, 0.0), indices, …)."""
        op = self.definitions.get(vector)
        if not isinstance(op, ir.Scatter):
            return None
        base = self.definitions.get(op.base)
        zeros = isinstance(base, ir.Fill) and isinstance(base.value, ir.Const) and base.value.value == 0
        return self.environment.vectors[op.indices] if zeros else None
