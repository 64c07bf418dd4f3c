/* SPDX-License-Identifier: MIT */
/* Writes and checks block contents; see pattern.h. */
#include "tests/stress/lib/pattern.h"

#include <string.h>

#define EDGE_BYTES 64
#define STRIDE_BYTES 512
#define WORDS_BETWEEN_MAX 96
#define DIRT_FULL_BYTES ((size_t)256 << 10)

static inline uint64_t word_at(size_t offset, uint64_t seed) {
    return (offset + 1) * 0x9e3779b97f4a7c15u ^ seed;
}

static inline unsigned char byte_at(size_t offset, uint64_t seed) {
    return (unsigned char)(word_at(offset, seed) >> 56);
}

static size_t stride_of(size_t size) {
    size_t stride = size / WORDS_BETWEEN_MAX & ~(size_t)7;
    return stride < STRIDE_BYTES ? STRIDE_BYTES : stride;
}

static void write_words(unsigned char *bytes, size_t from, size_t to, size_t step, uint64_t seed) {
    for (size_t offset = from; offset + 8 <= to; offset += step) {
        uint64_t word = word_at(offset, seed);
        memcpy(bytes + offset, &word, 8);
    }
}

static size_t find_damaged_word(const unsigned char *bytes, size_t from, size_t to, size_t step,
                                uint64_t seed) {
    for (size_t offset = from; offset + 8 <= to; offset += step) {
        uint64_t word;
        memcpy(&word, bytes + offset, 8);
        if (word != word_at(offset, seed)) {
            return offset;
        }
    }
    return PATTERN_INTACT;
}

/* The last bytes of a size that is no multiple of 8. */
static void write_rest(unsigned char *bytes, size_t size, uint64_t seed) {
    for (size_t offset = size & ~(size_t)7; offset < size; offset++) {
        bytes[offset] = byte_at(offset, seed);
    }
}

static size_t find_damaged_rest(const unsigned char *bytes, size_t size, size_t limit,
                                uint64_t seed) {
    for (size_t offset = size & ~(size_t)7; offset < size && offset < limit; offset++) {
        if (bytes[offset] != byte_at(offset, seed)) {
            return offset;
        }
    }
    return PATTERN_INTACT;
}

void pattern_write(unsigned char *bytes, size_t size, uint64_t seed) {
    write_rest(bytes, size, seed);
    if (size <= PATTERN_FULL_BYTES) {
        write_words(bytes, 0, size, 8, seed);
        return;
    }
    size_t tail = (size - EDGE_BYTES) & ~(size_t)7;
    write_words(bytes, 0, EDGE_BYTES, 8, seed);
    write_words(bytes, EDGE_BYTES, tail, stride_of(size), seed);
    write_words(bytes, tail, size, 8, seed);
}

size_t pattern_find_damage(const unsigned char *bytes, size_t size, size_t limit, uint64_t seed) {
    limit = limit < size ? limit : size;
    size_t damage;
    if (size <= PATTERN_FULL_BYTES) {
        damage = find_damaged_word(bytes, 0, limit, 8, seed);
        return damage != PATTERN_INTACT ? damage : find_damaged_rest(bytes, size, limit, seed);
    }
    size_t tail = (size - EDGE_BYTES) & ~(size_t)7;
    damage = find_damaged_word(bytes, 0, limit < EDGE_BYTES ? limit : EDGE_BYTES, 8, seed);
    if (damage == PATTERN_INTACT) {
        damage = find_damaged_word(bytes, EDGE_BYTES, limit < tail ? limit : tail, stride_of(size),
                                   seed);
    }
    if (damage == PATTERN_INTACT) {
        damage = find_damaged_word(bytes, tail, limit, 8, seed);
    }
    return damage != PATTERN_INTACT ? damage : find_damaged_rest(bytes, size, limit, seed);
}

static size_t find_dirt_between(const unsigned char *bytes, size_t from, size_t to) {
    size_t offset = from;
    for (; offset + 8 <= to; offset += 8) {
        uint64_t word;
        memcpy(&word, bytes + offset, 8);
        if (word != 0) {
            return offset;
        }
    }
    for (; offset < to; offset++) {
        if (bytes[offset] != 0) {
            return offset;
        }
    }
    return PATTERN_INTACT;
}

size_t pattern_find_dirt(const unsigned char *bytes, size_t size) {
    if (size <= DIRT_FULL_BYTES) {
        return find_dirt_between(bytes, 0, size);
    }
    size_t dirt = find_dirt_between(bytes, 0, DIRT_FULL_BYTES / 4);
    for (size_t page = DIRT_FULL_BYTES / 4; dirt == PATTERN_INTACT && page < size; page += 4096) {
        size_t end = page + 64 < size ? page + 64 : size;
        dirt = find_dirt_between(bytes, page, end);
    }
    size_t tail = size - 4096;
    return dirt != PATTERN_INTACT ? dirt : find_dirt_between(bytes, tail & ~(size_t)7, size);
}
