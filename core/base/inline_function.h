// SPDX-License-Identifier: Apache-2.0
//
// A move-only std::function that stores its callable inside itself. Every message has several callbacks, and
// one allocation for each would cost more than the matching of the message. A callable that does not fit is
// on the heap.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace hipress {

template <typename Signature, size_t Bytes = 48>
class InlineFunction;

template <typename Result, typename... Arguments, size_t Bytes>
class InlineFunction<Result(Arguments...), Bytes> {
 public:
  template <typename Callable>
  static constexpr bool kFits = sizeof(Callable) <= Bytes && alignof(Callable) <= alignof(void*) &&
                                std::is_nothrow_move_constructible_v<Callable>;

  InlineFunction() = default;
  InlineFunction(std::nullptr_t) {}
  InlineFunction(InlineFunction&& other) noexcept { takeFrom(other); }
  template <typename Callable>
    requires(!std::same_as<std::remove_cvref_t<Callable>, InlineFunction> &&
             std::is_invocable_r_v<Result, std::decay_t<Callable>&, Arguments...>)
  InlineFunction(Callable&& callable) {
    using Held = std::decay_t<Callable>;
    if constexpr (kFits<Held>) {
      ::new (static_cast<void*>(storage_)) Held(std::forward<Callable>(callable));
      operations_ = &kOperations<Held>;
    } else {
      auto onHeap = [held = std::make_unique<Held>(std::forward<Callable>(callable))](
                        Arguments... arguments) { return (*held)(std::forward<Arguments>(arguments)...); };
      using OnHeap = decltype(onHeap);
      ::new (static_cast<void*>(storage_)) OnHeap(std::move(onHeap));
      operations_ = &kOperations<OnHeap>;
    }
  }
  ~InlineFunction() { reset(); }

  InlineFunction& operator=(InlineFunction&& other) noexcept {
    if (this != &other) {
      reset();
      takeFrom(other);
    }
    return *this;
  }

  explicit operator bool() const { return operations_ != nullptr; }

  Result operator()(Arguments... arguments) const {
    return operations_->call(storage_, std::forward<Arguments>(arguments)...);
  }

 private:
  struct Operations {
    Result (*call)(void* held, Arguments&&... arguments);
    void (*move)(void* held, void* to) noexcept;  // destroys the source
    void (*destroy)(void* held) noexcept;
  };

  template <typename Held>
  static constexpr Operations kOperations{
      [](void* held, Arguments&&... arguments) -> Result {
        return (*static_cast<Held*>(held))(std::forward<Arguments>(arguments)...);
      },
      [](void* held, void* to) noexcept {
        ::new (to) Held(std::move(*static_cast<Held*>(held)));
        static_cast<Held*>(held)->~Held();
      },
      [](void* held) noexcept { static_cast<Held*>(held)->~Held(); }};

  void takeFrom(InlineFunction& other) noexcept {
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_ != nullptr) operations_->move(other.storage_, storage_);
  }

  void reset() {
    if (const auto* operations = std::exchange(operations_, nullptr)) operations->destroy(storage_);
  }

  alignas(void*) mutable std::byte storage_[Bytes];
  const Operations* operations_ = nullptr;
};

}  // namespace hipress
