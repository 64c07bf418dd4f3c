/* SPDX-License-Identifier: MIT */
/*
 * A span's owner as plain as can be, for tests of the small layer: takes blocks out of the span by
 * the rules of its account, remembers which are out, and compares every list of the span with
 * that. One span at a time; one thread.
 */
#ifndef PS_TESTS_UNIT_SPAN_OWNER_H
#define PS_TESTS_UNIT_SPAN_OWNER_H

#include "pools/engine/base/bits.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/small/span.h"
#include "pools/engine/small/span_remote.h"
#include "tests/unit/fresh.h"

#define OWNER_BLOCKS_LIMIT 8192
#define OWNER_KEY ((uintptr_t)0x1001)

static struct ps_span *owned;
static bool is_out[OWNER_BLOCKS_LIMIT]; /* by index; out: with the program or on the remote word */
static size_t out_count;

__attribute__((unused)) static void owner_start(void) {
    struct ps_config config = PS_CONFIG_DEFAULT;
    config.small_max_bytes = PS_CLASS_BYTES_LIMIT; /* spans of every length */
    ps_size_class_start(&config);
    ps_page_cache_start(&config);
}

__attribute__((unused)) static void owner_create(size_t block_bytes) {
    owned = ps_span_create(ps_size_class_of(block_bytes), OWNER_KEY);
    REQUIRE(owned != NULL);
    memset(is_out, 0, sizeof is_out);
    out_count = 0;
}

static inline void owner_note_out(size_t index) {
    CHECK(index >= owned->first && index < owned->limit);
    CHECK(!is_out[index]);
    is_out[index] = true;
    out_count++;
}

static inline void owner_note_in(size_t index) {
    CHECK(is_out[index]);
    is_out[index] = false;
    out_count--;
}

/* Counts blocks as out, in the span's account. */
static inline void owner_book(size_t blocks) {
    ps_store_relaxed(&owned->used, (uint16_t)(owned->used + blocks));
    ps_span_settle(owned);
}

static inline void owner_take_list(void *head, size_t count) {
    size_t walked = 0;
    for (void *next; !ps_link_is_end(head) && walked <= count; head = next) {
        next = ps_link_of(head, owned->salt);
        ps_link_clear(head);
        owner_note_out(ps_span_index(owned, head));
        walked++;
    }
    CHECK_EQ(walked, count);
}

static inline void owner_take_virgin(size_t blocks) {
    for (size_t i = 0; i < blocks; i++) {
        owner_note_out(owned->carved + i);
    }
    owned->carved = (uint16_t)(owned->carved + blocks);
    owner_book(blocks);
}

static inline void owner_take_gap(void) {
    size_t index = (size_t)owned->gap_head - 1;
    const struct ps_gap gap = *(struct ps_gap *)ps_span_block(owned, index);
    owned->gap_head = gap.next;
    owned->gap_blocks = (uint16_t)(owned->gap_blocks - gap.blocks);
    for (size_t i = 0; i < gap.blocks; i++) {
        owner_note_out(index + i);
    }
    owner_book(gap.blocks);
}

/* What a refill does: the first of list, stash, gap and fresh blocks; false when all are out. */
__attribute__((unused)) static bool owner_take(size_t virgin_blocks) {
    ps_span_settle(owned);
    size_t count = 0;
    if (!ps_link_is_end(owned->free)) {
        count = owned->free_count;
        owner_take_list(owned->free, count);
        owned->free = ps_span_list_end(owned);
        owned->free_count = 0;
        owner_book(count);
    } else if (!ps_link_is_end(owned->stash)) {
        count = owned->stash_count;
        owner_take_list(owned->stash, count);
        owned->stash = ps_span_list_end(owned);
        owned->stash_count = 0;
        owner_book(count);
    } else if (owned->gap_head != 0) {
        owner_take_gap();
    } else if (owned->carved < owned->limit) {
        owner_take_virgin(ps_min(virgin_blocks, (size_t)(owned->limit - owned->carved)));
    } else {
        return false;
    }
    return true;
}

static inline size_t owner_count_list(void *head, bool *is_seen) {
    size_t count = 0;
    for (; !ps_link_is_end(head) && count <= OWNER_BLOCKS_LIMIT;
         head = ps_link_of(head, owned->salt)) {
        size_t index = ps_span_index(owned, head);
        CHECK_PTR_EQ(ps_span_block(owned, index), head);
        CHECK(!is_seen[index] && !is_out[index]);
        is_seen[index] = true;
        count++;
    }
    return count;
}

/* Settles, then checks: the equation of the account, and each block in exactly one place. */
__attribute__((unused)) static void owner_check(void) {
    static bool is_seen[OWNER_BLOCKS_LIMIT];
    memset(is_seen, 0, sizeof is_seen);
    ps_span_settle(owned);
    ps_span_check(owned);
    CHECK_EQ(owned->used, out_count);
    CHECK_EQ(owner_count_list(owned->free, is_seen), owned->free_count);
    CHECK_EQ(owner_count_list(owned->stash, is_seen), owned->stash_count);
    size_t gap_blocks = 0;
    for (size_t head = owned->gap_head; head != 0 && gap_blocks <= OWNER_BLOCKS_LIMIT;) {
        const struct ps_gap *gap = (struct ps_gap *)ps_span_block(owned, head - 1);
        for (size_t i = 0; i < gap->blocks; i++) {
            CHECK(!is_seen[head - 1 + i] && !is_out[head - 1 + i]);
            is_seen[head - 1 + i] = true;
        }
        gap_blocks += gap->blocks;
        head = gap->next;
    }
    CHECK_EQ(gap_blocks, owned->gap_blocks);
    for (size_t i = owned->first; i < owned->limit; i++) {
        bool is_virgin = i >= owned->carved;
        CHECK_EQ(is_seen[i] + is_out[i] + is_virgin, 1);
    }
}

/* Index of a random block that is out; there must be one. */
__attribute__((unused)) static size_t owner_random_out(void) {
    size_t index = unit_random() % owned->limit;
    while (!is_out[index]) {
        index = (index + 1) % owned->limit;
    }
    return index;
}

/* Links random blocks that are out into a list and notes them as in. Returns their number. */
__attribute__((unused)) static size_t owner_link_random(size_t wanted, void **head, void **tail) {
    size_t count = ps_min(wanted, out_count);
    *head = NULL;
    *tail = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t index = owner_random_out();
        void *block = ps_span_block(owned, index);
        *tail = i == 0 ? block : *tail;
        ps_link_write(block, *head, owned->salt);
        *head = block;
        owner_note_in(index);
    }
    return count;
}

/* Takes random blocks back as the owner. */
__attribute__((unused)) static void owner_give_random(size_t blocks) {
    void *head;
    void *tail;
    blocks = owner_link_random(blocks, &head, &tail);
    if (blocks > 0) {
        ps_span_give_list(owned, head, tail, blocks);
    }
}

/* The longest run of blocks that are out from a random one on, noted as in. */
__attribute__((unused)) static size_t owner_cut_gap(size_t wanted, char **lowest) {
    size_t index = owner_random_out();
    size_t blocks = 0;
    *lowest = ps_span_block(owned, index);
    while (blocks < wanted && index + blocks < owned->limit && is_out[index + blocks]) {
        owner_note_in(index + blocks);
        blocks++;
    }
    return blocks;
}

#endif
