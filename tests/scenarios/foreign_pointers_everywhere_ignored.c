// expect: exit 0
// env: POOLSHIM_FOREIGN=ignore
/* SPDX-License-Identifier: MIT */
/*
 * With POOLSHIM_FOREIGN=ignore a realloc of a foreign pointer fails with ENOMEM and its usable
 * size is 0; sized frees, cfree's kin and operator-free calls skip it too.
 */
#include "foreign_pointer.h"
#include "heap_use.h"

#include <dlfcn.h>
#include <malloc.h>

int main(void) {
    char room[256];
    if (!claim_is_shimmed()) {
        claim_skip("only the shim knows POOLSHIM_FOREIGN");
    }
    void (*sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    void (*operator_delete)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "_ZdlPv");
    CLAIM(sized != NULL && operator_delete != NULL);
    for (int kind = 0; kind < FOREIGN_KINDS; kind++) {
        void *foreign = foreign_pointer((enum foreign_kind)kind, room);
        errno = 0;
        CLAIM(realloc(foreign, 100) == NULL && errno == ENOMEM);
        CLAIM(malloc_usable_size(foreign) == 0);
        sized(foreign, 100);
        operator_delete(foreign);
        CLAIM(heap_use());
    }
    return 0;
}
