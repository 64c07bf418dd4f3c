// expect: SIGABRT "poolshim: realloc of foreign pointer"
/* SPDX-License-Identifier: MIT */
/* realloc of a pointer that no allocator returned is named and stops the program. */
#include "foreign_pointer.h"

#include <malloc.h>

int main(void) {
    char room[256];
    free(claim_hide(malloc(64)));
    claim_hide(realloc(foreign_pointer(FOREIGN_STATIC, room), 100));
    return 0;
}
