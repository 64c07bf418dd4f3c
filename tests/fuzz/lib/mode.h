/* SPDX-License-Identifier: MIT */
/*
 * In which of their modes the pools work, by the input and not by PS_DEBUG: as in everyday builds,
 * as with PS_DEBUG=check, or as with PS_DEBUG=malloc. mode.c replaces pools/common/debug.c. No
 * pool may live when it is chosen.
 */
#ifndef PS_FUZZ_MODE_H
#define PS_FUZZ_MODE_H

#include "tests/fuzz/lib/fuzz.h"

enum mode { MODE_FAST, MODE_CHECK, MODE_MALLOC, MODES };

/* Reads a byte: half of all are for MODE_FAST. */
enum mode mode_choose(struct fuzz_input *input);

#endif
