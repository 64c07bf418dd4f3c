/* SPDX-License-Identifier: MIT */
/*
 * See unwind.h: rules by address. A program has few different rules, though it has many addresses,
 * so each is stored once, packed into a word, and an entry of the cache is one word too: a hash of
 * the address and its file, with the number of the rule. Any thread, also in signal handlers: all
 * stores are of one word, and a rule never changes after it was stored. No locks.
 */
#include "shim/unwind.h"

#include "pools/engine/base/atomic.h"

#define RULE_BITS 10
#define RULE_COUNT ((size_t)1 << RULE_BITS)
#define RULE_TRIES 8
#define ENTRY_COUNT ((size_t)4096)
#define MIX 0x9e3779b97f4a7c15u

/* Bits of a packed rule, from the lowest. Distances are in words, and 2 larger than they are. */
#define KIND_BITS 3
#define BASE_BITS 2
#define OFFSET_BITS 20
#define PLACE_BITS 13
#define PLACE_MAX (((int32_t)1 << PLACE_BITS) - 1)
#define WORD_BYTES ((int32_t)sizeof(uintptr_t))

static PS_SPARSE uint64_t x_rules[RULE_COUNT]; /* hash table; 0: free */
static PS_SPARSE uint64_t x_entries[ENTRY_COUNT];

static uint64_t hash_of(uint64_t identity, uintptr_t address) {
    uint64_t hash = (identity ^ address) * MIX;
    hash = (hash ^ hash >> 29) * MIX;
    return hash ^ hash >> 32;
}

/* -1 when the distance does not fit. */
static int32_t pack_place(int32_t place) {
    if (place < 0) {
        return -1 - place; /* PS_UNWIND_SAME: 0, PS_UNWIND_LOST: 1 */
    }
    int32_t packed = place / WORD_BYTES + 2;
    return place % WORD_BYTES == 0 && packed <= PLACE_MAX ? packed : -1;
}

static int32_t unpack_place(uint64_t packed) {
    int32_t place = (int32_t)(packed & PLACE_MAX);
    return place < 2 ? -1 - place : (place - 2) * WORD_BYTES;
}

/* 0 when the rule does not fit. */
static uint64_t pack(const struct ps_unwind_rule *rule) {
    int32_t offset = rule->offset / WORD_BYTES + (1 << (OFFSET_BITS - 1));
    int32_t fp = pack_place(rule->fp);
    int32_t extra = pack_place(rule->extra);
    int32_t link = pack_place(rule->link);
    if (rule->offset % WORD_BYTES != 0 || offset < 0 || offset >= 1 << OFFSET_BITS || fp < 0 ||
        extra < 0 || link < 0) {
        return 0;
    }
    uint64_t packed = (uint64_t)link << PLACE_BITS | (uint64_t)extra;
    packed = packed << PLACE_BITS | (uint64_t)fp;
    packed = packed << OFFSET_BITS | (uint64_t)offset;
    return (packed << BASE_BITS | rule->base) << KIND_BITS | rule->kind;
}

static void unpack(uint64_t packed, struct ps_unwind_rule *out) {
    out->kind = packed & ((1 << KIND_BITS) - 1);
    packed >>= KIND_BITS;
    out->base = packed & ((1 << BASE_BITS) - 1);
    packed >>= BASE_BITS;
    int32_t offset = (int32_t)(packed & ((1 << OFFSET_BITS) - 1)) - (1 << (OFFSET_BITS - 1));
    out->offset = offset * WORD_BYTES;
    packed >>= OFFSET_BITS;
    out->fp = unpack_place(packed);
    out->extra = unpack_place(packed >> PLACE_BITS);
    out->link = unpack_place(packed >> 2 * PLACE_BITS);
}

/* The number of a rule, which is stored if it is new; RULE_COUNT when there is no room. */
static size_t number_of(uint64_t packed) {
    uint64_t first = hash_of(0, packed);
    for (size_t i = 0; i < RULE_TRIES; i++) {
        size_t number = (first + i) & (RULE_COUNT - 1);
        uint64_t found = ps_load_relaxed(&x_rules[number]); /* relaxed: a rule is one word */
        if (found == packed) {
            return number;
        }
        /* acq_rel: with the release of the entry the rule is there before an entry names it. */
        if (found == 0 && ps_cas_strong_acq_rel(&x_rules[number], &found, packed)) {
            return number;
        }
        if (found == packed) {
            return number;
        }
    }
    return RULE_COUNT;
}

void ps_unwind_cache_add(uint64_t identity, uintptr_t address, const struct ps_unwind_rule *rule) {
    uint64_t packed = pack(rule);
    size_t number = packed != 0 ? number_of(packed) : RULE_COUNT;
    if (number == RULE_COUNT) {
        return;
    }
    uint64_t hash = hash_of(identity, address);
    uint64_t entry = (hash & ~(uint64_t)(RULE_COUNT - 1)) | number;
    /* release: pairs with ps_unwind_cache_find; makes the rule visible. */
    ps_store_release(&x_entries[hash % ENTRY_COUNT], entry);
}

bool ps_unwind_cache_find(uint64_t identity, uintptr_t address, struct ps_unwind_rule *out) {
    uint64_t hash = hash_of(identity, address);
    /* acquire: pairs with ps_unwind_cache_add. */
    uint64_t entry = ps_load_acquire(&x_entries[hash % ENTRY_COUNT]);
    if (((entry ^ hash) & ~(uint64_t)(RULE_COUNT - 1)) != 0) {
        return false;
    }
    /* relaxed: the entry was read by an acquire, and the rule does not change. */
    uint64_t packed = ps_load_relaxed(&x_rules[entry % RULE_COUNT]);
    if (packed == 0) {
        return false; /* an entry of zeros has the hash by chance */
    }
    unpack(packed, out);
    return true;
}
