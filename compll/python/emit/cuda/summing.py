# SPDX-License-Identifier: Apache-2.0
"""Kernels that decode several messages and add them up in one pass, for a decode that is one pass over the elements.

Each thread of a block first reads the fields of one message. Then the block takes tile after tile, and adds what each
message has for it, in the messages' order. The sum of a tile is in shared memory.
"""

from __future__ import annotations

from hipress.compll.emit.cuda.function import CudaFunction
from hipress.compll.emit.cuda.steps import CudaSteps
from hipress.compll.emit.cuda.tile_pass import CudaPass
from hipress.compll.emit.text import indented
from hipress.compll.passes import plan


def summing_kernel(steps: CudaSteps) -> str | None:
    """The kernel for the steps of a decode so far, which have no end yet; None if they are not one pass."""
    function = steps.function
    if steps.plain is None or steps.prelude is None or steps.block or steps.lines or steps.guard != "f->stop == 0":
        return None
    loop, sinks, computed = steps.plain
    stores = [sink for sink in sinks if isinstance(sink, plan.StoreTo) and sink.place.kind == "gradient"]
    if len(sinks) != 1 or not stores or function.buffers or function.initial:
        return None
    work = CudaPass(function, loop, computed, summing=True)
    work.add(sinks)
    if work.tile.shared or work.tile.words or work.after or work.bad:
        return None
    return f"""struct Sum {{
  Frame initial;  // as far as the host knows it
  cuda::Contributions given;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {{
    HIPRESS_SHARED cuda::OwnFrames<Frame, cuda::kMostSummed> own;
    Frame* const frames = own.frames();
    block.threads([&](unsigned t) {{
      if (t >= given.number || given.all[t].values != nullptr) return;
      const cuda::Contribution& one = given.all[t];
      Frame& f = *own.begin(t, initial);
      f.payload = one.payload;
      f.payloadBytes = one.payloadBytes;
{indented(chr(10).join(steps.prelude), 6)}
      if (block.index == 0) *one.error = f.stop == cuda::kLost ? 0u : f.stop;
    }});
    block.sync();
    HIPRESS_SHARED float sums[cuda::kTile];
    for (size_t tile = block.index * cuda::kTile; tile < given.count; tile += block.count * cuda::kTile) {{
      const cuda::TileSum sum{{given, tile, cuda::tileCount(tile, given.count), sums}};
      sum.begin(block);
      for (unsigned k = 0; k < given.number; ++k) add(block, sum, k, frames + k);
      sum.end(block);
    }}
  }}

 private:
  HIPRESS_DEVICE void add(const cuda::Block& block, const cuda::TileSum& sum, unsigned k, const Frame* f) const {{
    [[maybe_unused]] constexpr bool kAccumulate = false;
    if (given.all[k].values != nullptr) return sum.add(block, k, given.all[k].values);
    if (f->stop != 0) return sum.addEverywhere(block, k, f->stop == cuda::kLost ? static_cast<float>(NAN) : 0.0f);
    [[maybe_unused]] const size_t tile = sum.tile;
    [[maybe_unused]] const unsigned count = sum.count;
{indented(work.opening(), 4)}
{indented(work.text(), 4)}
  }}
}};
"""


def summing_list(function: CudaFunction) -> list[str]:
    """The line that makes the kernel."""
    return [f"HIPRESS_KERNEL({function.codec}_sum, decoding::Sum)"]


def summing_functions(function: CudaFunction) -> str:
    """The host's functions that start the kernel."""
    codec = function.codec
    return f"""
inline size_t sumScratchBytes(size_t number, size_t count) {{
  cuda::Arena arena(nullptr);
  if (number > cuda::kMostSummed) arena.take<float>(count);
  return arena.bytes();
}}

inline void sum(const cuda::CudaSum& call, cuda::Stream stream) {{
  using namespace decoding;
  cuda::Arena arena(call.scratch);
  auto* const partial = arena.take<float>(call.count);  // of more contributions than one kernel takes
  Frame initial;
  cuda::clear(&initial);
  initial.n = call.count;
  initial.params = parameters(call.params);
  initial.capacity = call.capacity;
  for (size_t first = 0; first < call.number; first += cuda::kMostSummed) {{
    const cuda::Contributions part = cuda::contributionsFrom(call, first, partial);
    cuda::launch(stream, "{codec}_sum", cuda::gridFor(call.count), Sum{{initial, part}});
  }}
}}
"""
