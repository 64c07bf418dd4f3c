/* SPDX-License-Identifier: MIT */
/*
 * Sums over bytes, for accidents. See arena.h. Multiply and fold, as in Wang Yi's wyhash.
 */
#include "pools/arena/arena.h"

#include <string.h>

static uint64_t fold(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t word_at(const unsigned char *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static const uint64_t odd[4] = {0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu, 0x8ebc6af09c88c6e3u,
                                0x589965cc75374cc3u};

uint64_t ps_arena_sum(const void *memory, size_t count, uint64_t seed) {
    const unsigned char *bytes = memory;
    uint64_t lanes[2] = {seed ^ odd[0], seed + odd[1]};
    size_t at = 0;
    for (; at + 32 <= count; at += 32) {
        lanes[0] = fold(word_at(bytes + at) ^ odd[0], word_at(bytes + at + 8) ^ lanes[0]);
        lanes[1] = fold(word_at(bytes + at + 16) ^ odd[2], word_at(bytes + at + 24) ^ lanes[1]);
    }
    unsigned char rest[32] = {0};
    memcpy(rest, bytes + at, count - at);
    lanes[0] = fold(word_at(rest) ^ odd[0], word_at(rest + 8) ^ lanes[0]);
    lanes[1] = fold(word_at(rest + 16) ^ odd[2], word_at(rest + 24) ^ lanes[1]);
    return fold(lanes[0] ^ odd[3], lanes[1] ^ odd[1] ^ count);
}

static bool is_zero(const void *page) {
    const unsigned char *bytes = page;
    for (size_t at = 0; at < ARENA_PAGE; at += 32) {
        if ((word_at(bytes + at) | word_at(bytes + at + 8) | word_at(bytes + at + 16) |
             word_at(bytes + at + 24)) != 0) {
            return false;
        }
    }
    return true;
}

uint64_t ps_arena_page_sum(const void *page, uint64_t number) {
    return is_zero(page) ? 0 : ps_arena_sum(page, ARENA_PAGE, number);
}

uint64_t ps_arena_contents_sum(const struct ps_arena *arena) {
    uint64_t sum = 0;
    for (uint64_t number = ARENA_HEADER_PAGES; number < arena->view.bytes / ARENA_PAGE; number++) {
        sum += ps_arena_page_sum(arena->view.base + number * ARENA_PAGE, number);
    }
    return sum;
}
