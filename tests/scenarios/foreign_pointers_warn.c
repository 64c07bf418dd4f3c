// expect: exit 0 "poolshim: free of foreign pointer"
// env: POOLSHIM_FOREIGN=warn
/* SPDX-License-Identifier: MIT */
/* With POOLSHIM_FOREIGN=warn a free of any foreign pointer is named on stderr and skipped; the heap
 * works on. */
#include "foreign_pointer.h"

int main(void) { return foreign_pointers_are_skipped(); }
