// expect: SIGABRT "poolshim: size of foreign pointer"
/* SPDX-License-Identifier: MIT */
/* malloc_usable_size of a pointer that no allocator returned is named and stops the program. */
#include "foreign_pointer.h"

#include <malloc.h>

int main(void) {
    char room[256];
    free(claim_hide(malloc(64)));
    printf("%zu\\n", malloc_usable_size(foreign_pointer(FOREIGN_STATIC, room)));
    return 0;
}
