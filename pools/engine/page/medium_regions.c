/* SPDX-License-Identifier: MIT */
/*
 * See medium_regions.h.
 */
#include "pools/engine/page/medium_regions.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/node.h"

#include <string.h>

#define LENGTHS (PS_PAGE_BITS + 1)
#define LENGTH_WORDS (PS_PAGE_BIT_WORDS + 1)

/* Sorts of regions by their free pages: without memory to purge, with memory, and with memory whose
 * purge the system has refused in part. */
enum sort { CLEAN, DIRTY, REFUSED, SORTS };

/* Regions by the length of their longest hole. */
struct ps_medium_lists {
    struct ps_run *heads[LENGTHS];
    uint64_t filled[LENGTH_WORDS]; /* bit set == head not NULL */
};

/* Most words that one section notes between two commits: of a region that moves to another list,
 * its bits, and the counts. */
#define UNDO_WORDS 64

PS_SPARSE PS_UNDO_LOG(first_undo, UNDO_WORDS);
static PS_SPARSE struct ps_medium_lists first_lists[SORTS];
static struct ps_medium_shard first_shard = {
    .lock = PS_LOCK_INIT_UNDO(PS_RANK_MEDIUM, &first_undo),
    .lists = first_lists,
};

struct ps_medium_shard *ps_medium_x_shards[PS_MEDIUM_SHARDS] = {&first_shard};

/* A shard beyond the first, with its parts. */
struct made_shard {
    struct ps_medium_shard shard;
    struct ps_medium_lists lists[SORTS];
    struct ps_undo undo;
    struct ps_undo_entry entries[UNDO_WORDS];
};

/* ---- shards ---- */

#define JUDGED_SECTIONS 1024
#define CONTENDED_WAITS (JUDGED_SECTIONS / 16)
#define PROCESSORS_LEAST 4 /* fewer have one shard: programs are no faster with two, and larger */

static uint32_t x_spread = 1; /* shards of a node */
static uint32_t x_spread_most = 1;
static PS_SPARSE struct ps_medium_shard *x_of_node[PS_NODES][PS_MEDIUM_SHARDS_OF_NODE];

void ps_medium_set_processors(uint32_t count) {
    size_t most = ps_min(count, PS_MEDIUM_SHARDS_OF_NODE);
    /* relaxed: a number; either value is right. */
    ps_store_relaxed(&x_spread_most, count < PROCESSORS_LEAST ? 1u : 1u << ps_log2(most));
}

uint32_t ps_medium_spread(void) {
    return ps_load_relaxed(&x_spread); /* relaxed: any number of shards is right */
}

void ps_medium_set_spread(uint32_t shards) {
    ps_store_relaxed(&x_spread, shards); /* relaxed: as above */
}

/* Number of shards made so far. */
static size_t count_shards(void) {
    size_t count = 1;
    while (ps_medium_shard_at(count) != NULL) { /* ends: at PS_MEDIUM_SHARDS */
        count++;
    }
    return count;
}

/* Makes a shard, under the lock of the first one. NULL: there is no more room. */
static struct ps_medium_shard *make_locked(uint32_t node) {
    size_t index = count_shards();
    struct made_shard *made = index < PS_MEDIUM_SHARDS ? ps_metadata_take(sizeof *made) : NULL;
    if (made == NULL) {
        return NULL;
    }
    struct ps_undo undo = {made->entries, made->entries, made->entries + UNDO_WORDS};
    memcpy(&made->undo, &undo, sizeof undo);
    made->shard.lock = (struct ps_lock)PS_LOCK_INIT_UNDO(PS_RANK_MEDIUM, &made->undo);
    made->shard.lists = made->lists;
    made->shard.index = (uint8_t)index;
    made->shard.node = (uint8_t)node;
    /* release: pairs with ps_medium_shard_at. */
    ps_store_release(&ps_medium_x_shards[index], &made->shard);
    return &made->shard;
}

static PS_COLD struct ps_medium_shard *make_shard(uint32_t node, uint32_t part) {
    ps_lock_acquire(&first_shard.lock);
    /* relaxed: written under this lock. */
    struct ps_medium_shard *shard = ps_load_relaxed(&x_of_node[node][part]);
    if (shard == NULL) {
        shard = make_locked(node);
        shard = shard != NULL ? shard : &first_shard;
        /* release: pairs with ps_medium_shard_here. */
        ps_store_release(&x_of_node[node][part], shard);
    }
    ps_lock_release(&first_shard.lock);
    return shard;
}

struct ps_medium_shard *ps_medium_shard_here(void) {
    uint32_t node = ps_node_here();
    uint32_t part = ps_lock_self() & (ps_medium_spread() - 1);
    if (PS_LIKELY((node | part) == 0)) {
        return &first_shard;
    }
    /* acquire: pairs with make_shard. */
    struct ps_medium_shard *shard = ps_load_acquire(&x_of_node[node][part]);
    return PS_LIKELY(shard != NULL) ? shard : make_shard(node, part);
}

/* Doubles the number of shards if too many sections found the lock taken since it last changed. */
static PS_COLD void judge(struct ps_medium_shard *shard) {
    uint32_t spread = ps_medium_spread();
    bool is_contended = shard->spread == spread && shard->waits >= CONTENDED_WAITS;
    /* relaxed: a number that seldom changes. */
    if (is_contended && 2 * spread <= ps_load_relaxed(&x_spread_most)) {
        ps_medium_set_spread(2 * spread);
    }
    shard->spread = (uint8_t)spread;
    shard->sections = 0;
    shard->waits = 0;
}

void ps_medium_shard_enter(struct ps_medium_shard *shard) {
    bool must_wait = !ps_lock_try(&shard->lock);
    if (PS_UNLIKELY(must_wait)) {
        ps_lock_acquire(&shard->lock);
    }
    /* Not in the log: numbers that have no effect on the regions. */
    shard->waits = (uint16_t)(shard->waits + must_wait);
    shard->sections++;
    if (PS_UNLIKELY(shard->sections >= JUDGED_SECTIONS)) {
        judge(shard);
    }
}

/* ---- lists ---- */

/* Out of line: most of this file was notes. */
PS_NOINLINE void ps_medium_regions_note(struct ps_medium_shard *shard, const void *at) {
    ps_undo_note_word(shard->lock.undo, (uintptr_t)at);
}

/* As PS_UNDO_NOTE of the log of `shard`. */
#define NOTE(lvalue)                                                                               \
    do {                                                                                           \
        _Static_assert(sizeof(lvalue) <= 8, "one word");                                           \
        ps_medium_regions_note(shard, &(lvalue));                                                  \
    } while (0)

static enum sort sort_of(const struct ps_medium_region *region) {
    return region->dirty_free == 0 ? CLEAN : region->is_refused ? REFUSED : DIRTY;
}

static struct ps_medium_lists *lists_of(struct ps_medium_shard *shard,
                                        const struct ps_medium_region *region) {
    return &shard->lists[sort_of(region)];
}

static uint64_t refused_in(const struct ps_medium_region *region) {
    return region->is_refused ? region->dirty_free : 0;
}

static PS_NOINLINE void note_counts(struct ps_medium_shard *shard) {
    ps_undo_note(shard->lock.undo, &shard->counts, sizeof shard->counts);
    ps_undo_note_word(shard->lock.undo, (uintptr_t)&shard->empty_count);
}

void ps_medium_regions_unlink(struct ps_medium_shard *shard, struct ps_medium_region *region) {
    struct ps_medium_lists *set = lists_of(shard, region);
    const struct ps_run *run = ps_medium_run_of(region);
    size_t length = region->longest;
    NOTE(region->longest); /* and the other counts, in one word */
    note_counts(shard);
    shard->empty_count -= region->free_pages == PS_PAGE_BITS;
    shard->counts.dirty_pages -= region->dirty_free;
    shard->counts.refused_pages -= refused_in(region);
    shard->counts.clean_pages -= (uint64_t)region->free_pages - region->dirty_free;
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

void ps_medium_regions_link(struct ps_medium_shard *shard, struct ps_medium_region *region) {
    struct ps_medium_lists *set = lists_of(shard, region);
    struct ps_run *run = ps_medium_run_of(region);
    size_t length = region->longest;
    NOTE(run->next);
    NOTE(run->prev);
    NOTE(set->heads[length]);
    NOTE(set->filled[length / 64]);
    shard->empty_count += region->free_pages == PS_PAGE_BITS;
    shard->counts.dirty_pages += region->dirty_free;
    shard->counts.refused_pages += refused_in(region);
    shard->counts.clean_pages += (uint64_t)region->free_pages - region->dirty_free;
    run->prev = NULL;
    run->next = set->heads[length];
    if (run->next != NULL) {
        NOTE(run->next->prev);
        run->next->prev = run;
    }
    set->heads[length] = run;
    set->filled[length / 64] |= (uint64_t)1 << (length % 64);
}

void ps_medium_regions_link_new(struct ps_medium_shard *shard, struct ps_medium_region *region) {
    note_counts(shard);
    shard->counts.region_count++;
    /* relaxed: published with the region's first block. */
    ps_store_relaxed(&region->x_shard, shard->index);
    ps_medium_regions_link(shard, region);
}

struct ps_run *ps_medium_regions_take_empty(struct ps_medium_shard *shard, size_t kept) {
    if (shard->empty_count <= kept) {
        return NULL;
    }
    struct ps_run *run = NULL;
    for (size_t sort = CLEAN; run == NULL; sort++) { /* ends: there is one */
        run = shard->lists[sort].heads[PS_PAGE_BITS];
    }
    ps_medium_regions_unlink(shard, ps_medium_region_of_run(run));
    shard->counts.region_count--;
    return run;
}

struct ps_medium_region *ps_medium_regions_find(const struct ps_medium_shard *shard, size_t pages) {
    struct ps_run *found = NULL;
    size_t least = LENGTHS;
    for (size_t sort = SORTS; sort-- > 0;) {
        const struct ps_medium_lists *lists = &shard->lists[sort];
        size_t length = ps_bits_next(lists->filled, LENGTH_WORDS, pages, 0);
        if (length < least) {
            least = length;
            found = lists->heads[length];
        }
    }
    return found != NULL ? ps_medium_region_of_run(found) : NULL;
}

/* The index of the first of so many adjacent free granules, not counting granule 0; 0: there are
 * none. */
static size_t free_granules_in(const struct ps_medium_region *region, size_t granules) {
    const uint64_t whole = ((uint64_t)1 << PS_MEDIUM_GRANULE_PAGES) - 1;
    size_t length = 0;
    for (size_t i = 1; i < PS_MEDIUM_GRANULES; i++) {
        size_t page = i * PS_MEDIUM_GRANULE_PAGES;
        bool is_free = ((region->free[page / 64] >> page % 64) & whole) == whole;
        length = is_free ? length + 1 : 0;
        if (length == granules) {
            return i + 1 - granules;
        }
    }
    return 0;
}

struct ps_medium_region *ps_medium_regions_find_granules(const struct ps_medium_shard *shard,
                                                         size_t granules, size_t *first) {
    for (size_t length = granules * PS_MEDIUM_GRANULE_PAGES; length < LENGTHS; length++) {
        for (size_t sort = SORTS; sort-- > 0;) {
            struct ps_run *run = shard->lists[sort].heads[length];
            for (; run != NULL; run = run->next) { /* ends: at the last of the list */
                *first = free_granules_in(ps_medium_region_of_run(run), granules);
                if (*first != 0) {
                    return ps_medium_region_of_run(run);
                }
            }
        }
    }
    return NULL;
}

struct ps_medium_region *ps_medium_regions_find_dirty(const struct ps_medium_shard *shard) {
    const struct ps_medium_lists *dirty = &shard->lists[DIRTY];
    for (size_t i = LENGTH_WORDS; i-- > 0;) {
        if (dirty->filled[i] != 0) {
            size_t length = i * 64 + 63 - (size_t)__builtin_clzll(dirty->filled[i]);
            return ps_medium_region_of_run(dirty->heads[length]);
        }
    }
    return NULL;
}

struct ps_medium_region *ps_medium_regions_find_refused(const struct ps_medium_shard *shard) {
    const struct ps_medium_lists *refused = &shard->lists[REFUSED];
    size_t length = ps_bits_next(refused->filled, LENGTH_WORDS, 0, 0);
    return length < LENGTHS ? ps_medium_region_of_run(refused->heads[length]) : NULL;
}

/* ---- pages of a region that is on no list ---- */

bool ps_medium_region_use(struct ps_medium_shard *shard, struct ps_medium_region *region,
                          size_t from, size_t to) {
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
    return dirty == 0;
}

void ps_medium_region_free(struct ps_medium_shard *shard, struct ps_medium_region *region,
                           size_t from, size_t to) {
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
