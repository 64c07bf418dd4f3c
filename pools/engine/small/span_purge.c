/* SPDX-License-Identifier: MIT */
/*
 * See span_purge.h. A hole is a sequence of pages that overlap free blocks only. The first block of
 * a gap stores its length, and therefore starts before the hole, in a resident page. If a live
 * block ends at the hole's first page, that page is not purged either.
 *
 * The lists are read before a page is dropped, and written again afterwards, since links lie in the
 * blocks. No locks.
 */
#include "pools/engine/small/span_purge.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/small/span_remote.h"

#define LEAST_PAGES 2 /* of a span; less is not worth reading its lists again */

#define MAP_WORDS (PS_GRANULE_BYTES / 8 / 64)
#define HOLES (PS_GRANULE_BYTES / 4096 / 2) /* holes have a page between them */

/* The free blocks of a span. */
struct map {
    uint64_t words[MAP_WORDS];
};

/* Pages [begin, end), and the blocks of the gap. No blocks: none of them has been granted yet. */
struct hole {
    uint8_t begin;
    uint8_t end;
    uint16_t first;
    uint16_t blocks;
};

struct plan {
    struct map free;
    struct hole holes[HOLES];
    size_t count;
    size_t pages;
};

static bool is_free(const struct map *map, size_t index) {
    return (map->words[index / 64] >> index % 64 & 1) != 0;
}

static void mark(struct map *map, size_t index) {
    map->words[index / 64] |= (uint64_t)1 << index % 64;
}

static void unmark(struct map *map, size_t index) {
    map->words[index / 64] &= ~((uint64_t)1 << index % 64);
}

/* ---- the free blocks ---- */

/* Returns the last block of the list; NULL if it is empty. */
static void *mark_list(struct map *map, const struct ps_span *span, void *block, size_t blocks) {
    void *last = NULL;
    for (size_t i = 0; i < blocks; i++) {
        if (PS_UNLIKELY(ps_link_is_end(block) || is_free(map, ps_span_index(span, block)))) {
            ps_span_corrupt(span, PS_SPAN_TOO_MANY);
        }
        mark(map, ps_span_index(span, block));
        last = block;
        block = ps_link_of(last, span->salt);
        if (PS_UNLIKELY(!ps_span_leads_to(span, block))) {
            ps_misuse_link(last, span->block_bytes);
        }
    }
    if (PS_UNLIKELY(!ps_link_is_end(block))) {
        ps_span_corrupt(span, PS_SPAN_TOO_MANY);
    }
    return last;
}

static void mark_gaps(struct map *map, const struct ps_span *span) {
    size_t blocks = 0;
    for (size_t head = span->gap_head; head != 0;) { /* ends: by the total at the latest */
        const struct ps_gap *gap = ps_span_gap(span, head);
        blocks += gap->blocks;
        if (PS_UNLIKELY(blocks > span->gap_blocks)) {
            ps_span_corrupt(span, PS_SPAN_BAD_GAP);
        }
        for (size_t i = 0; i < gap->blocks; i++) {
            mark(map, head - 1 + i);
        }
        head = gap->next;
    }
}

/* Collects the returned blocks, for which the stash must be empty, and marks all free blocks.
 * Returns false if no block is out. */
static bool mark_all(struct map *map, struct ps_span *span) {
    void *tail = mark_list(map, span, span->free, span->free_count);
    (void)mark_list(map, span, span->stash, span->stash_count);
    if (tail != NULL) {
        ps_link_write(tail, span->stash, span->salt);
    } else {
        span->free = span->stash;
    }
    span->free_count = (uint16_t)(span->free_count + span->stash_count);
    span->stash = ps_span_list_end(span);
    span->stash_count = 0;
    (void)ps_span_collect(span);
    if (span->used == 0) {
        return false;
    }
    (void)mark_list(map, span, span->stash, span->stash_count);
    mark_gaps(map, span);
    for (size_t i = span->carved; i < span->limit; i++) {
        mark(map, i);
    }
    return true;
}

/* ---- holes ---- */

static size_t page_begin(size_t page) { return page * ps_os_page_bytes(); }

/* True if a page lies within the blocks of a span, and all that it overlaps are free. */
static bool is_unused(const struct map *map, const struct ps_span *span, size_t page) {
    size_t first = page_begin(page) / span->block_bytes;
    size_t last = (page_begin(page + 1) - 1) / span->block_bytes;
    if (first < span->first || last >= span->limit) {
        return false;
    }
    for (size_t i = first; i <= last; i++) {
        if (!is_free(map, i)) {
            return false;
        }
    }
    return true;
}

/* Adds a hole, as far as its pages can be dropped. */
static void add_hole(struct plan *plan, const struct ps_span *span, size_t begin, size_t end) {
    size_t bytes = span->block_bytes;
    if (span->is_zero) { /* pages that no window has reached are not backed */
        size_t touched = ((size_t)span->carved * bytes + ps_os_page_bytes() - 1);
        end = ps_min(end, touched / ps_os_page_bytes());
    }
    size_t first = page_begin(begin) / bytes;
    if (first < span->carved && first * bytes == page_begin(begin)) {
        bool has_head = first > span->first && is_free(&plan->free, first - 1);
        first -= has_head;
        begin += !has_head;
    }
    if (begin >= end) {
        return;
    }
    size_t behind = ps_min((page_begin(end) - 1) / bytes + 1, span->carved);
    plan->holes[plan->count++] = (struct hole){
        .begin = (uint8_t)begin,
        .end = (uint8_t)end,
        .first = (uint16_t)first,
        .blocks = (uint16_t)(behind > first ? behind - first : 0),
    };
    plan->pages += end - begin;
}

static void find_holes(struct plan *plan, const struct ps_span *span) {
    size_t pages = PS_GRANULE_BYTES / ps_os_page_bytes();
    for (size_t begin = 0; begin < pages;) {
        size_t end = begin;
        while (end < pages && is_unused(&plan->free, span, end)) {
            end++;
        }
        if (end != begin) {
            add_hole(plan, span, begin, end);
        }
        begin = end + 1;
    }
}

/* ---- the account afterwards ---- */

/* Makes the blocks of a dropped hole a gap. */
static void make_gap(struct plan *plan, struct ps_span *span, const struct hole *hole) {
    for (size_t i = hole->first; i < (size_t)hole->first + hole->blocks; i++) {
        unmark(&plan->free, i);
        char *block = ps_span_block(span, i);
        if (block < span->run.base + page_begin(hole->begin)) {
            ps_link_clear(block); /* it is on no list any more */
        }
    }
    struct ps_gap *gap = (struct ps_gap *)ps_span_block(span, hole->first);
    gap->next = span->gap_head;
    gap->blocks = hole->blocks;
    span->gap_head = (uint16_t)(hole->first + 1);
    span->gap_blocks = (uint16_t)(span->gap_blocks + hole->blocks);
}

static void link_rest(const struct map *map, struct ps_span *span) {
    char *next = ps_span_list_end(span);
    size_t blocks = 0;
    for (size_t i = span->carved; i-- > span->first;) {
        if (is_free(map, i)) {
            ps_link_write(ps_span_block(span, i), next, span->salt);
            next = ps_span_block(span, i);
            blocks++;
        }
    }
    span->free = next;
    span->free_count = (uint16_t)blocks;
    span->stash = ps_span_list_end(span);
    span->stash_count = 0;
}

bool ps_span_may_purge(uint32_t class_index) {
    return ps_size_classes[class_index].granules == 1 &&
           ps_os_page_bytes() * 2 * HOLES >= PS_GRANULE_BYTES &&
           ps_os_page_bytes() * 2 <= PS_GRANULE_BYTES;
}

size_t ps_span_purge(struct ps_span *span) {
    PS_CHECK(ps_span_unsettled_blocks(span) == 0);
    struct plan plan = {.count = 0};
    if (!mark_all(&plan.free, span)) {
        return 0;
    }
    find_holes(&plan, span);
    if (plan.pages < LEAST_PAGES) {
        return 0;
    }
    span->gap_head = 0;
    span->gap_blocks = 0;
    size_t purged = 0;
    for (size_t i = plan.count; i-- > 0;) { /* the lowest gap is granted first */
        const struct hole *hole = &plan.holes[i];
        size_t bytes = page_begin(hole->end) - page_begin(hole->begin);
        if (ps_os_purge(span->run.base + page_begin(hole->begin), bytes)) {
            purged += bytes;
            if (hole->blocks != 0) {
                make_gap(&plan, span, hole);
            }
        }
    }
    link_rest(&plan.free, span);
    ps_purge_count(purged);
    ps_span_check(span);
    return purged;
}
