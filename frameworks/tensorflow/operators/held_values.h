// SPDX-License-Identifier: Apache-2.0
//
// A residual that another codec has left (TensorList::holdBack()), on its way with the next values of its
// tensor. It waits for one more step if the result is not finite, because such a result updates no variable.
#pragma once

#include <tensorflow/core/framework/op_kernel.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "core/element/convert.h"
#include "frameworks/tensorflow/operators/tensor_lists.h"
#include "frameworks/tensorflow/operators/tensor_place.h"
#include "frameworks/tensorflow/operators/tensor_view.h"

namespace hipress::tensorflow_operators {

inline std::vector<float> floatsOf(const void* values, size_t count, DType dtype) {
  std::vector<float> floats(count);
  widen(values, dtype, floats);
  return floats;
}

inline bool allFinite(const void* values, size_t count, DType dtype) {
  return std::ranges::all_of(floatsOf(values, count, dtype),
                             [](float value) { return std::isfinite(value); });
}

/// output = values + held. Returns memory of the place that must stay until the operation has ended. Throws
/// Unsupported if there is no such memory.
inline tf::Tensor join(tf::OpKernelContext* context, const TensorPlace& place, const tf::Tensor& values,
                       const std::vector<float>& held, tf::Tensor& output) {
  const DType dtype = dtypeOf(values.dtype()).value();  // the operator takes no other types
  if (place.operators != nullptr) {
    tf::Tensor workspace;
    const auto count = static_cast<int64_t>(held.size());
    const absl::Status status = context->allocate_temp(tf::DT_FLOAT, {count}, &workspace);
    if (!status.ok()) throw unsupported(std::string(status.message()));
    place.operators->addHeld(place.stream, dtype, values.data(), held,
                             {workspace.flat<float>().data(), held.size()}, output.data());
    return workspace;
  }
  std::vector<float> sums = floatsOf(values.data(), held.size(), dtype);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += held[i];
  narrow(sums, dtype, output.data());
  return {};
}

/// Calls `inner` at the end of an operation, after the check of its result: `held` waits for the next step if
/// the result is not finite. Keeps `kept` until then.
inline OnDone checkedResult(std::shared_ptr<TensorList> list, size_t index, std::vector<float> held,
                            const TensorPlace& place, const tf::Tensor& output, tf::Tensor kept,
                            OnDone inner) {
  struct Check {
    std::shared_ptr<TensorList> list;
    size_t index;
    std::vector<float> held;
    TensorPlace place;
    tf::Tensor output;
    tf::Tensor kept;
    OnDone inner;

    void of(const void* values) {
      if (!allFinite(values, held.size(), dtypeOf(output.dtype()).value()))
        list->holdBack(index, std::move(held));
    }
  };
  const auto check = std::make_shared<Check>(
      Check{std::move(list), index, std::move(held), place, output, std::move(kept), std::move(inner)});
  return [check](const Failure& failure, bool absent) {
    if (failure != nullptr) return check->inner(failure, absent);
    const tf::Tensor& result = check->output;
    if (check->place.operators == nullptr) {
      check->of(result.data());
      return check->inner(nullptr, absent);
    }
    // The thread of the device that calls this must not wait for a copy.
    const ConstBytes bytes(static_cast<const std::byte*>(result.data()), result.TotalBytes());
    check->place.operators->read(check->place.stream, bytes,
                                 [check, absent](const Failure& broken, ConstBytes values) {
                                   if (broken == nullptr) check->of(values.data());
                                   check->inner(broken, absent);
                                 });
  };
}

}  // namespace hipress::tensorflow_operators
