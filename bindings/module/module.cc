// SPDX-License-Identifier: Apache-2.0
#include "bindings/module/module.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "HiPress' core: codecs, transports, the synchronisation runtime.";
  hipress::bindings::bindErrors(module);
  hipress::bindings::bindCodec(module);
  hipress::bindings::bindPythonCodec(module);
  hipress::bindings::bindLowRank(module);
  hipress::bindings::bindSummed(module);
  hipress::bindings::bindWireHeader(module);
  hipress::bindings::bindElements(module);
  hipress::bindings::bindControl(module);
  hipress::bindings::bindDevice(module);
  hipress::bindings::bindSlots(module);
  hipress::bindings::bindDeviceOperators(module);
  hipress::bindings::bindTensorSpec(module);
  hipress::bindings::bindEngine(module);
  hipress::bindings::bindSharedMemory(module);
  hipress::bindings::bindCodecStates(module);
  hipress::bindings::bindGraphs(module);
  hipress::bindings::bindPartitions(module);
  hipress::bindings::bindBlocks(module);
  hipress::bindings::bindSimulation(module);
  hipress::bindings::bindPartsAsBytes(module);
}
