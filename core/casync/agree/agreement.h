// SPDX-License-Identifier: Apache-2.0
//
// The agreement of ranks on tensors: the first one, and later ones that change how tensors travel.
#pragma once

#include <string>
#include <vector>

#include "core/casync/agree/tensor_registry.h"
#include "core/codec/state/state_store.h"
#include "core/control/control_plane.h"

namespace hipress {

/// A tensor that travels in another way from now on; see Engine::agreeAnew().
struct AgreedAnew {
  TensorHandle handle = 0;
  /// The residual of elements that this rank no longer encodes. The caller adds it once, to the tensor's next
  /// values.
  std::vector<float> unsent;
};

/// Has no state of its own: the registry has the agreed tensors. Thread-safe if the registry is.
class Agreement {
 public:
  Agreement(ControlPlane& control, Milliseconds timeout, TensorRegistry& registry, StateStore& states)
      : control_(control), timeout_(timeout), registry_(registry), states_(states) {}

  /// See Engine::declare(), agree(), forget() and agreeAnew(). A list costs two questions to rank 0: one for
  /// its tensors and groups, one for the linked tensors.
  std::vector<TensorHandle> declare(const std::vector<TensorSpec>& specs);
  std::vector<TensorHandle> agree(const std::string& listName, const std::vector<TensorSpec>& specs);
  void forget(const std::vector<TensorHandle>& handles);
  std::vector<AgreedAnew> agreeAnew(const std::string& listName, const std::vector<TensorHandle>& handles,
                                    const std::vector<TensorSpec>& specs);

 private:
  struct Named {
    TensorSpec spec;
    std::string ledgerName;  ///< The tensor's name at rank 0.
  };
  std::vector<TensorHandle> declareAll(const std::vector<Named>& tensors);
  std::vector<uint32_t> numbersFor(const std::vector<Named>& tensors);
  void compareLists(const std::string& listName, const std::vector<TensorSpec>& specs);
  void checkChange(const std::string& listName, TensorHandle handle, const TensorSpec& next) const;
  bool isSentAsBefore(TensorHandle handle, const TensorSpec& next,
                      const std::vector<TensorHandle>& members) const;

  ControlPlane& control_;
  const Milliseconds timeout_;
  TensorRegistry& registry_;
  StateStore& states_;
};

}  // namespace hipress
