// SPDX-License-Identifier: Apache-2.0
//
// Each runs one round of its scenario; stress.cc repeats it until its time is up. Cells of the grid are run
// once each.
#pragma once

#include "tests/core/stress/world/random.h"

namespace hipress::stress {

void stressCollectives(Random& random);  ///< Values, order, threads, over the in-process transport.
void stressAgreement(Random& random);    ///< declare() and agree() from several threads; conflicts.
void stressPlans(Random& random);        ///< Tensors that travel another way after some steps; groups.
void stressDevices(Random& random);      ///< Tensors on simulated devices that fail, hang, or only are late.
void stressFailures(Random& random);     ///< Lost, corrupted and late messages; ranks and engines that end.
void stressUcx(Random& random);          ///< Collectives over UCX and TCP control.
void stressUcxFailures(Random& random);  ///< Engines that end, over the same.
void stressQueues(Random& random);       ///< The two queues and the mailbox.
void stressBundles(Random& random);      ///< Small messages that go together; transports that split them.
void stressRounds(Random& random);       ///< Which link large messages use now; the coordinator.
void stressParallel(Random& random);     ///< Bodies shared out over lanes that are busy, idle or stopped.
void stressParts(Random& random);        ///< Buffer pool.
void stressStates(Random& random);       ///< State store: swaps, failures, other partitions, many threads.
void stressSlots(Random& random);        ///< The stages of a process group's average, in threads.
void stressTrace(Random& random);        ///< Recording while writing; several writers of one file.

int gridCells();
void runGridCell(Random& random, int number);

}  // namespace hipress::stress
