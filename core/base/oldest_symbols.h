// SPDX-License-Identifier: Apache-2.0
//
// Older names of symbols, for the compiler's option -include. A wheel that GCC 12 or newer builds then loads
// with the libstdc++ of GCC 11, which Red Hat Enterprise Linux 9 and Amazon Linux 2023 have.
#pragma once

// GCC 12 gave this function a second version. libstdc++ still has the first one, which does the same.
__asm__(
    ".symver _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
