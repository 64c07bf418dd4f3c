// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * The program itself has taken every mapping that the kernel allows: malloc serves from what it has
 * or returns NULL with ENOMEM, free never fails, blocks are intact; and when the mappings are
 * released all works again and nothing was lost.
 */
#include "claim.h"
#include "heap_use.h"

#include <sys/mman.h>

#define MIB ((size_t)1 << 20)
#define PAGES_MAX 200000 /* more would take too long */
#define BLOCKS 400

static void *blocks[BLOCKS];

static size_t size_of(int i) {
    return i % 20 == 19 ? 40 * MIB : i % 5 == 4 ? 300000 : 20 + (size_t)i * 991 % 60000;
}

static void use(int round) {
    for (int i = 0; i < BLOCKS; i++) {
        errno = 0;
        void *block = realloc(blocks[i], size_of((i + round) % BLOCKS));
        if (block != NULL) {
            blocks[i] = block;
            claim_fill(block, 20, (unsigned)i);
        } else {
            CLAIM(errno == ENOMEM);
        }
    }
    for (int i = round % 2; i < BLOCKS; i += 2) {
        CLAIM(blocks[i] == NULL || claim_is_filled(blocks[i], 20, (unsigned)i));
        errno = 4711;
        free(blocks[i]);
        CLAIM(errno == 4711);
        blocks[i] = NULL;
    }
}

static void *map_page(size_t number) {
    int protection = number % 2 == 0 ? PROT_READ : PROT_NONE; /* neighbours do not become one */
    return mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(void) {
    static void *pages[PAGES_MAX];
    size_t count = 0;
    use(0);
    while (count < PAGES_MAX && (pages[count] = map_page(count)) != MAP_FAILED) {
        count++;
    }
    if (count == PAGES_MAX) {
        claim_skip("this system allows a process very many mappings");
    }
    for (int round = 0; round < 6; round++) {
        use(round);
    }
    for (size_t i = 0; i < count; i++) {
        CLAIM(munmap(pages[i], 4096) == 0);
    }
    for (int i = 0; i < BLOCKS; i++) {
        CLAIM(blocks[i] == NULL || claim_is_filled(blocks[i], 20, (unsigned)i));
        free(blocks[i]);
    }
    CLAIM(heap_use());
    return 0;
}
