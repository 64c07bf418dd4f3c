// expect: SIGABRT "poolshim: free of foreign pointer"
/* SPDX-License-Identifier: MIT */
/* free of a pointer that is a small number is named and stops the program. */
#include "foreign_pointer.h"

int main(void) {
    char room[256];
    free(claim_hide(malloc(64)));
    free(foreign_pointer(FOREIGN_NUMBER, room));
    return 0;
}
