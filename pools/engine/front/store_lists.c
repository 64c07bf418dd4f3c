/* SPDX-License-Identifier: MIT */
/*
 * See store_lists.h.
 */
#include "pools/engine/front/store_lists.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/partition.h"
#include "pools/engine/front/slab_bits.h"
#include "pools/engine/front/slab_room.h"
#include "pools/engine/front/store.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/node.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/retention.h"

#include <string.h>

static struct ps_store first_stores[PS_CLASS_LIMIT];
static struct ps_store *x_stores[PS_NODES] = {first_stores}; /* of each node; NULL: none yet */
struct ps_store_counts ps_store_x_counts[PS_CLASS_LIMIT];
uint8_t ps_store_x_epoch;

bool ps_store_begin(struct ps_store *store) {
    if (PS_UNLIKELY(store == NULL)) {
        return false;
    }
    ps_lock_acquire(&store->lock);
    if (PS_LIKELY(store->lock.depth == 0)) {
        return true;
    }
    ps_lock_release(&store->lock);
    return false;
}

void ps_store_end(struct ps_store *store) { ps_lock_release(&store->lock); }

struct ps_store *ps_store_at(uint32_t node, uint32_t class_index) {
    /* acquire: pairs with make_stores. */
    struct ps_store *stores = ps_load_acquire(&x_stores[node]);
    return stores != NULL ? &stores[class_index] : NULL;
}

struct ps_store *ps_store_of(const struct ps_slab *slab) {
    return slab->extent != NULL ? ps_partition_store(ps_partition_of_slab(slab), slab->class_index)
                                : ps_store_at(slab->run.node, slab->class_index);
}

static void set_ranks(struct ps_store *stores) {
    for (uint32_t i = 0; i < PS_CLASS_LIMIT && PS_CHECKED; i++) {
        ps_store_set_rank(&stores[i]);
    }
}

void ps_store_start(void) { set_ranks(first_stores); }

/* Makes those of a node. False when memory is exhausted. */
static PS_COLD bool make_stores(uint32_t node) {
    struct ps_store *none = NULL;
    size_t bytes = ps_round_up(sizeof first_stores, PS_GRANULE_BYTES);
    struct ps_store *made = ps_metadata_map(bytes);
    if (made != NULL) {
        set_ranks(made);
    }
    /* release: they are zero. Those of two threads at the same moment: one is lost, untouched. */
    return made != NULL && (ps_cas_strong_acq_rel(&x_stores[node], &none, made) || none != NULL);
}

/* ---- lists ---- */

static void unlist(struct ps_store *store, struct ps_slab *slab) {
    struct ps_run *run = &slab->run;
    if (slab->place == 0) {
        return;
    }
    if (run->next != NULL) {
        run->next->prev = run->prev;
    }
    if (run->prev != NULL) {
        run->prev->next = run->next;
    } else {
        store->lists[slab->place - 1] = run->next;
        if (run->next == NULL) {
            store->nonempty &= ~(1u << (slab->place - 1));
        }
    }
    slab->place = 0;
}

static void enlist(struct ps_store *store, struct ps_slab *slab, size_t place) {
    struct ps_run *head = store->lists[place];
    slab->run.prev = NULL;
    slab->run.next = head;
    if (head != NULL) {
        head->prev = &slab->run;
    }
    store->lists[place] = &slab->run;
    store->nonempty |= 1u << place;
    slab->place = (uint8_t)(place + 1);
}

/* The list of a slab with free blocks; the last list has those without used ones, and few others.
 */
static size_t place_of(const struct ps_slab *slab) {
    return ((size_t)slab->x_free_count * PS_STORE_PLACES - 1) / slab->capacity;
}

void ps_store_count_drained(struct ps_store *store, uint32_t change) {
    ps_store_relaxed(&store->drained, store->drained + change); /* relaxed: others read a hint */
}

static void relist(struct ps_store *store, struct ps_slab *slab) {
    slab->epoch = ps_load_relaxed(&ps_store_x_epoch); /* relaxed: a time */
    if (slab->x_free_count == 0) {
        unlist(store, slab);
    } else if (slab->place != place_of(slab) + 1) {
        unlist(store, slab);
        enlist(store, slab, place_of(slab));
    }
}

/* relaxed, both: written under the lock. */
static void count_free_blocks(struct ps_store *store, uint64_t change) {
    ps_store_relaxed(&store->x_free, store->x_free + change);
}

void ps_store_count_purged(struct ps_store *store, uint64_t change) {
    ps_store_relaxed(&store->x_purged, store->x_purged + change);
}

void ps_store_add_free(struct ps_store *store, struct ps_slab *slab, size_t blocks) {
    ps_slab_set_free_count(slab, slab->x_free_count + blocks);
    count_free_blocks(store, blocks);
    relist(store, slab);
}

uint64_t ps_slab_purged_count(const struct ps_slab *slab) {
    return (uint64_t)__builtin_popcount(slab->purged_pages);
}

void ps_store_set_purged(struct ps_store *store, struct ps_slab *slab, uint16_t pages) {
    ps_store_count_purged(store, -ps_slab_purged_count(slab));
    slab->purged_pages = pages;
    ps_store_count_purged(store, ps_slab_purged_count(slab));
}

/* ---- slabs ---- */

static void mark_inside(const struct ps_slab *slab, uint8_t kind) {
    for (uint32_t i = 1; i < slab->run.granules; i++) {
        struct ps_run *run = &ps_page_map_slot(slab->run.base + i * PS_GRANULE_BYTES)->run;
        /* relaxed, both: a block's pointer brings them along; free() only classifies by them. */
        ps_store_relaxed(&run->back, (uint16_t)(kind == PS_RUN_INSIDE ? i : 0));
        ps_store_relaxed(&run->kind, kind);
    }
}

void ps_store_count_slabs(uint32_t class_index, uint64_t change) {
    /* relaxed: a count; nodes have locks of their own. */
    ps_add_relaxed(&ps_store_x_counts[class_index].x_slabs, change);
}

static uint64_t slabs_of(uint32_t class_index) {
    return ps_load_relaxed(&ps_store_x_counts[class_index].x_slabs); /* relaxed: a hint */
}

static struct ps_run *take_run(uint32_t class_index) {
    const struct ps_size_class *class = &ps_size_classes[class_index];
    uint64_t slabs = slabs_of(class_index);
    if (slabs < ps_slab_sparse_slabs) {
        return ps_page_cache_take(class->granules, 1);
    }
    if (slabs == 0) { /* of most classes a process uses a few blocks */
        return ps_page_cache_take_clean(class->granules);
    }
    size_t bytes = (size_t)slabs * class->granules << PS_GRANULE_SHIFT;
    return ps_huge_is_dense_class(class->block_bytes, bytes)
               ? ps_page_cache_take_dense(class->granules)
               : ps_page_cache_take(class->granules, 1);
}

static void give_run(struct ps_slab *slab) {
    if (PS_UNLIKELY(slab->extent != NULL)) {
        ps_extents_give(slab->extent, &slab->run);
    } else if (PS_UNLIKELY(slab->lent_at != 0)) {
        ps_medium_take_back(&slab->run, slab->lent_at);
    } else {
        ps_page_cache_give(&slab->run);
    }
}

/* That of a slab which has its bitmap, and may be open. */
static void return_run(struct ps_slab *slab) {
    ps_slab_shut(slab);
    ps_slab_give_bits(slab);
    give_run(slab);
}

static bool has_store(const struct ps_slab *slab) {
    return ps_store_of(slab) != NULL ||
           (slab->extent != NULL
                ? ps_partition_make_store(ps_partition_of_slab(slab), slab->class_index)
                : make_stores(slab->run.node));
}

/* lent_at: of a run of ps_medium_lend; else 0. extent: that of a partition, or NULL. */
static bool add_slab(struct ps_run *run, uint32_t class_index, size_t lent_at,
                     struct ps_extent *extent) {
    const struct ps_size_class *class = &ps_size_classes[class_index];
    struct ps_slab *slab = ps_slab_of_run(run);
    slab->class_index = (uint8_t)class_index;
    slab->lent_at = (uint32_t)lent_at;
    slab->extent = extent;
    slab->bits = has_store(slab) ? ps_slab_take_bits(slab) : NULL;
    if (slab->bits == NULL) {
        give_run(slab);
        return false;
    }
    slab->place = 0;
    slab->purged_pages = 0;
    slab->is_zero = !run->is_dirty;
    if (PS_UNLIKELY(!ps_slab_open(slab, slabs_of(class_index) < ps_slab_sparse_slabs))) {
        return_run(slab);
        return false;
    }
    memset(slab->bits, 0, (size_t)(class->limit + 63) / 64 * sizeof *slab->bits);
    ps_slab_set_free_count(slab, 0);
    ps_slab_add_range(slab, slab->fresh, slab->capacity);
    mark_inside(slab, PS_RUN_INSIDE);
    struct ps_store *store = ps_store_of(slab);
    if (!ps_store_begin(store)) {
        return false;
    }
    /* release: pairs with walks over all slots, which find a slab without having a block of it. */
    ps_store_release(&run->kind, (uint8_t)PS_RUN_SLAB);
    ps_store_count_slabs(class_index, 1);
    ps_store_count_drained(store, 1);
    ps_store_add_free(store, slab, slab->capacity);
    ps_store_end(store);
    return true;
}

bool ps_store_grow(uint32_t class_index) {
    struct ps_run *run = take_run(class_index);
    return run != NULL && add_slab(run, class_index, 0, NULL);
}

bool ps_store_grow_in(struct ps_partition *partition, uint32_t class_index) {
    struct ps_extent *extent;
    struct ps_run *run =
        ps_extents_take(&partition->extents, ps_size_classes[class_index].granules, 1, &extent);
    return run != NULL && add_slab(run, class_index, 0, extent);
}

PS_COLD bool ps_store_grow_lent(uint32_t class_index) {
    size_t at;
    struct ps_run *run = ps_medium_lend(ps_size_classes[class_index].granules, &at);
    return run != NULL && add_slab(run, class_index, at, NULL);
}

void ps_store_destroy(struct ps_slab *slab) {
    struct ps_run *run = &slab->run;
    mark_inside(slab, PS_RUN_NONE);
    ps_page_map_set_tag(run->base, 0);
    return_run(slab);
}

void ps_store_leave(struct ps_store *store, struct ps_slab *slab) {
    unlist(store, slab);
    /* relaxed: a free of it is misuse. Under the lock: see rebuild. */
    ps_store_relaxed(&slab->run.kind, (uint8_t)PS_RUN_BUSY);
    ps_store_count_drained(store, -(uint32_t)ps_slab_is_drained(slab));
    ps_store_count_slabs(slab->class_index, (uint64_t)-1);
    count_free_blocks(store, -(uint64_t)slab->x_free_count);
    ps_store_count_purged(store, -ps_slab_purged_count(slab));
}

bool ps_store_retire(struct ps_store *store, struct ps_slab *slab, bool is_all) {
    bool is_last = store->nonempty == 1u << (slab->place - 1) && slab->run.next == NULL &&
                   slab->run.prev == NULL;
    if (is_last && !is_all) {
        return false;
    }
    ps_store_leave(store, slab);
    return true;
}

bool ps_store_gain(struct ps_store *store, struct ps_slab *slab, size_t blocks) {
    ps_store_add_free(store, slab, blocks);
    if (ps_slab_is_drained(slab)) {
        bool is_usual = ps_retention_is_usual();
        ps_store_count_drained(store, 1);
        /* Each sparse slab costs system calls; they are few, and ps_store_drop_drained drops them.
         */
        return !(is_usual && slab->guard == PS_SLAB_SPARSE && slab->extent == NULL) &&
               ps_store_retire(store, slab, !is_usual);
    }
    return false;
}

static void add_usage(struct ps_store_usage *usage, const struct ps_store *store,
                      uint32_t class_index) {
    /* relaxed, all: hints. */
    uint64_t purged = ps_load_relaxed(&store->x_purged) * ps_os_page_bytes();
    uint64_t free = ps_load_relaxed(&store->x_free) * ps_size_classes[class_index].block_bytes;
    usage->free_bytes += free - ps_min(free, purged);
    usage->purged_bytes += purged;
}

void ps_store_read_usage(struct ps_store_usage *usage) {
    *usage = (struct ps_store_usage){0};
    for (uint32_t node = 0; node <= ps_node_last(); node++) {
        for (uint32_t i = 0; i < ps_size_class_count; i++) {
            const struct ps_store *store = ps_store_at(node, i);
            if (store != NULL) {
                add_usage(usage, store, i);
            }
        }
    }
}
