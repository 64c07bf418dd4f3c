// expect: exit 0
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * The heap works in the executable's preinit_array (before every library's constructor), in
 * constructors of priority 101 and later, and in its destructors.
 */
#include "claim.h"
#include "heap_use.h"

static int stages;
static unsigned char *first_block;

static void before_all_constructors(void) {
    first_block = malloc(500);
    if (heap_use() && first_block != NULL) {
        heap_use_write(first_block, 500, 11);
        stages++;
    }
}

__attribute__((section(".preinit_array"),
               used)) static void (*const preinit_entry)(void) = before_all_constructors;

__attribute__((constructor(101))) static void construct_first(void) { stages += heap_use(); }

__attribute__((constructor)) static void construct_later(void) { stages += heap_use(); }

__attribute__((destructor)) static void destruct(void) { CLAIM(heap_use()); }

__attribute__((destructor(101))) static void destruct_last(void) {
    CLAIM(heap_use());
    CLAIM(heap_use_holds(first_block, 500, 11));
    free(first_block);
}

int main(void) {
    CLAIM(stages == 3);
    CLAIM(heap_use_holds(first_block, 500, 11));
    return 0;
}
