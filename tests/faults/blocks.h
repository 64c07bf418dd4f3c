/* SPDX-License-Identifier: MIT */
/*
 * Blocks with a pattern, for programs that run while memory is out: the checks allocate nothing,
 * and a false claim ends the program with status 1. Used
 * by the loads beside this file. No locks; a set of blocks belongs to one thread.
 */
#ifndef PS_TESTS_FAULTS_BLOCKS_H
#define PS_TESTS_FAULTS_BLOCKS_H

#include "tests/scenarios/claim.h"

#include <stdbool.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define EDGE_BYTES                                                                                 \
    256 /* carry the pattern byte by byte, at both ends; in between some words do                  \
         */
#define STRIDE_BYTES (64 * KIB)

struct block {
    unsigned char *address; /* NULL: none */
    size_t bytes;
    uint64_t seed;
};

static inline uint64_t block_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline unsigned char block_byte(uint64_t seed, size_t offset) {
    return (unsigned char)(((seed + offset) * 0x9e3779b97f4a7c15u) >> 56);
}

/* The next offset that carries the pattern. */
static inline size_t block_next(size_t offset, size_t bytes) {
    offset++;
    if (offset < EDGE_BYTES || offset + EDGE_BYTES >= bytes) {
        return offset;
    }
    size_t next = offset % STRIDE_BYTES < 8 ? offset : (offset / STRIDE_BYTES + 1) * STRIDE_BYTES;
    return next < bytes - EDGE_BYTES ? next : bytes - EDGE_BYTES;
}

static inline void block_fill(const struct block *block) {
    for (size_t i = 0; i < block->bytes; i = block_next(i, block->bytes)) {
        block->address[i] = block_byte(block->seed, i);
    }
}

/* Whether the first `kept` bytes still have their pattern. */
static inline bool block_is_intact(const struct block *block, size_t kept) {
    for (size_t i = 0; i < block->bytes && i < kept; i = block_next(i, block->bytes)) {
        if (block->address[i] != block_byte(block->seed, i)) {
            return false;
        }
    }
    return true;
}

static inline bool block_is_zero(const unsigned char *address, size_t bytes) {
    for (size_t i = 0; i < bytes; i = block_next(i, bytes)) {
        if (address[i] != 0) {
            return false;
        }
    }
    return true;
}

static inline void blocks_check(const struct block *blocks, size_t count) {
    for (size_t i = 0; i < count; i++) {
        CLAIM(blocks[i].address == NULL || block_is_intact(&blocks[i], blocks[i].bytes));
    }
}

/* Checks and frees; errno is preserved. */
static inline void block_end(struct block *block) {
    if (block->address != NULL) {
        CLAIM(block_is_intact(block, block->bytes));
        errno = 4711;
        free(block->address);
        CLAIM(errno == 4711);
        block->address = NULL;
    }
}

#endif
