// expect: SIGABRT "poolshim: free of foreign pointer"
/* SPDX-License-Identifier: MIT */
/* free of a pointer into a mapping of the program's own is named and stops the program. */
#include "foreign_pointer.h"

int main(void) {
    char room[256];
    free(claim_hide(malloc(64)));
    free(foreign_pointer(FOREIGN_MAPPING, room));
    return 0;
}
