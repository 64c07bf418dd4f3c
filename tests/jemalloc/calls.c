/* SPDX-License-Identifier: MIT */
/*
 * mallocx and its relatives: what their manual says of sizes, alignments, flags and limits.
 */
#include "claims.h"

static size_t by_index(const char *name, size_t index) {
    size_t mib[4];
    size_t mib_length = 4;
    size_t value;
    size_t length = sizeof value;
    CLAIM(mallctlnametomib(name, mib, &mib_length) == 0);
    mib[2] = index;
    CLAIM(mallctlbymib(mib, mib_length, &value, &length, NULL, 0) == 0);
    return value;
}
static size_t small_size(size_t index) { return by_index("arenas.bin.0.size", index); }
static size_t large_size(size_t index) { return by_index("arenas.lextent.0.size", index); }
static size_t small_most(void) { return small_size(READ("arenas.nbins", unsigned) - 1); }
static size_t large_most(void) { return large_size(READ("arenas.nlextents", unsigned) - 1); }

static void sizes_are_those_of_nallocx(void) {
    for (size_t size = 1; size < (size_t)8 << 20; size = nallocx(size + (size >> 5), 0) + 1) {
        size_t length = nallocx(size, 0);
        CLAIM(length >= size && nallocx(length, 0) == length &&
              nallocx(size, MALLOCX_ZERO) == length);
        for (int flags = 0; flags <= MALLOCX_ZERO; flags += MALLOCX_ZERO) {
            char *block = mallocx(size, flags);
            CLAIM(block != NULL && sallocx(block, 0) == length &&
                  malloc_usable_size(block) == length);
            CLAIM(flags == 0 || is_filled(block, 0, 0, length));
            memset(block, 0x5a, length);
            sdallocx(block, size, 0);
        }
    }
}

static void blocks_are_aligned(void) {
    for (size_t align = 1; align <= (size_t)8 << 20; align <<= 1) {
        int flags = MALLOCX_ALIGN(align) | MALLOCX_ZERO;
        for (size_t size = 1; size < 3 * align && size < 64 << 20; size += align / 3 + 1) {
            char *blocks[3];
            for (int i = 0; i < 3; i++) {
                blocks[i] = mallocx(size, flags);
                CLAIM(blocks[i] != NULL && (uintptr_t)blocks[i] % align == 0);
                CLAIM(sallocx(blocks[i], 0) == nallocx(size, flags));
                CLAIM(is_filled(blocks[i], 0, 0, size < 5000 ? size : 5000));
                blocks[i][0] = blocks[i][size - 1] = 1;
            }
            for (int i = 0; i < 3; i++) {
                sdallocx(blocks[i], size, MALLOCX_ALIGN(align));
            }
        }
    }
}

static void too_much_is_refused(void) {
    size_t most = large_most();
    void *block = mallocx(1, 0);
    const size_t sizes[] = {most + 1, (size_t)PTRDIFF_MAX + 1, SIZE_MAX - 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CLAIM(mallocx(sizes[i], 0) == NULL && nallocx(sizes[i], 0) == 0);
        CLAIM(rallocx(block, sizes[i], 0) == NULL && mallocx(sizes[i], MALLOCX_ZERO) == NULL);
        CLAIM(mallocx(sizes[i], MALLOCX_ALIGN(4096)) == NULL);
    }
    CLAIM(nallocx(most, 0) == most && mallocx(most, 0) == NULL);
    CLAIM(mallocx(1, MALLOCX_ALIGN((size_t)PTRDIFF_MAX + 1)) == NULL);
    CLAIM(rallocx(block, 1, MALLOCX_ALIGN((size_t)PTRDIFF_MAX + 1)) == NULL);
    CLAIM(nallocx(1, MALLOCX_ALIGN((size_t)PTRDIFF_MAX + 1)) == 0);
    CLAIM(mallocx(0x8000000000000000, MALLOCX_ALIGN(0x8000000000000000)) == NULL);
    CLAIM(mallocx(0x8000000000000000, MALLOCX_ALIGN(0x80000000)) == NULL);
    dallocx(block, 0);
}

static void rallocx_gives_the_exact_size(void) {
    size_t lengths[200];
    size_t count = 0;
    char *block = mallocx(1, 0);
    lengths[count++] = sallocx(block, 0);
    while (count < 200 && lengths[count - 1] < (size_t)12 << 20) {
        size_t next = lengths[count - 1] + (count > 60 ? lengths[count - 1] / 3 : 1);
        block = rallocx(block, next, 0);
        CLAIM(block != NULL);
        lengths[count] = sallocx(block, 0);
        CLAIM(lengths[count] == nallocx(next, 0) && lengths[count] > lengths[count - 1]);
        block[lengths[count] - 1] = 3;
        count++;
    }
    while (count-- > 0) {
        block = rallocx(block, lengths[count], 0);
        CLAIM(sallocx(block, 0) == lengths[count]);
    }
    dallocx(block, 0);
}

static void rallocx_aligns(void) {
    char *block = mallocx(1, 0);
    *block = 7;
    for (size_t align = 2; align <= (size_t)32 << 20; align <<= 1) {
        block = rallocx(block, 1, MALLOCX_ALIGN(align));
        CLAIM(block != NULL && (uintptr_t)block % align == 0 && *block == 7);
        CLAIM(sallocx(block, 0) == nallocx(1, MALLOCX_ALIGN(align)));
    }
    sdallocx(block, 1, MALLOCX_ALIGN((size_t)32 << 20));
    for (int lg = 0; lg <= 15; lg++) {
        for (int next = 0; next <= 15; next++) {
            block = mallocx(1, MALLOCX_LG_ALIGN(lg));
            block = rallocx(block, 1, MALLOCX_LG_ALIGN(next));
            CLAIM(block != NULL && (uintptr_t)block % ((size_t)1 << next) == 0);
            CLAIM(sallocx(block, 0) == nallocx(1, MALLOCX_LG_ALIGN(next)));
            dallocx(block, 0);
        }
    }
}

static void growth_is_zero(void) {
    const size_t starts[] = {1, 3 << 10, 63 << 10, 600 << 10, 4095 << 10};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        char *block = mallocx(starts[i], MALLOCX_ZERO);
        size_t length = sallocx(block, 0);
        CLAIM(is_filled(block, 0, 0, length));
        memset(block, 0xaa, length);
        for (size_t more = 1; more < 300000; more += more / 2 + 1) {
            block = rallocx(block, starts[i] + more, MALLOCX_ZERO);
            size_t longer = sallocx(block, 0);
            CLAIM(is_filled(block, 0xaa, 0, length) && is_filled(block, 0, length, longer));
            memset(block + length, 0xaa, longer - length);
            length = longer;
        }
        dallocx(block, 0);
    }
}

static void xallocx_of_small_blocks_never_moves(void) {
    size_t small0 = small_size(0);
    size_t small1 = small_size(1);
    size_t most = large_most();
    void *block = mallocx(42, 0);
    size_t length = sallocx(block, 0);
    CLAIM(xallocx(block, length, 0, 0) == length &&
          xallocx(block, length, length - 42, 0) == length);
    CLAIM(xallocx(block, length + 5, 0, 0) == length);
    dallocx(block, 0);
    block = mallocx(small0, 0);
    CLAIM(xallocx(block, 1, 0, 0) == small0 && xallocx(block, small1, 0, 0) == small0);
    CLAIM(xallocx(block, small0, small1 - small0, 0) == small0);
    CLAIM(xallocx(block, small0, most - small0 + 1, 0) == small0);
    CLAIM(xallocx(block, small0, SIZE_MAX - small0, 0) == small0);
    const size_t pairs[][2] = {{most, 0},     {most + 1, 0},     {SIZE_MAX, 0},
                               {most - 1, 2}, {most, 1},         {most + 1, 2},
                               {most + 2, 3}, {SIZE_MAX - 2, 2}, {SIZE_MAX - 1, 1}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        CLAIM(xallocx(block, pairs[i][0], pairs[i][1], 0) == small0);
    }
    dallocx(block, 0);
}

static void xallocx_resizes_large_blocks(void) {
    size_t smallest = small_most();
    size_t large1 = large_size(1);
    size_t large2 = large_size(2);
    size_t large3 = large_size(3);
    size_t most = large_most();
    char *block = mallocx(large3, 0);
    CLAIM(xallocx(block, large3, 0, 0) == large3);
    CLAIM(xallocx(block, large1, 0, 0) >= large1 && xallocx(block, smallest, 0, 0) >= large1);
    if (xallocx(block, large3, 0, 0) != large3) {
        block = rallocx(block, large3, 0);
    }
    CLAIM(xallocx(block, large1, large3 - large1, 0) == large3);
    CLAIM(xallocx(block, large2, large3 - large2, 0) == large3);
    CLAIM(xallocx(block, large1, large2 - large1, 0) >= large2);
    CLAIM(xallocx(block, smallest, large1 - smallest, 0) >= large1);
    CLAIM(xallocx(block, large3, 0, 0) <= large3 && xallocx(block, most + 1, 0, 0) <= large3);
    CLAIM(xallocx(block, large1, SIZE_MAX - large1, 0) <= most);
    CLAIM(xallocx(block, large1, 0, 0) >= large1);
    if (xallocx(block, large3, 0, 0) != large3) {
        block = rallocx(block, large3, 0);
    }
    CLAIM(xallocx(block, large3, most - large3 + 1, 0) <= most);
    dallocx(block, 0);
}

static void xallocx_zeroes_growth(size_t least, size_t most) {
    char *block = mallocx(most, MALLOCX_ZERO);
    CLAIM(is_filled(block, 0, 0, most));
    memset(block, 0x7a, most);
    size_t length = nallocx(least, 0);
    if (xallocx(block, length, 0, MALLOCX_ZERO) != length) {
        block = rallocx(block, length, MALLOCX_ZERO);
    }
    CLAIM(sallocx(block, 0) == length && is_filled(block, 0x7a, 0, length));
    while (length < most) {
        size_t next = nallocx(length + 1, MALLOCX_ZERO);
        if (xallocx(block, length + 1, 0, MALLOCX_ZERO) != next) {
            block = rallocx(block, length + 1, MALLOCX_ZERO);
        }
        CLAIM(sallocx(block, 0) == next && is_filled(block, 0x7a, 0, length));
        CLAIM(is_filled(block, 0, length, next));
        memset(block + length, 0x7a, next - length);
        length = next;
    }
    dallocx(block, 0);
}

static void flags_of_caches_and_arenas_are_taken(void) {
    void *block = mallocx(100, MALLOCX_TCACHE_NONE);
    CLAIM(block != NULL);
    dallocx(block, MALLOCX_TCACHE_NONE);
    block = mallocx(100, MALLOCX_ARENA(0) | MALLOCX_TCACHE_NONE | MALLOCX_ZERO);
    CLAIM(block != NULL && is_filled(block, 0, 0, 100));
    block = rallocx(block, 200000, MALLOCX_ARENA(0));
    sdallocx(block, 200000, MALLOCX_ARENA(0) | MALLOCX_TCACHE_NONE);
    unsigned cache = READ("tcache.create", unsigned);
    block = mallocx(100, MALLOCX_TCACHE(cache));
    CLAIM(block != NULL);
    dallocx(block, MALLOCX_TCACHE(cache));
    CLAIM(WRITE("tcache.flush", unsigned, cache) == 0);
    CLAIM(WRITE("tcache.destroy", unsigned, cache) == 0);
}

static void blocks_are_those_of_malloc(void) {
    for (size_t size = 1; size < (size_t)40 << 20; size = size * 3 + 1) {
        void *block = realloc(mallocx(size, 0), size * 2);
        CLAIM(block != NULL);
        dallocx(block, 0);
        block = rallocx(malloc(size), size * 2, 0);
        CLAIM(sallocx(block, 0) == nallocx(size * 2, 0));
        free(block);
        block = malloc(size);
        sdallocx(block, size, 0);
    }
}

static void libc_calls_are_jemallocs(void) {
    void *block;
    for (size_t align = sizeof(size_t); align < (size_t)1 << 25; align <<= 1) {
        errno = 0;
        CLAIM(aligned_alloc(align + 1, 1) == NULL && errno == EINVAL);
        CLAIM(posix_memalign(&block, align + 1, 1) == EINVAL);
    }
    volatile size_t none = 0;
    errno = 0;
    CLAIM(aligned_alloc(none, 1) == NULL && errno == EINVAL);
    volatile size_t half = (size_t)1 << 63;
    CLAIM(aligned_alloc(half, half) == NULL && errno == ENOMEM);
    block = aligned_alloc(8, none);
    CLAIM(block != NULL);
    free(block);
    volatile size_t most = large_most();
    CLAIM(malloc(most + 1) == NULL && calloc(1, most + 1) == NULL);
    block = malloc(1);
    CLAIM(realloc(block, most + 1) == NULL && malloc_usable_size(NULL) == 0);
    free(block);
}

int main(void) {
    sizes_are_those_of_nallocx();
    blocks_are_aligned();
    too_much_is_refused();
    rallocx_gives_the_exact_size();
    rallocx_aligns();
    growth_is_zero();
    xallocx_of_small_blocks_never_moves();
    xallocx_resizes_large_blocks();
    xallocx_zeroes_growth(large_size(1), large_size(0) * 2);
    xallocx_zeroes_growth((size_t)700 << 10, (size_t)1 << 20);
    xallocx_zeroes_growth((size_t)40 << 20, (size_t)40 << 20);
    flags_of_caches_and_arenas_are_taken();
    blocks_are_those_of_malloc();
    libc_calls_are_jemallocs();
    return 0;
}
