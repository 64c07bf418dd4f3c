// expect: SIGABRT "poolshim: free of foreign pointer"
/* SPDX-License-Identifier: MIT */
/* free of a pointer beyond the address space is named and stops the program. */
#include "foreign_pointer.h"

int main(void) {
    char room[256];
    free(claim_hide(malloc(64)));
    free(foreign_pointer(FOREIGN_UNCANONICAL, room));
    return 0;
}
