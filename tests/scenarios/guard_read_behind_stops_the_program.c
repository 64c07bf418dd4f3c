// expect: SIGSEGV "overflow (read) at 0x" ", 1 byte after a block of 64 at 0x"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* A read of the first byte past a guarded block whose size needs no slack stops. */
#include "guarded.h"

int main(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < GUARDED_TRIES; i++) {
        volatile char *block = claim_hide(malloc(64));
        if (((uintptr_t)block + 64) % page == 0) {
            return block[64];
        }
    }
    return 0;
}
