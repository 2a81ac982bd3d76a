# SPDX-License-Identifier: Apache-2.0
"""Kernels that decode several messages and add them up in one pass, for a decode that is one pass over the elements.

The first kernel reads the fields of all messages, each in a thread block. In the second one a thread block takes tile
after tile, and adds what each message has for it, in the messages' order. The sum of a tile is in shared memory.
"""

from __future__ import annotations

from hipress.compll.emit.cuda.function import CudaFunction
from hipress.compll.emit.cuda.steps import CudaSteps
from hipress.compll.emit.cuda.tile_pass import CudaPass
from hipress.compll.emit.text import indented
from hipress.compll.passes import plan


def summing_kernels(steps: CudaSteps) -> str | None:
    """The kernels for the steps of a decode so far, which have no end yet; None if they are not one pass."""
    function = steps.function
    if steps.plain is None or len(function.kernels) != 1 or steps.block or steps.lines or steps.guard != "f->stop == 0":
        return None
    loop, sinks, computed = steps.plain
    stores = [sink for sink in sinks if isinstance(sink, plan.StoreTo) and sink.place.kind == "gradient"]
    if len(sinks) != 1 or not stores or function.buffers or function.initial:
        return None
    work = CudaPass(function, loop, computed, summing=True)
    work.add(sinks)
    if work.tile.shared or work.tile.words or work.after or work.bad:
        return None
    return f"""struct Sum0 {{
  Frame* frames;
  Frame initial;  // as far as the host knows it
  cuda::Contributions given;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {{
    const cuda::Contribution& one = given.all[block.index];
    if (one.values != nullptr) return;
    Kernel0<false> reads{{frames + block.index, initial}};
    reads.initial.payload = one.payload;
    reads.initial.payloadBytes = one.payloadBytes;
    reads(block);
    block.once([&] {{ *one.error = reads.frame->stop == cuda::kLost ? 0u : reads.frame->stop; }});
  }}
}};

struct Sum1 {{
  const Frame* frames;
  cuda::Contributions given;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {{
    HIPRESS_SHARED float sums[cuda::kTile];
    for (size_t tile = block.index * cuda::kTile; tile < given.count; tile += block.count * cuda::kTile) {{
      const cuda::TileSum sum{{given, tile, cuda::tileCount(tile, given.count), sums}};
      sum.begin(block);
      for (unsigned k = 0; k < given.number; ++k) add(block, sum, k);
      sum.end(block);
    }}
  }}

 private:
  HIPRESS_DEVICE void add(const cuda::Block& block, const cuda::TileSum& sum, unsigned k) const {{
    [[maybe_unused]] constexpr bool kAccumulate = false;
    const Frame* const f = frames + k;
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
    """The lines that make the kernels."""
    return [f"HIPRESS_KERNEL({function.codec}_sum_{number}, decoding::Sum{number})" for number in range(2)]


def summing_functions(function: CudaFunction) -> str:
    """The host's functions that start the kernels."""
    codec = function.codec
    return f"""
inline size_t sumScratchBytes(size_t number, size_t count) {{
  cuda::Arena arena(nullptr);
  arena.take<decoding::Frame>(cuda::kMostSummed);
  if (number > cuda::kMostSummed) arena.take<float>(count);
  return arena.bytes();
}}

inline void sum(const cuda::CudaSum& call, cuda::Stream stream) {{
  using namespace decoding;
  cuda::Arena arena(call.scratch);
  Frame* const frames = arena.take<Frame>(cuda::kMostSummed);
  auto* const partial = arena.take<float>(call.count);  // of more contributions than one kernel takes
  Frame initial;
  initial.n = call.count;
  initial.params = parameters(call.params);
  initial.capacity = call.capacity;
  for (size_t first = 0; first < call.number; first += cuda::kMostSummed) {{
    const cuda::Contributions part = cuda::contributionsFrom(call, first, partial);
    cuda::launch(stream, "{codec}_sum_0", part.number, Sum0{{frames, initial, part}});
    cuda::launch(stream, "{codec}_sum_1", cuda::gridFor(call.count), Sum1{{frames, part}});
  }}
}}
"""
