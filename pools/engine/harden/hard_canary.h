/* SPDX-License-Identifier: MIT */
/*
 * Canaries, from level 2 on. The last word of a hardened block is its canary, which encodes the
 * number of slack bytes between the requested ones and itself; the first 64 of these hold a
 * pattern. For example a request of 100 bytes that got 128 has 20 bytes of slack:
 *
 *   | 100 bytes requested | 20 bytes of slack: pattern | canary ^ 20 |
 *
 * Callers: hard.c. The secret is in hard.h.
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

/* Checked slack bytes: an overrun passes through the first ones. */
#define PS_SLACK_LOOKED_AT 64

static inline uint64_t ps_canary_of(const void *block) {
    return ((uintptr_t)block ^ ps_canary_secret) * PS_GOLDEN_64;
}

/* Non-zero in every byte, so that zeroed memory does not match. */
static inline uint64_t ps_slack_of(uint64_t canary) { return canary | 0x0101010101010101u; }

/* Writes canary and slack of a block with this room, for a request of `bytes`. */
static inline void ps_canary_set(void *block, size_t room, size_t bytes) {
    uint64_t canary = ps_canary_of(block);
    uint64_t slack = ps_slack_of(canary);
    char *end = (char *)block + room;
    char *at = (char *)block + bytes;
    char *stop = at + ps_min(room - bytes, PS_SLACK_LOOKED_AT);
    /* The last word may overlap the canary, which is written after it. */
    for (; at < stop; at += sizeof slack) {
        memcpy(at, &slack, sizeof slack);
    }
    canary ^= room - bytes;
    memcpy(end, &canary, sizeof canary);
}

/* Bytes of slack; more than the room when the canary was overwritten. */
static inline uint64_t ps_canary_slack(const void *block, size_t room) {
    return *(const uint64_t *)((const char *)block + room) ^ ps_canary_of(block);
}

/* True when the canary, and the slack before it, are as ps_canary_set wrote them. */
static inline bool ps_canary_is_intact(const void *block, size_t room) {
    uint64_t bytes = ps_canary_slack(block, room);
    if (PS_UNLIKELY(bytes > room)) {
        return false;
    }
    uint64_t slack = ps_slack_of(ps_canary_of(block));
    const char *at = (const char *)block + room - bytes;
    uint64_t wrong = 0;
    uint64_t word;
    size_t left = ps_min(bytes, PS_SLACK_LOOKED_AT);
    for (; left >= sizeof word; left -= sizeof word) {
        memcpy(&word, at, sizeof word);
        wrong |= word ^ slack;
        at += sizeof word;
    }
    if (left != 0) {
        memcpy(&word, at, sizeof word); /* may include bytes of the canary */
        wrong |= (word ^ slack) << (64 - 8 * left);
    }
    return wrong == 0;
}

#endif
