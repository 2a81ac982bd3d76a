// SPDX-License-Identifier: Apache-2.0
//
// Each function runs one round of its scenario, and stress.cc repeats it until its time is up. It runs each
// cell of the grid once.
#pragma once

#include "tests/core/stress/world/random.h"

namespace hipress::stress {

void stressCollectives(Random& random);  ///< Values, order and threads over the in-process transport.
void stressAgreement(Random& random);    ///< declare() and agree() from several threads; conflicts.
void stressProcessSets(Random& random);  ///< Operations among overlapping sets of ranks, in any order.
void stressJoins(Random& random);        ///< Ranks with fewer steps than others, which join.
void stressPlans(Random& random);        ///< Tensors that travel another way after some steps; groups.
void stressDevices(Random& random);      ///< Tensors on simulated devices that fail, hang, or are late.
void stressFailures(Random& random);     ///< Lost, corrupted and late messages; ranks and engines that end.
void stressUcx(Random& random);          ///< Collectives over UCX and TCP control.
void stressUcxFailures(Random& random);  ///< Engines that end, over UCX and TCP control.
void stressQueues(Random& random);       ///< The compute and the communication queue, the mailbox.
void stressMemory(Random& random);       ///< Missing memory at places without a caller who could be told.
void stressBundles(Random& random);      ///< Small messages in bundles; transports that split bundles.
void stressRounds(Random& random);       ///< Links in rounds for large messages; the coordinator.
void stressParallel(Random& random);     ///< Bodies that busy, idle or stopped lanes share.
void stressParts(Random& random);        ///< The buffer pool.
void stressStates(Random& random);       ///< The state store: swaps, failures, other partitions, threads.
void stressSlots(Random& random);        ///< The stages of a process group's average, in threads.
void stressTrace(Random& random);        ///< Recording while writing; several writers of one file.

int gridCells();
void runGridCell(Random& random, int number);

}  // namespace hipress::stress
