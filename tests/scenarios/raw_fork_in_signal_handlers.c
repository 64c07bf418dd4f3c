// expect: exit 0
// marks: fork slow
// timeout: 90
/* SPDX-License-Identifier: MIT */
/* Handlers fork by _Fork, which runs no fork handlers and is what POSIX allows there. */
#define SIGNAL_FORKS_BY _Fork
#include "signal_forks.h"
