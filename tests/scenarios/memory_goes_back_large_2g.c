// expect: exit 0
// marks: slow
// timeout: 120
/* SPDX-License-Identifier: MIT */
/* From 2 GiB live in 8-MiB blocks down to 10 MiB: under 64 MiB resident soon, or at once by trim.
 */
#include "goes_back.h"

int main(void) { return goes_back_check((size_t)8 << 20, (size_t)2048 << 20); }
