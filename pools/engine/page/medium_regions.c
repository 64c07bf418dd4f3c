/* SPDX-License-Identifier: MIT */
/*
 * See medium_regions.h.
 */
#include "pools/engine/page/medium_regions.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/page/node.h"

#define LENGTHS (PS_PAGE_BITS + 1)
#define LENGTH_WORDS (PS_PAGE_BIT_WORDS + 1)

/* Contents of the free pages of a region: nothing that could be purged, memory, or memory of which
 * the system has refused a part. */
enum sort { CLEAN, DIRTY, REFUSED, SORTS };

/* Regions by the length of their longest hole. */
struct lists {
    struct ps_run *heads[LENGTHS];
    uint64_t filled[LENGTH_WORDS]; /* bit set == head not NULL */
};

/* Most words that one section notes between two commits: of a region that moves to another list,
 * its bits, and the counts. */
#define UNDO_WORDS 64

PS_SPARSE PS_UNDO_LOG(medium_undo, UNDO_WORDS);
struct ps_lock ps_medium_regions_lock = PS_LOCK_INIT_UNDO(PS_RANK_MEDIUM, &medium_undo);
static PS_SPARSE struct lists lists[PS_NODES][SORTS];
static struct ps_medium_counts counts;
static size_t empty_count; /* regions without blocks */

/* Out of line: most of this file was notes. */
PS_NOINLINE void ps_medium_regions_note(const void *at) {
    ps_undo_note_word(&medium_undo, (uintptr_t)at);
}

/* As PS_UNDO_NOTE of this file's log. */
#define NOTE(lvalue)                                                                               \
    do {                                                                                           \
        _Static_assert(sizeof(lvalue) <= 8, "one word");                                           \
        ps_medium_regions_note(&(lvalue));                                                         \
    } while (0)

/* ---- lists ---- */

static enum sort sort_of(const struct ps_medium_region *region) {
    return region->dirty_free == 0 ? CLEAN : region->is_refused ? REFUSED : DIRTY;
}

static struct lists *lists_of(struct ps_medium_region *region) {
    return &lists[ps_medium_run_of(region)->node][sort_of(region)];
}

static uint64_t refused_in(const struct ps_medium_region *region) {
    return region->is_refused ? region->dirty_free : 0;
}

static void note_counts(void) {
    NOTE(empty_count);
    NOTE(counts.region_count);
    NOTE(counts.dirty_pages);
    NOTE(counts.refused_pages);
    NOTE(counts.clean_pages);
}

void ps_medium_regions_unlink(struct ps_medium_region *region) {
    struct lists *set = lists_of(region);
    const struct ps_run *run = ps_medium_run_of(region);
    size_t length = region->longest;
    NOTE(region->longest); /* and the other counts, in one word */
    note_counts();
    empty_count -= region->free_pages == PS_PAGE_BITS;
    counts.dirty_pages -= region->dirty_free;
    counts.refused_pages -= refused_in(region);
    counts.clean_pages -= (uint64_t)region->free_pages - region->dirty_free;
    if (run->next != NULL) {
        NOTE(run->next->prev);
        run->next->prev = run->prev;
    }
    if (run->prev != NULL) {
        NOTE(run->prev->next);
        run->prev->next = run->next;
        return;
    }
    NOTE(set->heads[length]);
    set->heads[length] = run->next;
    if (run->next == NULL) {
        NOTE(set->filled[length / 64]);
        set->filled[length / 64] &= ~((uint64_t)1 << (length % 64));
    }
}

void ps_medium_regions_link(struct ps_medium_region *region) {
    struct lists *set = lists_of(region);
    struct ps_run *run = ps_medium_run_of(region);
    size_t length = region->longest;
    NOTE(run->next);
    NOTE(run->prev);
    NOTE(set->heads[length]);
    NOTE(set->filled[length / 64]);
    empty_count += region->free_pages == PS_PAGE_BITS;
    counts.dirty_pages += region->dirty_free;
    counts.refused_pages += refused_in(region);
    counts.clean_pages += (uint64_t)region->free_pages - region->dirty_free;
    run->prev = NULL;
    run->next = set->heads[length];
    if (run->next != NULL) {
        NOTE(run->next->prev);
        run->next->prev = run;
    }
    set->heads[length] = run;
    set->filled[length / 64] |= (uint64_t)1 << (length % 64);
}

void ps_medium_regions_link_new(struct ps_medium_region *region) {
    note_counts();
    counts.region_count++;
    ps_medium_regions_link(region);
}

struct ps_run *ps_medium_regions_take_empty(size_t kept) {
    if (empty_count <= kept) {
        return NULL;
    }
    struct ps_run *run = NULL;
    for (uint32_t node = 0; run == NULL; node++) { /* ends: there is one */
        for (size_t sort = CLEAN; run == NULL && sort < SORTS; sort++) {
            run = lists[node][sort].heads[PS_PAGE_BITS];
        }
    }
    ps_medium_regions_unlink(ps_medium_region_of_run(run));
    counts.region_count--;
    return run;
}

struct ps_medium_region *ps_medium_regions_find(size_t pages, uint32_t node) {
    struct ps_run *found = NULL;
    size_t least = LENGTHS;
    for (size_t sort = SORTS; sort-- > 0;) {
        size_t length = ps_bits_next(lists[node][sort].filled, LENGTH_WORDS, pages, 0);
        if (length < least) {
            least = length;
            found = lists[node][sort].heads[length];
        }
    }
    return found != NULL ? ps_medium_region_of_run(found) : NULL;
}

/* The longest length of which there are dirty regions on a node, or LENGTHS. */
static size_t longest_dirty_on(uint32_t node) {
    const uint64_t *filled = lists[node][DIRTY].filled;
    for (size_t i = LENGTH_WORDS; i-- > 0;) {
        if (filled[i] != 0) {
            return i * 64 + 63 - (size_t)__builtin_clzll(filled[i]);
        }
    }
    return LENGTHS;
}

struct ps_medium_region *ps_medium_regions_find_dirty(void) {
    struct ps_run *found = NULL;
    size_t longest = 0;
    for (uint32_t node = 0; node <= ps_node_last(); node++) {
        size_t length = longest_dirty_on(node);
        if (length < LENGTHS && (found == NULL || length > longest)) {
            longest = length;
            found = lists[node][DIRTY].heads[length];
        }
    }
    return found != NULL ? ps_medium_region_of_run(found) : NULL;
}

struct ps_medium_region *ps_medium_regions_find_refused(void) {
    for (uint32_t node = 0; node <= ps_node_last(); node++) {
        const struct lists *refused = &lists[node][REFUSED];
        size_t length = ps_bits_next(refused->filled, LENGTH_WORDS, 0, 0);
        if (length < LENGTHS) {
            return ps_medium_region_of_run(refused->heads[length]);
        }
    }
    return NULL;
}

void ps_medium_regions_count(struct ps_medium_counts *out) { *out = counts; }

/* ---- pages of a region that is on no list ---- */

bool ps_medium_region_use(struct ps_medium_region *region, size_t from, size_t to, size_t hole) {
    size_t dirty = 0;
    for (size_t i = from / 64; i * 64 < to; i++) {
        uint64_t mask = ps_pages_mask(i, from, to);
        PS_CHECK((region->free[i] & mask) == mask);
        NOTE(region->free[i]);
        NOTE(region->dirty[i]);
        dirty += (size_t)__builtin_popcountll(region->dirty[i] & mask);
        region->free[i] &= ~mask;
        region->dirty[i] |= mask;
    }
    region->free_pages = (uint16_t)(region->free_pages - (to - from));
    region->dirty_free = (uint16_t)(region->dirty_free - dirty);
    if (hole == region->longest) {
        region->longest = (uint16_t)ps_pages_longest(region->free, hole);
    }
    return dirty == 0;
}

void ps_medium_region_free(struct ps_medium_region *region, size_t from, size_t to) {
    for (size_t i = from / 64; i * 64 < to; i++) {
        uint64_t mask = ps_pages_mask(i, from, to);
        PS_CHECK((region->free[i] & mask) == 0 && (region->dirty[i] & mask) == mask);
        NOTE(region->free[i]);
        region->free[i] |= mask;
    }
    size_t hole =
        ps_pages_next_clear(region->free, to - 1) - ps_pages_begin(region->free, from + 1);
    region->longest = (uint16_t)ps_max(region->longest, hole);
    region->free_pages = (uint16_t)(region->free_pages + (to - from));
    region->dirty_free = (uint16_t)(region->dirty_free + (to - from));
    region->is_refused = 0;
}
