# SPDX-License-Identifier: Apache-2.0
"""Encode functions for GPUs: their kernels, and the host's function that starts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hipress.compll import ir
from hipress.compll.emit.cuda.function import CudaFunction
from hipress.compll.emit.cuda.steps import CudaSteps
from hipress.compll.emit.target import Target
from hipress.compll.emit.text import definitions, frame_struct, indented, message_items
from hipress.compll.passes.finite import guarding_state
from hipress.compll.passes.fuse import fuse

COMMON = (
    "size_t n = 0;",
    "Params params;",
    "uint32_t stop = 0;",
    "unsigned long long bad = 0;",
    "size_t bytes = 0;",
    "uint32_t ticket = 0;",
)
_OWN = (
    "const float* gradient = nullptr;",
    "float scale = 1;",
    "ops::RandomKey random;",
    "uint8_t* message = nullptr;",
    "uint32_t* messageBytes = nullptr;",
    "uint32_t* error = nullptr;",
    "const uint8_t* payload = nullptr;",
    "size_t capacity = 0;",
)


@dataclass(frozen=True)
class CudaEncoding:
    """An encode function that is emitted."""

    function: CudaFunction
    host: str
    """The lines that start its kernels."""
    sorts: bool
    states: tuple[str, ...]
    method: str
    """The name of the function that runs them."""

    @property
    def kernels(self) -> str:
        """The namespace with the frame and the kernels."""
        return f"namespace {self.function.space} {{\n\n{text(self.function, (*COMMON, *_OWN))}\n}}\n"

    @property
    def listed(self) -> list[str]:
        """The lines that make the kernels."""
        return self.function.kernel_list((False, True) if self.states else (False,))

    @property
    def definition(self) -> str:
        """The host's function."""
        return f"""/// Without `call`, only the bytes of scratch memory.
template <bool kStates>
size_t {self.method}(const cuda::CudaEncode* call, size_t n, [[maybe_unused]] size_t capacity, const Params& params,
                  [[maybe_unused]] cuda::Stream stream) {{
  using namespace {self.function.space};
{indented(memory(self.function), 2)}
  initial.gradient = call->gradient;
  initial.scale = call->scale;
  initial.random = {{call->seed, call->step, call->tensor, call->firstElement}};
  initial.message = call->message;
  initial.messageBytes = call->messageBytes;
  initial.error = call->error;
  initial.payload = call->agreed;
  initial.capacity = capacity;
{indented(self._state_pointers(), 2)}
{indented(self.host, 2)}
  return arena.bytes();
}}
"""

    @property
    def start(self) -> str:
        """The statement that starts it for `call`."""
        arguments = "(&call, call.count, call.agreedBytes, parameters(call.params), stream);"
        if not self.states:
            return f"{self.method}<false>{arguments}"
        return (
            f"if (call.before != nullptr) {{\n  {self.method}<true>{arguments}\n}} else {{\n"
            f"  {self.method}<false>{arguments}\n}}"
        )

    def _state_pointers(self) -> str:
        lines = []
        for number, state in enumerate(self.states):
            name = self.function.names(state)
            lines.append(f"initial.before_{name} = kStates ? call->before[{number}] : nullptr;")
            lines.append(f"initial.after_{name} = kStates ? call->after[{number}] : nullptr;")
        return "\n".join(lines)


def encoding(
    codec: str, function: ir.Function, target: Target, part: str, space: str, refusals: list[str] | None = None
) -> CudaEncoding:
    """`part`: in the symbols of the kernels; `space`: their namespace. Functions of a codec share one list of
    `refusals`."""
    plan_, vectors = fuse(function)
    emitted = CudaFunction(codec, function, vectors, target, decoding=False, part=part, space=space)
    if refusals is not None:
        emitted.refusals = refusals
    for state in function.states:
        emitted.member(f"before_{emitted.names(state)}", "const float*", " = nullptr")
        emitted.member(f"after_{emitted.names(state)}", "float*", " = nullptr")
    emitted.guard = guarding_state(plan_.steps, vectors)
    emitted.gradient_checked = emitted.guard is not None
    steps = CudaSteps(emitted, function.body)
    if any(isinstance(statement, ir.Extract) for statement in function.body):
        steps.lines.append("f.bytes = f.capacity;")
        steps.settle()
    steps.emit(plan_.steps, message_items(function))
    if not emitted.gradient_checked:
        steps.kernel("cuda::checkFinite(block, f->gradient, f->n, f->scale, &f->bad);", "n")
    steps.end(
        "*f->messageBytes = f->bad == 0 && f->stop == 0 ? static_cast<uint32_t>(f->bytes) : 0u;\n"
        "*f->error = f->bad == 0 ? f->stop : 0u;"
    )
    return CudaEncoding(emitted, "\n".join(steps.host), steps.sorts, function.states, f"{part}With")


def text(function: CudaFunction, own: Sequence[str]) -> str:
    """The frame, functions of elements, and kernels."""
    return f"{frame_struct(function, own)}\n{definitions(function)}"


def memory(function: CudaFunction) -> str:
    """Places the vectors in scratch memory. A call that only asks for the size of that memory ends here."""
    takes = [f"initial.{b.member} = arena.take<{b.type}>({b.count});" for b in function.buffers.values()]
    return "\n".join(
        [
            *function.bounds.lines,
            "cuda::Arena arena(call == nullptr ? nullptr : call->scratch);",
            "[[maybe_unused]] Frame* const frame = arena.take<Frame>(1);",
            "Frame initial;",
            *takes,
            "if (call == nullptr) return arena.bytes();",
            "initial.n = n;",
            "initial.params = params;",
            *function.initial,
        ]
    )
