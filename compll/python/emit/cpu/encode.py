# SPDX-License-Identifier: Apache-2.0
"""A function that encodes, in C++ for processors: its frame and kernels, and the method that runs them."""

from __future__ import annotations

from dataclasses import dataclass

from hipress.compll import ir
from hipress.compll.emit.cpu.steps import CpuSteps
from hipress.compll.emit.function import Function
from hipress.compll.emit.target import Target
from hipress.compll.emit.text import definitions, frame_struct, indented, message_items
from hipress.compll.passes.finite import guarding_state, replaced_states
from hipress.compll.passes.fuse import fuse
from hipress.compll.passes.of_one_block import of_one_block
from hipress.compll.passes.vectors import Vectors

#: Members of all frames.
COMMON = (
    "size_t n = 0;",
    "Params params;",
    "Parallel* parallel = nullptr;",
    "ops::Scratch scratch;",
    "std::atomic<int64_t> bad{0};",
)
_ENCODING = (
    "const float* gradient = nullptr;",
    "float scale = 1;",
    "ops::RandomKey random;",
    "bool stream = false;",
    "uint8_t* message = nullptr;",
    "size_t bytes = 0;",
)


@dataclass(frozen=True)
class Encoding:
    """`space` is the namespace of the frame and of the kernels."""

    space: str
    states: tuple[str, ...]
    function: Function
    vectors: Vectors
    lines: list[str]

    def definitions(self) -> str:
        return f"""namespace {self.space} {{

{frame_struct(self.function, (*COMMON, *_ENCODING))}
{definitions(self.function)}
}}  // namespace {self.space}
"""

    def method(self, name: str, *, reads: str = "") -> str:
        """The method `name`; `reads`: its further argument, a message that it reads."""
        argument = f" ConstBytes {reads}," if reads else ""
        reader = f"    ops::PayloadReader reader(this->name(), {reads}, f.scratch);\n" if reads else ""
        return f"""  template <bool kStates>
  size_t {name}(std::span<const float> input,{argument} [[maybe_unused]] const EncodeStates& states,
                    const EncodeContext& context, Bytes output) const {{
    using namespace {self.space};
    Frame f;
    f.n = input.size();
    f.params = params;
    f.parallel = context.parallel;
    f.gradient = input.data();
    f.scale = context.scale;
    f.random = {{context.seed, context.step, context.tensor, context.firstElement}};
    f.stream = input.size() >= ops::kStreamFrom;
    f.message = reinterpret_cast<uint8_t*>(output.data());
{reader}{indented(chr(10).join(self._state_pointers()), 4)}
{indented(chr(10).join(self.lines), 4)}
    return f.bad.load(std::memory_order_relaxed) == 0 ? f.bytes : 0;
  }}
"""

    def call(self, name: str, arguments: str) -> str:
        """The call of that method. A program without states needs only the version that keeps none."""
        without = f"{name}<false>({arguments})"
        return f"states.before.empty() ? {without} : {name}<true>({arguments})" if self.states else without

    def _state_pointers(self) -> list[str]:
        lines = []
        for number, state in enumerate(self.states):
            name = self.function.names(state)
            lines.append(f"f.before_{name} = kStates ? states.before[{number}] : nullptr;")
            lines.append(f"f.after_{name} = kStates ? states.after[{number}] : nullptr;")
        return lines


def encoding(function: ir.Function, target: Target, space: str) -> Encoding:
    """Emits the function. The program declares its `states`; it may leave some unwritten."""
    plan, vectors = fuse(function)
    emitted = Function(vectors, target, decoding=False)
    emitted.of_one_block = of_one_block(vectors, plan.steps)
    emitted.guard = guarding_state(plan.steps, vectors)
    emitted.gradient_checked = emitted.guard is not None
    emitted.replaced = replaced_states(plan.steps)
    lines = CpuSteps(emitted).emit(plan.steps, message_items(function))
    if not emitted.gradient_checked:
        lines.append("if (!ops::allFiniteScaled(f.gradient, f.n, f.scale)) return 0;")
    for state in function.states:
        emitted.member(f"before_{emitted.names(state)}", "const float*", " = nullptr")
        emitted.member(f"after_{emitted.names(state)}", "float*", " = nullptr")
    return Encoding(space, function.states, emitted, vectors, lines)
