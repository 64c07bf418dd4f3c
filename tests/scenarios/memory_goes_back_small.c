// expect: exit 0
// timeout: 120
/* SPDX-License-Identifier: MIT */
/* From 512 MiB live in 64-byte blocks down to 10 MiB: under 64 MiB resident soon, or at once by
 * trim. */
#include "goes_back.h"

int main(void) { return goes_back_check((size_t)64, (size_t)512 << 20); }
