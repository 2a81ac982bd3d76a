// SPDX-License-Identifier: Apache-2.0
//
// Lets the other ranks find an update that this rank missed because of an exception between its gradients and
// the optimizer. HipressUpdated counts the updates of a distributed optimizer. A tape knows no optimizer, so
// HipressObserve checks whether variables have changed since the last step.
#include "frameworks/tensorflow/operators/observe.h"

#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/shape_inference.h>

namespace hipress::tensorflow_operators {

REGISTER_OP("HipressObserve")
    .Input("variables: N * resource")
    .Attr("N: int >= 1")
    .Attr("list_number: int")
    .Attr("indices: list(int)")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext*) { return absl::OkStatus(); });
REGISTER_KERNEL_BUILDER(Name("HipressObserve").Device(tf::DEVICE_CPU), Observe);

REGISTER_OP("HipressUpdated")
    .Input("variables: N * resource")
    .Attr("N: int >= 0")
    .Attr("list_number: int")
    .Attr("indices: list(int)")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext*) { return absl::OkStatus(); });
REGISTER_KERNEL_BUILDER(Name("HipressUpdated").Device(tf::DEVICE_CPU), Updated);
// TensorFlow runs an operator where its variables are, and this one does not read them.
REGISTER_KERNEL_BUILDER(Name("HipressUpdated").Device(tf::DEVICE_GPU).HostMemory("variables"), Updated);

}  // namespace hipress::tensorflow_operators
