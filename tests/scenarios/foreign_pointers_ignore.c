// expect: exit 0
// env: POOLSHIM_FOREIGN=ignore
/* SPDX-License-Identifier: MIT */
/* With POOLSHIM_FOREIGN=ignore a free of any foreign pointer is skipped in silence; the heap works
 * on. */
#include "foreign_pointer.h"

int main(void) { return foreign_pointers_are_skipped(); }
