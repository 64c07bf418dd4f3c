/* SPDX-License-Identifier: MIT */
/*
 * The map of live bytes; see shadow.h. Relaxed atomics are enough: a block reaches another thread
 * through a lock, and a bit that two threads set is seen by whichever comes second.
 */
#include "tests/stress/lib/shadow.h"

#include "tests/arch/arch.h"
#include "tests/stress/lib/finding.h"

#include <stdint.h>
#include <sys/mman.h>

#define UNIT_BYTES 8
#define WORD_BYTES (64 * UNIT_BYTES)
#define ADDRESS_BITS_LEAST 32

static uint64_t *words;
static uint64_t word_count;

/*
 * The stack lies near the top of the address space: below 2^47 on x86-64, 2^48 on 64-bit ARM, and
 * wherever an emulator ends it. No fixed number would do: a map for all of 2^48 is refused by the
 * first, and an emulator that has a record per page runs out of memory.
 */
static unsigned address_bits(void) {
    int on_the_stack = 0;
    unsigned bits = 64 - (unsigned)__builtin_clzll((uint64_t)(uintptr_t)&on_the_stack);
    return bits < ADDRESS_BITS_LEAST ? ADDRESS_BITS_LEAST : bits;
}

int shadow_start(void) {
    word_count = ((uint64_t)1 << address_bits()) / WORD_BYTES;
    size_t map_bytes = word_count * sizeof *words;
    void *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        return -1;
    }
    madvise(map, map_bytes, MADV_NOHUGEPAGE);
    words = map;
    return 0;
}

/* Bits of one word that the units [first, last] cover. */
static uint64_t mask_of(uint64_t word, uint64_t first, uint64_t last) {
    uint64_t low = first > word * 64 ? first - word * 64 : 0;
    uint64_t high = last < word * 64 + 63 ? last - word * 64 : 63;
    return (~(uint64_t)0 >> (63 - (high - low))) << low;
}

/* Without the tag of a pointer to tagged memory. */
static uint64_t address_in_map(const void *bytes) { return (uintptr_t)bytes & TEST_ADDRESS_BITS; }

static const void *address_of(uint64_t word, uint64_t wrong_bits) {
    uint64_t unit = word * 64 + (uint64_t)__builtin_ctzll(wrong_bits);
    return (const void *)(uintptr_t)(unit * UNIT_BYTES);
}

const void *shadow_mark(const void *bytes, size_t size) {
    uint64_t first = address_in_map(bytes) / UNIT_BYTES;
    uint64_t last = (address_in_map(bytes) + (size == 0 ? 1 : size) - 1) / UNIT_BYTES;
    if (last / 64 >= word_count) {
        finding_report("block %p lies above the map of live bytes", bytes);
    }
    for (uint64_t word = first / 64; word <= last / 64; word++) {
        uint64_t mask = mask_of(word, first, last);
        uint64_t old = __atomic_fetch_or(&words[word], mask, __ATOMIC_RELAXED);
        if ((old & mask) != 0) {
            return address_of(word, old & mask);
        }
    }
    return SHADOW_CLEAN;
}

const void *shadow_clear(const void *bytes, size_t size) {
    uint64_t first = address_in_map(bytes) / UNIT_BYTES;
    uint64_t last = (address_in_map(bytes) + (size == 0 ? 1 : size) - 1) / UNIT_BYTES;
    if (last / 64 >= word_count) {
        finding_report("block %p lies above the map of live bytes", bytes);
    }
    for (uint64_t word = first / 64; word <= last / 64; word++) {
        uint64_t mask = mask_of(word, first, last);
        uint64_t old = __atomic_fetch_and(&words[word], ~mask, __ATOMIC_RELAXED);
        if ((old & mask) != mask) {
            return address_of(word, ~old & mask);
        }
    }
    return SHADOW_CLEAN;
}
