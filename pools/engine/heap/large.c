/* SPDX-License-Identifier: MIT */
/*
 * See large.h. The slot of the first granule of a run or mapping describes it. Locks only through
 * the page layer and mapping.c.
 */
#include "pools/engine/heap/large.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/large_length.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/mapping.h"
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/bytes.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/hugetlb.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"

#include <errno.h>

/* Larger alignments use a mapping: a run would have to be searched at twice the length. */
#define RUN_ALIGN_LIMIT ((size_t)4 << 20)

/* From this size on, asking the system for resident pages costs less than it can save. */
#define ZERO_BY_PURGE_BYTES ((size_t)512 << 10)

/* Bytes that are resident twice, at most, while a block moves. */
#define MOVE_PIECE_BYTES ((size_t)1 << 20)

uint64_t ps_large_x_allocs;

static size_t mmap_min_bytes;
static size_t page_bytes;
static bool is_hardened;  /* runs do not become mappings: freed ones are quarantined */
static size_t tail_bytes; /* inaccessible, after each block; 0: none */

void ps_large_start(const struct ps_config *config) {
    mmap_min_bytes = ps_min(config->mmap_min_bytes, PS_RUN_GRANULES_LIMIT / 2 << PS_GRANULE_SHIFT);
    page_bytes = ps_os_page_bytes();
    is_hardened = config->harden != 0;
    tail_bytes = config->harden >= PS_HARDEN_CHECK_BLOCKS ? page_bytes : 0;
    ps_mapping_start(config);
    ps_medium_start(config);
}

bool ps_large_is_mapping_size(size_t bytes) { return bytes >= mmap_min_bytes; }

static struct ps_large *large_of(const struct ps_slot *slot) { return (struct ps_large *)slot; }

static size_t granules_for(size_t bytes) {
    return (bytes + PS_GRANULE_BYTES - 1) >> PS_GRANULE_SHIFT;
}

static size_t capacity_of(const struct ps_slot *slot) {
    return (size_t)slot->run.granules << PS_GRANULE_SHIFT;
}

/* Makes all bytes of a run or mapping after the first `bytes` inaccessible, as far as the system
 * permits. */
static void shut_behind(const struct ps_run *run, size_t bytes) {
    size_t capacity = (size_t)run->granules << PS_GRANULE_SHIFT;
    if (tail_bytes != 0) {
        (void)ps_os_protect(run->base + bytes, capacity - bytes, false);
    }
}

/* Forgets the recorded access of a run: parts other than granules become inaccessible, namely its
 * end, and more in quarantine. */
static void forget_access(const struct ps_run *run, enum ps_run_kind kind) {
    if (kind == PS_RUN_BLOCK) {
        ps_page_cache_set_access(run->base, run->granules, PS_ACCESS_UNKNOWN);
    }
}

/* Makes a run or mapping a live block. extent: that of a partition, or NULL. */
static void *settle_in(struct ps_run *run, size_t bytes, enum ps_run_kind kind,
                       struct ps_extent *extent) {
    large_of(ps_slot_of_run(run))->bytes = bytes;
    large_of(ps_slot_of_run(run))->extent = extent;
    large_of(ps_slot_of_run(run))->family = PS_FAMILY_MALLOC;
    /* relaxed: another thread reads the slot only after it received the block. */
    ps_store_relaxed(&run->kind, (uint8_t)kind);
    return run->base;
}

static size_t align_granules(size_t align) { return ps_max(align >> PS_GRANULE_SHIFT, 1); }

/* Memory that is resident already; NULL: there is none. */
static struct ps_run *take_resident(size_t bytes, size_t align, enum ps_run_kind kind) {
    if (kind == PS_RUN_MAPPING) {
        return ps_mapping_take_kept(bytes, align);
    }
    return align <= PS_GRANULE_BYTES ? ps_page_cache_take_dirty(granules_for(bytes)) : NULL;
}

static struct ps_run *take(size_t bytes, size_t align, enum ps_run_kind kind) {
    if (ps_limit_is_on() && bytes >= ps_limit_least_bytes()) {
        struct ps_run *run = take_resident(bytes, align, kind);
        if (run != NULL || !ps_limit_make_room(bytes)) {
            return run;
        }
    }
    return kind == PS_RUN_MAPPING ? ps_mapping_take(bytes, align)
                                  : ps_page_cache_take(granules_for(bytes), align_granules(align));
}

/* length: `bytes`, rounded up to pages. */
void ps_large_make_zero(void *block, size_t bytes) {
    size_t length = ps_round_up(bytes, page_bytes);
    if (length < ZERO_BY_PURGE_BYTES || ps_hugetlb_page_bytes != 0 ||
        ps_os_resident(block, length) >= length / 2 || !ps_os_purge(block, length)) {
        (void)ps_bytes_zero_block(block, bytes);
    }
}

/* Allocates a run or a mapping, the preferred one if possible. */
static struct ps_run *take_any(size_t bytes, size_t align, enum ps_run_kind *result_kind) {
    bool can_be_run = granules_for(bytes) <= PS_RUN_GRANULES_LIMIT / 2 && align <= RUN_ALIGN_LIMIT;
    enum ps_run_kind kind =
        can_be_run && !ps_large_is_mapping_size(bytes) ? PS_RUN_BLOCK : PS_RUN_MAPPING;
    struct ps_run *run = NULL;
    if (can_be_run && kind == PS_RUN_MAPPING && ps_mapping_is_stuck()) {
        run = ps_page_cache_take_present(granules_for(bytes), align_granules(align));
    }
    if (run != NULL) {
        kind = PS_RUN_BLOCK;
    } else {
        run = take(bytes, align, kind);
    }
    if (run == NULL && can_be_run) { /* one kind of address space is exhausted: try the other */
        kind = kind == PS_RUN_BLOCK ? PS_RUN_MAPPING : PS_RUN_BLOCK;
        run = take(bytes, align, kind);
    }
    *result_kind = kind;
    return run;
}

/* The same in a partition. */
static struct ps_run *take_apart(struct ps_partition *partition, size_t bytes, size_t align,
                                 enum ps_run_kind *kind, struct ps_extent **extent) {
    if (granules_for(bytes) > PS_EXTENT_LONG_LIMIT ||
        (ps_limit_is_on() && bytes >= ps_limit_least_bytes() && !ps_limit_make_room(bytes))) {
        return NULL;
    }
    struct ps_run *run =
        ps_extents_take(&partition->extents, granules_for(bytes), align_granules(align), extent);
    *kind = run != NULL && (*extent)->is_long ? PS_RUN_MAPPING : PS_RUN_BLOCK;
    return run;
}

void ps_large_give_run(struct ps_run *run) {
    struct ps_extent *extent = large_of(ps_slot_of_run(run))->extent;
    if (PS_UNLIKELY(extent != NULL)) {
        ps_extents_give(extent, run);
    } else {
        ps_page_cache_give(run);
    }
}

static void *alloc_run(struct ps_partition *partition, size_t bytes, size_t align, bool *is_zero) {
    if (bytes > (size_t)PTRDIFF_MAX - align) {
        errno = ENOMEM;
        return NULL;
    }
    bytes = ps_round_up(ps_max(bytes, 1), page_bytes);
    enum ps_run_kind kind;
    struct ps_extent *extent = NULL;
    size_t length = bytes + tail_bytes;
    struct ps_run *run = partition != NULL ? take_apart(partition, length, align, &kind, &extent)
                                           : take_any(length, align, &kind);
    if (PS_UNLIKELY(run == NULL)) {
        ps_mode.hook.reclaim();
        run = partition != NULL ? take_apart(partition, length, align, &kind, &extent)
                                : take_any(length, align, &kind);
    }
    if (run == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    bool is_clean = !run->is_dirty;
    large_of(ps_slot_of_run(run))->extent = extent;
    if (tail_bytes != 0) {
        forget_access(run, kind);
        if (kind == PS_RUN_BLOCK && !ps_page_cache_open(run->base, bytes)) {
            ps_large_give_run(run);
            errno = ENOMEM;
            return NULL;
        }
        shut_behind(run, bytes);
        if (!is_clean) {
            ps_large_make_zero(run->base, bytes);
            is_clean = true;
        }
    }
    if (is_zero != NULL) {
        *is_zero = is_clean;
    }
    ps_add_relaxed(&ps_large_x_allocs, (uint64_t)1); /* relaxed: statistics */
    if (PS_UNLIKELY(extent != NULL) && kind == PS_RUN_MAPPING) {
        ps_mapping_count_live(1, (int64_t)capacity_of(ps_slot_of_run(run)));
    }
    return settle_in(run, bytes, kind, extent);
}

void *ps_large_alloc_in(struct ps_partition *partition, size_t bytes, size_t align, bool *is_zero) {
    return alloc_run(partition, bytes, align, is_zero);
}

void *ps_large_alloc_short_in(struct ps_partition *partition, size_t bytes, size_t align,
                              bool *is_zero) {
    void *block = alloc_run(partition, bytes, align, is_zero);
    if (block != NULL) {
        large_of(ps_page_map_slot(block))->bytes = bytes;
    }
    return block;
}

void *ps_large_alloc(size_t bytes, size_t align, bool *is_zero) {
    void *block = NULL;
    if (PS_LIKELY(ps_medium_is_size(bytes, align))) {
        block = ps_medium_alloc(bytes, align, is_zero);
    }
    return PS_LIKELY(block != NULL) ? block : alloc_run(NULL, bytes, align, is_zero);
}

void *ps_large_zalloc(size_t bytes) {
    bool is_zero;
    char *block = ps_large_alloc(bytes, 1, &is_zero);
    if (block == NULL || is_zero) {
        return block;
    }
    ps_large_make_zero(block, bytes);
    return block;
}

size_t ps_large_usable(const struct ps_slot *slot, const void *block) {
    return ps_block_is_medium(slot) ? ps_medium_usable(slot, block) : large_of(slot)->bytes;
}

enum ps_family ps_large_family(const struct ps_slot *slot) { return large_of(slot)->family; }

void ps_large_set_family(struct ps_slot *slot, enum ps_family family) {
    large_of(slot)->family = family;
}

/* Checks the family, for free and realloc. */
static void check_family(const struct ps_slot *slot) {
    if (PS_UNLIKELY(large_of(slot)->family != PS_FAMILY_MALLOC)) {
        ps_fatal_block(PS_MISUSE_FAMILY, slot->run.base, large_of(slot)->bytes);
    }
}

void ps_large_free(struct ps_slot *slot) {
    bool is_mapping = slot->run.kind == PS_RUN_MAPPING;
    struct ps_extent *extent = large_of(slot)->extent;
    size_t bytes = large_of(slot)->bytes;
    check_family(slot);
    if (ps_mode.hook.end_sample != NULL) { /* before the address may be another block's */
        ps_mode.hook.end_sample(slot->run.base);
    }
    /* relaxed: a double free finds no head; a concurrent one is a race of the program. */
    ps_store_relaxed(&slot->run.kind, (uint8_t)PS_RUN_BUSY);
    if (PS_UNLIKELY(extent != NULL) && is_mapping) {
        ps_mapping_count_live(-1, -(int64_t)capacity_of(slot));
        ps_extents_give(extent, &slot->run);
    } else if (is_mapping) {
        ps_mapping_give(&slot->run);
    } else {
        ps_mode.hook.release_run(&slot->run);
    }
    if (PS_UNLIKELY(extent != NULL)) { /* last: a partition may end with it */
        ps_partition_discharge(ps_partition_of_extent(extent), bytes, true);
    }
}

/* Grows the block and moves its inaccessible end; added bytes are zero. NULL: the block is
 * unchanged, except that its old end may be accessible. */
static struct ps_run *grow_guarded(struct ps_slot *slot, size_t bytes) {
    size_t old_bytes = large_of(slot)->bytes;
    size_t old_capacity = capacity_of(slot);
    bool is_clean = true;
    struct ps_run *run = &slot->run;
    bool is_mapping = run->kind == PS_RUN_MAPPING; /* one that has moved is BUSY until it settles */
    if (is_mapping) {
        run = ps_mapping_resize(run, bytes + tail_bytes);
    } else if (!ps_large_extend_run(slot, bytes + tail_bytes, &is_clean)) {
        run = NULL;
    }
    if (run == NULL) {
        return NULL;
    }
    forget_access(run, run->kind);
    if (!is_mapping && bytes > old_capacity &&
        !ps_page_cache_open(run->base + old_capacity, bytes - old_capacity)) {
        return NULL; /* longer, but not usable */
    }
    shut_behind(run, bytes);
    size_t end = ps_min(bytes, old_capacity);
    (void)ps_bytes_zero_block(run->base + old_bytes, end - old_bytes);
    if (!is_clean) {
        ps_large_make_zero(run->base + end, bytes - end);
    }
    return run;
}

/* Shrinking requires a copy: the unused part of a block would not be quarantined. */
static void *resize_guarded(struct ps_slot *slot, size_t bytes) {
    size_t old_bytes = large_of(slot)->bytes;
    char *end = slot->run.base + old_bytes;
    if (bytes <= old_bytes || !ps_os_protect(end, capacity_of(slot) - old_bytes, true)) {
        return bytes == old_bytes ? slot->run.base : NULL;
    }
    enum ps_run_kind kind = slot->run.kind;
    struct ps_run *run = grow_guarded(slot, bytes);
    if (run == NULL) {
        shut_behind(&slot->run, old_bytes);
        return NULL;
    }
    return settle_in(run, bytes, kind, NULL);
}

/* Copies a run to a mapping and drops copied parts piece by piece, so that the block is resident
 * once. Returns the run. */
static void move_pages(struct ps_run *run, size_t bytes, char *target) {
    size_t capacity = (size_t)run->granules << PS_GRANULE_SHIFT;
    bool is_zero = true;
    for (size_t done = 0; done < capacity; done += MOVE_PIECE_BYTES) {
        size_t piece = ps_min(capacity - done, MOVE_PIECE_BYTES);
        ps_bytes_copy_block(target + done, run->base + done,
                            ps_min(piece, bytes - ps_min(done, bytes)));
        if (ps_hugetlb_purge(run, run->base + done, piece)) {
            ps_purge_count(piece);
        } else {
            is_zero = false;
        }
    }
    (is_zero ? ps_page_cache_give_zero : ps_page_cache_give)(run);
}

/*
 * Moves a growing run without free space after it to a mapping, whose pages later growth moves
 * instead of copying. Takes a dirty run instead if there is one. Does nothing while grown mappings
 * are freed repeatedly, because each new one costs page faults. NULL: a copy to another run is as
 * good.
 */
static void *move_to_mapping(struct ps_slot *slot, size_t bytes) {
    size_t old_bytes = large_of(slot)->bytes;
    if (bytes <= old_bytes || bytes < ps_mapping_grown_min_bytes()) {
        return NULL;
    }
    struct ps_run *run = ps_page_cache_take_dirty(granules_for(bytes));
    enum ps_run_kind kind = run != NULL ? PS_RUN_BLOCK : PS_RUN_MAPPING;
    if (run == NULL) {
        run = ps_mapping_take(bytes, 1);
    }
    if (run == NULL) {
        return NULL;
    }
    /* relaxed: as in ps_large_free. */
    ps_store_relaxed(&slot->run.kind, (uint8_t)PS_RUN_BUSY);
    if (kind == PS_RUN_MAPPING) {
        move_pages(&slot->run, old_bytes, run->base);
    } else {
        ps_bytes_copy_block(run->base, slot->run.base, old_bytes);
        ps_page_cache_give(&slot->run);
    }
    return settle_in(run, bytes, kind, NULL);
}

void *ps_large_resize(struct ps_slot *slot, size_t bytes) {
    if (bytes > (size_t)PTRDIFF_MAX - PS_GRANULE_BYTES) {
        return NULL;
    }
    check_family(slot);
    bytes = ps_round_up(bytes, page_bytes);
    size_t capacity = capacity_of(slot);
    if (ps_limit_is_on() && bytes > capacity && !ps_limit_make_room(bytes - capacity)) {
        return NULL;
    }
    if (PS_UNLIKELY(large_of(slot)->extent != NULL)) {
        return ps_large_resize_apart(slot, bytes, tail_bytes != 0);
    }
    if (tail_bytes != 0) {
        return resize_guarded(slot, bytes);
    }
    if (slot->run.kind == PS_RUN_BLOCK) {
        void *resized = ps_large_resize_run(slot, bytes);
        return resized != NULL || is_hardened ? resized : move_to_mapping(slot, bytes);
    }
    if (bytes <= capacity &&
        (bytes >= large_of(slot)->bytes || granules_for(bytes) == slot->run.granules)) {
        large_of(slot)->bytes = bytes;
        return slot->run.base;
    }
    bool is_half = bytes >= capacity / 2;
    if (!is_half && !ps_large_is_mapping_size(bytes)) {
        return NULL; /* too small for a mapping: a copy into a run returns all of it */
    }
    struct ps_run *run = ps_mapping_resize(&slot->run, bytes);
    if (run == NULL && bytes <= capacity) {
        run = &slot->run; /* longer than necessary */
        ps_large_drop_behind(run, bytes);
    }
    return run == NULL ? NULL : settle_in(run, bytes, PS_RUN_MAPPING, NULL);
}
