// expect: exit 0
// marks: fork slow
// timeout: 90
/* SPDX-License-Identifier: MIT */
/* Handlers call fork, with all its fork handlers. */
#define SIGNAL_FORKS_BY fork
#include "signal_forks.h"
