// SPDX-License-Identifier: Apache-2.0
//
// The parts of hipress._core. Each file of this folder defines one of these functions.
#pragma once

#include <pybind11/pybind11.h>

namespace hipress::bindings {

void bindErrors(pybind11::module_& module);
void bindCodec(pybind11::module_& module);
void bindPythonCodec(pybind11::module_& module);
void bindLowRank(pybind11::module_& module);
void bindSummed(pybind11::module_& module);
void bindWireHeader(pybind11::module_& module);
void bindElements(pybind11::module_& module);
void bindControl(pybind11::module_& module);
void bindDevice(pybind11::module_& module);
void bindSlots(pybind11::module_& module);
void bindDeviceOperators(pybind11::module_& module);
void bindBlocks(pybind11::module_& module);
void bindTensorSpec(pybind11::module_& module);
void bindGraphs(pybind11::module_& module);
void bindPartitions(pybind11::module_& module);
void bindEngine(pybind11::module_& module);
void bindSharedMemory(pybind11::module_& module);
void bindCodecStates(pybind11::module_& module);
void bindSimulation(pybind11::module_& module);
void bindPartsAsBytes(pybind11::module_& module);

}  // namespace hipress::bindings
