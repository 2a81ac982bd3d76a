# SPDX-License-Identifier: Apache-2.0
"""Encode functions for GPUs: their kernels, and the host's function that starts them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from hipress.compll import ir
from hipress.compll.emit.cuda.function import CudaFunction
from hipress.compll.emit.cuda.one_pass import SeveralPasses, one_pass_block
from hipress.compll.emit.cuda.steps import CudaSteps
from hipress.compll.emit.cuda.tile import RANDOM
from hipress.compll.emit.target import Target
from hipress.compll.emit.text import definitions, frame_struct, indented, message_items
from hipress.compll.passes import plan
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
{indented(self._key(), 2)}
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

    def _key(self) -> str:
        """Sets the key of random numbers if kernels draw some. It differs from step to step, and without it the
        kernels' objects are those of the step before, which the GPU still has."""
        function = self.function
        text = "\n".join([*function.at_functions.values(), *function.functors.values(), *function.kernels])
        always = re.search(r"\bf(->|\.)random\b", text.replace(RANDOM, "")) is not None
        conditions = {"true"} if always else function.draws
        key = "initial.random = {call->seed, call->step, call->tensor, call->firstElement};"
        if "true" in conditions:
            return key
        return f"if ({' || '.join(sorted(conditions))}) {key}" if conditions else ""

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
    host = _started(steps, plan_.steps)
    block = one_pass_block(plan_.steps, vectors)
    size = None if block is None else emitted.bounds.known(block)
    if size is not None:
        emitted.gradient_checked = emitted.guard is not None
        fits = f"cuda::takesOnePass(static_cast<size_t>(ops::atLeastOne({size})))"
        with suppress(SeveralPasses):
            short = indented(_started(CudaSteps(emitted, function.body, one_pass=True), plan_.steps), 2)
            host = f"if ({fits}) {{\n{short}\n}} else {{\n{indented(host, 2)}\n}}"
    return CudaEncoding(emitted, host, steps.sorts, function.states, f"{part}With")


def _started(steps: CudaSteps, planned: list[plan.Step]) -> str:
    """The host's lines that start the kernels of an encode."""
    steps.emit(planned, message_items(steps.vectors.function))
    if not steps.function.gradient_checked:
        steps.kernel("cuda::checkFinite(block, f->gradient, f->n, f->scale, &f->bad);", "n")
    steps.end(
        "*f->messageBytes = f->bad == 0 && f->stop == 0 ? static_cast<uint32_t>(f->bytes) : 0u;\n"
        "*f->error = f->bad == 0 ? f->stop : 0u;"
    )
    return "\n".join(steps.host)


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
            *(["Frame* const frame = arena.take<Frame>(1);"] if len(function.kernels) > 1 else []),
            "Frame initial;",
            "cuda::clear(&initial);",
            *takes,
            "if (call == nullptr) return arena.bytes();",
            "initial.n = n;",
            "initial.params = params;",
            *function.initial,
        ]
    )
