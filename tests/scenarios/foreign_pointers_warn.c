// expect: exit 0 "poolshim: free of foreign pointer"
// env: POOLSHIM_FOREIGN=warn
/* SPDX-License-Identifier: MIT */
/* With POOLSHIM_FOREIGN=warn a free of any foreign pointer is named on stderr and skipped; the heap
 * works on. */
#include "foreign_pointer.h"
#include "heap_use.h"

int main(void) {
    char room[256];
    memset(room, 0x42, sizeof room);
    if (!claim_is_shimmed()) {
        claim_skip("only the shim knows POOLSHIM_FOREIGN");
    }
    for (int round = 0; round < 3; round++) {
        for (int kind = 0; kind < FOREIGN_KINDS; kind++) {
            errno = 4711;
            free(foreign_pointer((enum foreign_kind)kind, room));
            CLAIM(errno == 4711);
            CLAIM(heap_use());
        }
    }
    for (unsigned i = 0; i < sizeof room; i++) {
        CLAIM(((volatile char *)room)[i] == 0x42);
    }
    return 0;
}
