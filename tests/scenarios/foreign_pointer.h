/* SPDX-License-Identifier: MIT */
/*
 * Pointers that no allocator returned: on the stack, static, in code, in a mapping of the
 * program, low and unmapped. Used by the scenarios about foreign pointers; one thread.
 */
#ifndef PS_TESTS_FOREIGN_H
#define PS_TESTS_FOREIGN_H

#include "claim.h"
#include "heap_use.h"

#include <sys/mman.h>

enum foreign_kind {
    FOREIGN_STACK,
    FOREIGN_STATIC,
    FOREIGN_CODE,
    FOREIGN_MAPPING,
    FOREIGN_NUMBER,
    FOREIGN_UNCANONICAL,
    FOREIGN_KINDS
};

static char foreign_static_bytes[4096] __attribute__((aligned(64)));

/* Writes the address to *pointer; the stack one lies in the caller's `room` of 256 bytes. */
__attribute__((unused)) static void *foreign_pointer(enum foreign_kind kind, char *room) {
    switch (kind) {
    case FOREIGN_STACK:
        return claim_hide(room + 64);
    case FOREIGN_STATIC:
        return claim_hide(foreign_static_bytes + 128);
    case FOREIGN_CODE:
        return claim_hide((void *)(uintptr_t)foreign_pointer);
    case FOREIGN_MAPPING: {
        void *mapping =
            mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CLAIM(mapping != MAP_FAILED);
        return claim_hide((char *)mapping + 4096);
    }
    case FOREIGN_NUMBER:
        return claim_hide((void *)(uintptr_t)0x10);
    default:
        return claim_hide((void *)(uintptr_t)0xdead00000000beb0);
    }
}

/* What POOLSHIM_FOREIGN=warn and =ignore have in common; main's result. */
__attribute__((unused)) static int foreign_pointers_are_skipped(void) {
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

#endif
