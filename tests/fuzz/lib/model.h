/* SPDX-License-Identifier: MIT */
/*
 * The trivial model of what an allocator has handed out: blocks with a pattern, and the promise
 * that no two share a byte. One thread; the blocks lie in the caller's array.
 */
#ifndef PS_FUZZ_MODEL_H
#define PS_FUZZ_MODEL_H

#include "tests/fuzz/lib/fuzz.h"

#define MODEL_DENSE_BYTES 512
#define MODEL_END_BYTES 64
#define MODEL_STRIDE_BYTES 1021

struct model_block {
    unsigned char *address; /* NULL: none */
    size_t bytes;           /* asked for, patterned */
    size_t align;
    uint8_t seed;
};

static inline unsigned char model_byte(uint8_t seed, size_t offset) {
    return (unsigned char)(((seed + offset) * 0x9e3779b97f4a7c15u) >> 56);
}

/* The next offset with the pattern: all near both ends, one in so many between. */
static inline size_t model_next(size_t offset, size_t bytes) {
    offset++;
    if (offset < MODEL_DENSE_BYTES || offset + MODEL_END_BYTES >= bytes) {
        return offset;
    }
    size_t next = offset + MODEL_STRIDE_BYTES;
    return next + MODEL_END_BYTES < bytes ? next : bytes - MODEL_END_BYTES;
}

static inline void model_fill(const struct model_block *block) {
    for (size_t i = 0; i < block->bytes; i = model_next(i, block->bytes)) {
        block->address[i] = model_byte(block->seed, i);
    }
}

/* The first `kept` bytes, or as many as there are, still have their pattern. */
static inline void model_check(const struct model_block *block, size_t kept) {
    for (size_t i = 0; i < block->bytes && i < kept; i = model_next(i, block->bytes)) {
        FUZZ_CHECK(block->address[i] == model_byte(block->seed, i));
    }
}

static inline void model_check_zero(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(bytes[i] == 0);
    }
}

/* No live block of `blocks` shares a byte with this one, which may be one of them. */
static inline void model_check_apart(const struct model_block *blocks, size_t count,
                                     const struct model_block *fresh) {
    for (size_t i = 0; i < count; i++) {
        const struct model_block *other = &blocks[i];
        if (other != fresh && other->address != NULL) {
            FUZZ_CHECK(other->address + other->bytes <= fresh->address ||
                       fresh->address + fresh->bytes <= other->address);
        }
    }
}

/* Takes on a block that was just handed out, NULL for none: checked, and filled. */
static inline void model_start(struct model_block *blocks, size_t count, struct model_block *slot,
                               void *address, size_t bytes, size_t align) {
    static uint8_t seed;
    *slot = (struct model_block){address, bytes, align, ++seed};
    if (address != NULL) {
        FUZZ_CHECK((uintptr_t)address % align == 0);
        model_check_apart(blocks, count, slot);
        model_fill(slot);
    }
}

static inline void model_check_all(const struct model_block *blocks, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].address != NULL) {
            model_check(&blocks[i], blocks[i].bytes);
        }
    }
}

#endif
