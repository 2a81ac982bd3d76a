// SPDX-License-Identifier: Apache-2.0
//
// HipressAllgather and HipressAlltoall. The sizes of their results are known when the other ranks have sent
// theirs: a thread of the engine then allocates the results.
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/shape_inference.h>

#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/tensorflow/operators/completion.h"
#include "frameworks/tensorflow/operators/tensor_view.h"

namespace hipress::tensorflow_operators {
namespace {

/// names, ..., tensors -> tensors with all ranks' rows, and for each one the number of rows from each rank.
class BlocksKernel : public tf::AsyncOpKernel {
 public:
  BlocksKernel(tf::OpKernelConstruction* construction, Collective collective)
      : tf::AsyncOpKernel(construction), collective_(collective) {
    OP_REQUIRES_OK(construction, construction->GetAttr("loops", &loops_));
    OP_REQUIRES_OK(construction, construction->GetAttr("among", &among_));
  }

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    const int count = context->num_outputs() / 2;
    const int first = context->num_inputs() - count;
    const std::vector<std::string> names = namesOf(context, loops_);
    OP_REQUIRES_ASYNC(context, names.size() == static_cast<size_t>(count),
                      absl::InvalidArgumentError("every tensor needs a name"), done);
    std::shared_ptr<NamesInFlight> inFlight;
    if (!guarded(context, [&] { inFlight = NamesInFlight::take(names); })) return done();
    const auto completion =
        std::make_shared<Completion>(context, std::move(done), count, std::move(inFlight));
    const auto outputs = std::make_shared<std::mutex>();
    // These are copies, because the context ends when the last operation has ended.
    std::vector<std::pair<std::string, tf::Tensor>> tensors;
    for (int i = 0; i < count; ++i)
      tensors.emplace_back(names[static_cast<size_t>(i)], context->input(first + i));
    const std::vector<int64_t> splits = splitsOf(context);
    const Collective collective = collective_;
    const ProcessSet among = among_;
    for (int i = 0; i < count; ++i) {
      const auto& [name, tensor] = tensors[static_cast<size_t>(i)];
      completion->guarded([&, &name = name, &tensor = tensor] {
        move(context, collective, among, name, tensor, splits, i, count, completion, outputs);
      });
    }
  }

 protected:
  /// The number of rows for each rank; empty: all rows for every rank, or the same number for each.
  virtual std::vector<int64_t> splitsOf(tf::OpKernelContext* /*context*/) const { return {}; }

 private:
  static std::vector<uint64_t> rowsFor(const std::string& name, Collective collective, int64_t rows,
                                       const std::vector<int64_t>& splits, int ranks) {
    if (collective == Collective::kAllgather) return {static_cast<uint64_t>(rows)};
    const std::string where = "tensor '" + name + "': ";
    if (splits.empty()) {
      if (rows % ranks != 0) {
        throw invalidArgument(where + std::to_string(rows) + " rows cannot be divided evenly among " +
                              std::to_string(ranks) + " ranks; give splits");
      }
      return std::vector<uint64_t>(static_cast<size_t>(ranks), static_cast<uint64_t>(rows / ranks));
    }
    std::vector<uint64_t> counts;
    for (const int64_t split : splits) {
      if (split < 0) throw invalidArgument(where + "splits must not be negative");
      counts.push_back(static_cast<uint64_t>(split));
    }
    const auto all = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
    if (counts.size() != static_cast<size_t>(ranks) || all != static_cast<uint64_t>(rows)) {
      throw invalidArgument(where + std::to_string(counts.size()) + " splits have " + std::to_string(all) +
                            " rows; give " + std::to_string(ranks) + " for " + std::to_string(rows) +
                            " rows");
    }
    return counts;
  }

  static void move(tf::OpKernelContext* context, Collective collective, const ProcessSet& among,
                   const std::string& name, const tf::Tensor& tensor, const std::vector<int64_t>& splits,
                   int index, int count, const std::shared_ptr<Completion>& completion,
                   const std::shared_ptr<std::mutex>& outputs) {
    if (tensor.dims() == 0)
      throw invalidArgument("tensor '" + name + "' is a scalar; ranks exchange rows: reshape it to [1]");
    const auto engine = currentEngine();
    tf::TensorShape row = tensor.shape();
    row.RemoveDim(0);
    TensorSpec spec;
    spec.name = name;
    spec.among = among;
    if (collective == Collective::kAlltoall) {
      spec.options = AlltoallOptions{};
    } else {
      spec.options = AllgatherOptions{};
    }
    spec.dtype = dtypeOf(tensor.dtype()).value();  // the operator takes no other types
    spec.shape =
        "[*" + (row.dims() == 0 ? "]" : ", " + shapeText(row).substr(1)) + elementText(tensor.dtype());
    spec.transient = true;
    BlockSubmission blocks;
    blocks.input = tensor.data();
    blocks.rowElements = static_cast<uint64_t>(row.num_elements()) * partsOf(tensor.dtype());
    blocks.rows = rowsFor(name, collective, tensor.dim_size(0), splits, sizeOf(among, engine->worldSize()));
    blocks.keepAlive = ownerOf(tensor, tensor);
    blocks.allocate = [context, row, index, count, outputs](std::span<const uint64_t> rowsFrom) -> void* {
      tf::TensorShape shape = row;
      const auto rows = std::accumulate(rowsFrom.begin(), rowsFrom.end(), uint64_t{0});
      shape.InsertDim(0, static_cast<int64_t>(rows));
      const std::lock_guard lock(*outputs);
      tf::Tensor* output = nullptr;
      tf::Tensor* received = nullptr;
      const auto ranks = static_cast<int64_t>(rowsFrom.size());
      absl::Status status = context->allocate_output(index, shape, &output);
      if (status.ok()) status = context->allocate_output(count + index, {ranks}, &received);
      if (!status.ok()) throw unsupported(std::string(status.message()));
      for (int64_t rank = 0; rank < ranks; ++rank)
        received->flat<int64_t>()(rank) = static_cast<int64_t>(rowsFrom[static_cast<size_t>(rank)]);
      return output->data();
    };
    blocks.onDone = [end = completion->onDone()](const Failure& failure) { end(failure, false); };
    engine->moveBlocks(std::move(spec), std::move(blocks));
  }

  const Collective collective_;
  int64_t loops_ = 0;
  ProcessSet among_;
};

class Allgather final : public BlocksKernel {
 public:
  explicit Allgather(tf::OpKernelConstruction* construction)
      : BlocksKernel(construction, Collective::kAllgather) {}
};

class Alltoall final : public BlocksKernel {
 public:
  explicit Alltoall(tf::OpKernelConstruction* construction)
      : BlocksKernel(construction, Collective::kAlltoall) {}

 private:
  std::vector<int64_t> splitsOf(tf::OpKernelContext* context) const override {
    const auto splits = context->input(1).flat<int64_t>();
    return {splits.data(), splits.data() + splits.size()};
  }
};

absl::Status otherRows(tf::shape_inference::InferenceContext* context) {
  const int count = context->num_outputs() / 2;
  const int first = context->num_inputs() - count;
  for (int i = 0; i < count; ++i) {
    tf::shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(context->WithRankAtLeast(context->input(first + i), 1, &shape));
    TF_RETURN_IF_ERROR(context->ReplaceDim(shape, 0, context->UnknownDim(), &shape));
    context->set_output(i, shape);
    context->set_output(count + i, context->Vector(tf::shape_inference::InferenceContext::kUnknownDim));
  }
  return absl::OkStatus();
}

}  // namespace

REGISTER_OP("HipressAllgather")
    .Input("names: string")
    .Input("tensors: T")
    .Output("gathered: T")
    .Output("rows: N * int64")
    .Attr(
        "T: list({float, double, half, bfloat16, uint8, uint16, uint32, uint64, int8, int16, int32, int64, "
        "bool, complex64, complex128}) >= 1")
    .Attr("N: int >= 1")
    .Attr("loops: int = 0")
    .Attr("among: list(int) = []")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(otherRows);
REGISTER_OP("HipressAlltoall")
    .Input("names: string")
    .Input("splits: int64")
    .Input("tensors: T")
    .Output("received: T")
    .Output("rows: N * int64")
    .Attr(
        "T: list({float, double, half, bfloat16, uint8, uint16, uint32, uint64, int8, int16, int32, int64, "
        "bool, complex64, complex128}) >= 1")
    .Attr("N: int >= 1")
    .Attr("loops: int = 0")
    .Attr("among: list(int) = []")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(otherRows);
REGISTER_KERNEL_BUILDER(Name("HipressAllgather").Device(tf::DEVICE_CPU), Allgather);
REGISTER_KERNEL_BUILDER(Name("HipressAlltoall").Device(tf::DEVICE_CPU), Alltoall);

}  // namespace hipress::tensorflow_operators
