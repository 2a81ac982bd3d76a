// SPDX-License-Identifier: Apache-2.0
//
// Kernels on the processor, thread by thread, for tests with HIPRESS_THREAD_EXECUTION; execution.h says how
// to write kernels. Each thread of a block is a context with a stack of its own, which runs until it comes to
// a barrier. So a thread is ahead of the others by all that lies between two barriers, as far as a GPU's
// threads ever are, and a missing barrier gives wrong values. host.h runs the same kernels much
// faster, but does a step for all threads before the next one.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/ops/cuda/execution/processor.h"

#define HIPRESS_DEVICE
#define HIPRESS_SHARED static
#define HIPRESS_UNROLL
#define HIPRESS_KERNEL(symbol, ...)

namespace hipress::cuda {

/// The threads of one block.
class ThreadContexts {
 public:
  static ThreadContexts& all() {
    static ThreadContexts contexts;
    return contexts;
  }

  /// Runs work(t) for all threads t, and returns when all have ended.
  template <typename Work>
  void run(const Work& work) {
    static const Work* current = nullptr;
    current = &work;
    for (unsigned t = 0; t < kThreads; ++t) {
      Thread& thread = threads_[t];
      thread.done = false;
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack.data();
      thread.context.uc_stack.ss_size = thread.stack.size();
      thread.context.uc_link = &scheduler_;
      makecontext(&thread.context, reinterpret_cast<void (*)()>(+[](unsigned number) {
        (*current)(number);
        all().threads_[number].done = true;
      }),
                  1, t);
    }
    for (bool forwards = true;; forwards = !forwards) {
      unsigned ended = 0;
      for (unsigned k = 0; k < kThreads; ++k) {
        at_ = forwards ? k : kThreads - 1 - k;
        swapcontext(&scheduler_, &threads_[at_].context);
        ended += threads_[at_].done ? 1 : 0;
      }
      if (ended == kThreads) return;
      if (ended != 0) {
        std::fprintf(stderr, "%u of %u threads ended while the others wait at a barrier\n", ended, kThreads);
        std::abort();
      }
    }
  }

  /// All threads wait for each other.
  void sync() { swapcontext(&threads_[at_].context, &scheduler_); }

 private:
  struct Thread {
    ucontext_t context{};
    std::vector<char> stack = std::vector<char>(size_t{1} << 17);
    bool done = false;
  };

  ThreadContexts() : threads_(kThreads) {}

  std::vector<Thread> threads_;
  ucontext_t scheduler_{};
  unsigned at_ = 0;  ///< The thread that runs.
};

struct Block {
  size_t index;
  size_t count;
  unsigned thread;

  void sync() const { ThreadContexts::all().sync(); }

  template <typename Body>
  void threads(Body body) const {
    body(thread);
  }

  template <typename Body>
  void once(Body body) const {
    if (thread == 0) body();
  }

  bool last(uint32_t* ticket) const {
    static bool isLast;
    sync();
    if (thread == 0) {
      *ticket = (*ticket + 1) % static_cast<uint32_t>(count);
      isLast = *ticket == 0;
    }
    sync();
    return isLast;
  }

  template <typename Given, typename Made, typename Load, typename Body, typename Store>
  void rows(unsigned elements, Load load, Body body, Store store) const {
    const auto row = [&]<unsigned number>(unsigned first, Row<number> some) {
      Given given[number]{};
      Made made[number]{};
      load(first, some, given);
      for (unsigned k = 0; k < number; ++k) body(first + k, given[k], made[k]);
      store(first, some, made);
    };
    if (elements == kTile) return row(kRow * thread, Row<kRow>{});
    for (unsigned j = thread; j < elements; j += kThreads) row(j, Row<1>{});
  }

  template <typename Body>
  void elements(unsigned elements, Body body) const {
    for (unsigned j = thread; j < elements; j += kThreads) body(j);
  }
};

template <typename Kernel>
void launch(Stream, const char*, unsigned blocks, const Kernel& kernel) {
  for (size_t index = 0; index < blocks; ++index) {
    ThreadContexts::all().run([&](unsigned thread) { kernel(Block{index, blocks, thread}); });
  }
}

}  // namespace hipress::cuda
