/* SPDX-License-Identifier: MIT */
/*
 * Canaries, from level 2 on. The last word of a hardened block is its canary, which encodes the
 * number of slack bytes between the requested ones and itself; the first 64 slack bytes are filled
 * with a pattern. For example a request of 100 bytes that got 128 has 20 bytes of slack:
 *
 *   | 100 bytes requested | 20 bytes of slack: pattern | address ^ secret ^ 20 |
 *
 * The pattern is one byte throughout, so that overlapping words can be stored and compared: no
 * loop, and four words at most.
 *
 * Callers: hard.c, hard_sweep.c. The secret is in hard.h.
 */
#ifndef PS_HARDEN_HARD_CANARY_H
#define PS_HARDEN_HARD_CANARY_H

#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/harden/hard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PS_CANARY_BYTES sizeof(uint64_t)

/* Bytes of a block before its canary. */
PS_INLINE size_t ps_canary_room(size_t block_bytes) { return block_bytes - PS_CANARY_BYTES; }

/* Checked slack bytes: an overrun passes through the first ones. */
#define PS_SLACK_LOOKED_AT 64

typedef uint64_t ps_slack_word __attribute__((vector_size(16), aligned(1), may_alias));

#define PS_SLACK_WORD_BYTES sizeof(ps_slack_word)

PS_INLINE uint64_t ps_canary_load(const char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Writes the pattern into `bytes` bytes, 16 to 64 of them. */
PS_INLINE void ps_slack_fill(char *at, size_t bytes) {
    const ps_slack_word pattern = {ps_slack_pattern, ps_slack_pattern};
    char *last = at + bytes - PS_SLACK_WORD_BYTES;
    *(ps_slack_word *)at = pattern;
    *(ps_slack_word *)last = pattern;
    if (bytes > 2 * PS_SLACK_WORD_BYTES) {
        *(ps_slack_word *)(at + PS_SLACK_WORD_BYTES) = pattern;
        *(ps_slack_word *)(last - PS_SLACK_WORD_BYTES) = pattern;
    }
}

/* True when the pattern is intact. */
PS_INLINE bool ps_slack_is_filled(const char *at, size_t bytes) {
    const ps_slack_word pattern = {ps_slack_pattern, ps_slack_pattern};
    const char *last = at + bytes - PS_SLACK_WORD_BYTES;
    ps_slack_word wrong =
        (*(const ps_slack_word *)at ^ pattern) | (*(const ps_slack_word *)last ^ pattern);
    if (bytes > 2 * PS_SLACK_WORD_BYTES) {
        wrong |= *(const ps_slack_word *)(at + PS_SLACK_WORD_BYTES) ^ pattern;
        wrong |= *(const ps_slack_word *)(last - PS_SLACK_WORD_BYTES) ^ pattern;
    }
    return (wrong[0] | wrong[1]) == 0;
}

/* Writes canary and slack of a block with this room, for a request of `bytes`. */
PS_INLINE void ps_canary_set(void *block, size_t room, size_t bytes) {
    char *end = (char *)block + room;
    char *at = (char *)block + bytes;
    size_t slack = room - bytes;
    if (slack < PS_SLACK_WORD_BYTES) {
        const uint64_t pattern = ps_slack_pattern;
        if (slack > sizeof pattern) {
            memcpy(end - sizeof pattern, &pattern, sizeof pattern);
        }
        memcpy(at, &pattern, sizeof pattern); /* may overlap the canary, which is written next */
    } else {
        ps_slack_fill(at, ps_min(slack, PS_SLACK_LOOKED_AT));
    }
    *(uint64_t *)end = (uintptr_t)block ^ ps_canary_secret ^ slack;
}

/* Bytes of slack; more than the room when the canary was overwritten. */
PS_INLINE uint64_t ps_canary_slack(const void *block, size_t room) {
    return *(const uint64_t *)((const char *)block + room) ^ (uintptr_t)block ^ ps_canary_secret;
}

/* True when the canary, and the slack before it, are as ps_canary_set wrote them. room: at least 8
 * bytes. */
PS_INLINE bool ps_canary_is_intact(const void *block, size_t room) {
    uint64_t bytes = ps_canary_slack(block, room);
    if (PS_UNLIKELY(bytes > room)) {
        return false;
    }
    const char *end = (const char *)block + room;
    const char *at = end - bytes;
    if (bytes >= PS_SLACK_WORD_BYTES) {
        return ps_slack_is_filled(at, ps_min(bytes, PS_SLACK_LOOKED_AT));
    }
    uint64_t wrong = ps_canary_load(end - sizeof(uint64_t)) ^ ps_slack_pattern;
    if (bytes >= sizeof(uint64_t)) {
        return (wrong | (ps_canary_load(at) ^ ps_slack_pattern)) == 0;
    }
    return wrong >> 8 >> (8 * (sizeof(uint64_t) - 1 - bytes)) == 0; /* the upper `bytes` of them */
}

#endif
