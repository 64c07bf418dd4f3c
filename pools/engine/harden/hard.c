/* SPDX-License-Identifier: MIT */
/*
 * See hard.h, from level 2 on. A block is zero from its free to its next allocation.
 */
#include "pools/engine/harden/hard.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/shadow.h"
#include "pools/engine/front/slab_room.h"
#include "pools/engine/front/store.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/hard_canary.h"
#include "pools/engine/harden/hard_life.h"
#include "pools/engine/harden/hard_quarantine.h"
#include "pools/engine/harden/stray.h"
#include "pools/engine/harden/transit.h"
#include "pools/engine/harden/wipe.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/large_path.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/heap/single_path.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/os.h"

#define SPARSE_SLABS 16 /* per class at level 3; a quarter of that at level 2 */

uint32_t ps_hard_level;
size_t ps_hard_extra_bytes;
uint64_t ps_canary_secret;
uint64_t ps_slack_pattern;
size_t ps_hard_most_bytes;

void ps_hard_start(const struct ps_config *config) {
    ps_hard_level = config->harden;
    if (!ps_hard_is_on()) {
        return;
    }
    ps_canary_secret = ps_os_random();
    ps_slack_pattern = (ps_os_random() >> 57 | 0x80) * 0x0101010101010101u;
    ps_hard_most_bytes = ps_size_class_max_bytes - PS_CANARY_BYTES;
    ps_slab_sparse_slabs =
        ps_hard_level >= PS_HARDEN_LONG_QUARANTINE ? SPARSE_SLABS : SPARSE_SLABS / 4;
    ps_hard_extra_bytes = PS_CANARY_BYTES;
    ps_hard_quarantine_start();
}

static size_t block_bytes_of(const struct ps_slab *slab) {
    return ps_slab_class(slab)->block_bytes;
}

static PS_COLD PS_NORETURN void report(const char *what, const struct ps_slab *slab,
                                       const void *block) {
    ps_fatal_block(what, block, block_bytes_of(slab));
}

/* Requested bytes of the block; aborts when the bytes after them were overwritten. */
static size_t check_canary(const struct ps_slab *slab, const void *block) {
    size_t room = ps_canary_room(block_bytes_of(slab));
    if (PS_UNLIKELY(!ps_canary_is_intact(block, room))) {
        report(PS_MISUSE_OVERRUN, slab, block);
    }
    return room - ps_canary_slack(block, room);
}

/* Checks the canary of the preceding block, which an overrun from there has overwritten, or an
 * underrun of the block itself. Another thread may be using that block. */
static void check_neighbour(const struct ps_slab *slab, const char *block) {
    size_t block_bytes = block_bytes_of(slab);
    const char *neighbour = block - block_bytes;
    const uint8_t *mark = neighbour >= slab->run.base ? ps_shadow_at(neighbour) : NULL;
    if (mark != NULL &&
        PS_UNLIKELY(ps_hard_is_suspect(neighbour, mark, ps_canary_room(block_bytes)))) {
        ps_hard_check_other(slab, neighbour);
    }
}

/* ---- allocation ---- */

/*
 * True when a block is unchanged since its free. At level 2 one word of each 64 bytes represents
 * the part after the first KiB, a different one each time: an eighth of the loads.
 */
static bool is_long_untouched(const void *block, size_t bytes) {
    struct ps_hard_shard *shard = ps_hard_make_shard_here();
    if (ps_hard_level >= PS_HARDEN_LONG_QUARANTINE || shard == NULL) {
        return ps_is_wiped(block, bytes);
    }
    return ps_is_wiped(block, PS_HARD_LOOKED_AT_WHOLE) &&
           ps_is_wiped_at((const char *)block + PS_HARD_LOOKED_AT_WHOLE,
                          ps_round_down(bytes - PS_HARD_LOOKED_AT_WHOLE, PS_WIPE_LINE_BYTES),
                          ps_hard_random_below(shard, PS_WIPE_LINE_WORDS));
}

/* Not NORETURN: a tail call. */
PS_COLD void *ps_hard_report_late_write(const void *block) {
    report(PS_MISUSE_LATE_WRITE, ps_slab_of(block), block);
}

/* Makes a free block live. One that was freed must be unchanged; any other was never granted, and
 * is not touched here, which saves a page fault per fresh page. */
PS_NOINLINE void *ps_hard_begin_long_life(void *block, size_t block_bytes, size_t bytes) {
    uint8_t *mark = ps_shadow_of_block(block);
    if (ps_shadow_is(ps_shadow_read(mark), PS_SHADOW_FREED) &&
        PS_UNLIKELY(!is_long_untouched(block, block_bytes))) {
        return ps_hard_report_late_write(block);
    }
    ps_hard_set_live(block, mark, block_bytes, bytes);
    return block;
}

/* Zeroes a block from the store that was never granted, unless its memory was never used. */
static void prepare_one(void *block) {
    const struct ps_slab *slab = ps_slab_of(block);
    const uint8_t *mark = ps_shadow_of_block(block);
    if (!ps_shadow_is(ps_shadow_read(mark), PS_SHADOW_FREED) && !slab->is_zero) {
        ps_wipe(block, block_bytes_of(slab));
    }
}

void ps_hard_prepare(void **blocks, size_t count) {
    struct ps_hard_shard *shard = ps_hard_make_shard_here();
    for (size_t i = count; shard != NULL && i > 1; i--) {
        size_t other = ps_hard_random_below(shard, i);
        void *block = blocks[i - 1];
        blocks[i - 1] = blocks[other];
        blocks[other] = block;
    }
    for (size_t i = 0; i < count; i++) {
        prepare_one(blocks[i]);
    }
}

/* The front has no block of the class. */
static PS_NOINLINE void *refill(uint32_t class_index, size_t bytes, size_t sample_bytes) {
    void *block = ps_single_refill(&class_index, bytes, sample_bytes, ps_hard_prepare);
    return PS_LIKELY(block != NULL)
               ? ps_hard_begin_life(block, ps_size_classes[class_index].block_bytes, bytes)
               : NULL;
}

/* Without sequences. */
static PS_NOINLINE void *alloc_locked(uint32_t class_index, size_t bytes, size_t sample_bytes) {
    void *block = ps_front_pop_locked(class_index);
    return block != NULL
               ? ps_hard_begin_life(block, ps_size_classes[class_index].block_bytes, bytes)
               : refill(class_index, bytes, sample_bytes);
}

PS_INLINE void *alloc_class(uint32_t class_index, size_t bytes, size_t sample_bytes) {
    const struct ps_front_table *table = ps_front_table_base();
    struct ps_front *own = ps_front_thread.own;
    void *block;
    if (PS_LIKELY(own != NULL)) {
        block = ps_front_pop_own(own, table, class_index);
    } else if (PS_HAS_RSEQ && PS_LIKELY(table->has_sequences)) {
        block = ps_front_pop_here(table, class_index);
    } else {
        return alloc_locked(class_index, bytes, sample_bytes);
    }
    return PS_LIKELY(block != NULL)
               ? ps_hard_begin_life(block, ps_size_classes[class_index].block_bytes, bytes)
               : refill(class_index, bytes, sample_bytes);
}

/* The thread's countdown of bytes is over: periodic work, and perhaps a guarded sample. */
static PS_NOINLINE void *alloc_event(uint32_t class_index, size_t bytes, size_t sample_bytes) {
    bool is_due = ps_front_count_event();
    void *sample = PS_UNLIKELY(is_due) ? ps_guard_sample_class(&ps_front_thread.sampler,
                                                               class_index, sample_bytes, NULL)
                                       : NULL;
    return sample != NULL ? sample : alloc_class(class_index, bytes, sample_bytes);
}

void *ps_hard_alloc(uint32_t class_index, size_t bytes, size_t sample_bytes) {
    if (PS_UNLIKELY(bytes == 0 && sample_bytes == 0)) {
        return ps_zero_alloc();
    }
    if (PS_UNLIKELY(class_index == PS_CLASS_NONE)) {
        return ps_front_count_large(ps_large_alloc(bytes, 1, NULL), bytes);
    }
    ps_front_thread.left_bytes -= (int64_t)sample_bytes;
    return PS_LIKELY(ps_front_thread.left_bytes >= 0)
               ? alloc_class(class_index, bytes, sample_bytes)
               : alloc_event(class_index, bytes, sample_bytes);
}

void *ps_hard_alloc_class(uint32_t class_index, size_t bytes, size_t sample_bytes) {
    return alloc_class(class_index, bytes, sample_bytes);
}

PS_NOINLINE void *ps_hard_alloc_unclassed(size_t bytes) {
    return ps_hard_alloc(PS_CLASS_NONE, bytes, bytes);
}

/* Calls of other functions are tail calls, here and in ps_hard_free: neither saves a register. */
void *ps_hard_malloc(size_t bytes) {
    if (PS_UNLIKELY(bytes - 1 >= ps_hard_most_bytes)) {
        return ps_hard_alloc_unclassed(bytes); /* 0 too */
    }
    uint32_t class_index = ps_size_class_by_8[(bytes + PS_CANARY_BYTES + 7) >> 3];
    ps_front_thread.left_bytes -= (int64_t)bytes;
    return PS_LIKELY(ps_front_thread.left_bytes >= 0) ? alloc_class(class_index, bytes, bytes)
                                                      : alloc_event(class_index, bytes, bytes);
}

/* ---- free ---- */

/* The same for a thread whose shard does not exist yet. */
PS_NOINLINE void ps_hard_hold_first(uint32_t class_index, void *block) {
    struct ps_hard_shard *shard = ps_hard_make_shard_here();
    void *other = shard != NULL ? ps_hard_swap(shard, class_index, block) : block;
    if (other != NULL) {
        ps_hard_leave(class_index, other);
    }
}

/* The same where blocks of partitions may be among them. */
static PS_NOINLINE void hold_beside_partitions(uint32_t class_index, void *block) {
    uint32_t phase = ps_transit_begin();
    ps_hard_hold_first(class_index, block);
    ps_transit_end(phase);
}

/* Quarantines a zeroed block. The one that leaves is the next to be granted. */
PS_INLINE void hold(uint32_t class_index, void *block, size_t block_bytes) {
    struct ps_hard_shard *shard = ps_hard_shard_here();
    if (PS_UNLIKELY(ps_partition_end() != 0)) {
        hold_beside_partitions(class_index, block);
        return;
    }
    if (PS_UNLIKELY(shard == NULL)) {
        ps_hard_hold_first(class_index, block);
        return;
    }
    void *other = ps_hard_swap(shard, class_index, block);
    if (PS_LIKELY(other != NULL)) {
        ps_hard_fetch_ahead(block, other, block_bytes);
        ps_front_put(ps_front_table_base(), class_index, other);
    }
}

/* Any address, NULL not among them. */
static PS_NOINLINE void free_slow(void *block) {
    struct ps_slot *slot = ps_page_map_slot(block);
    struct ps_slab *slab = ps_slab_holding(slot, block);
    if (slab == NULL) {
        ps_free_large(slot, block);
        return;
    }
    uint8_t *mark = ps_shadow_of_live(block);
    if (PS_UNLIKELY(mark == NULL)) {
        ps_slab_misuse(slab, block, PS_MISUSE_FREE);
    }
    if (PS_UNLIKELY(ps_shadow_family(mark) != 0)) {
        report(PS_MISUSE_FAMILY, slab, block);
    }
    (void)check_canary(slab, block);
    check_neighbour(slab, block);
    struct ps_partition *partition = slab->extent != NULL ? ps_partition_of_slab(slab) : NULL;
    size_t block_bytes = block_bytes_of(slab);
    ps_hard_end_life(block, mark, block_bytes);
    hold(slab->class_index, block, block_bytes);
    if (partition != NULL && partition->fronts == NULL) {
        ps_partition_discharge(partition, block_bytes, false);
    }
}

/* Frees a live block in a slab of one granule, if it is intact; mark: its shadow byte. */
PS_INLINE void free_live(uint32_t class_index, void *block, uint8_t *mark, size_t block_bytes) {
    if (PS_UNLIKELY(!ps_canary_is_intact(block, ps_canary_room(block_bytes)) ||
                    ps_hard_is_neighbour_suspect(block, mark, block_bytes))) {
        free_slow(block);
        return;
    }
    ps_hard_end_life(block, mark, block_bytes);
    hold(class_index, block, block_bytes);
}

/* Apart from short blocks, because zeroing it takes a call. */
static PS_NOINLINE void free_long(uint32_t class_index, void *block, uint8_t *mark) {
    size_t block_bytes = ps_size_classes[class_index].block_bytes;
    if (block_bytes <= PS_WIPE_INLINE_BYTES) {
        __builtin_unreachable(); /* see ps_hard_free */
    }
    free_live(class_index, block, mark, block_bytes);
}

void ps_hard_free(void *block) {
    const struct ps_slab *slab = (const struct ps_slab *)ps_page_map_slot(block);
    uint8_t *mark = ps_shadow_at(block);
    if (PS_UNLIKELY(!ps_hard_is_usual(slab, false, block, mark))) {
        free_slow(block);
        return;
    }
    uint32_t class_index = slab->class_index;
    size_t block_bytes = ps_size_classes[class_index].block_bytes;
    if (block_bytes > PS_WIPE_INLINE_BYTES) {
        free_long(class_index, block, mark);
    } else {
        free_live(class_index, block, mark, block_bytes);
    }
}

size_t ps_hard_usable(const struct ps_slab *slab, const void *block, enum ps_misuse_call call) {
    const uint8_t *mark = ps_shadow_of_live(block);
    if (PS_UNLIKELY(!ps_slab_has_block(slab, block) || mark == NULL)) {
        ps_slab_misuse(slab, block, call);
    }
    if (PS_UNLIKELY(call == PS_MISUSE_REALLOC && ps_shadow_family(mark) != 0)) {
        report(PS_MISUSE_FAMILY, slab, block);
    }
    return check_canary(slab, block);
}

void ps_hard_resize(const struct ps_slab *slab, void *block, size_t bytes) {
    ps_hard_set_live(block, ps_shadow_of_live(block), block_bytes_of(slab), bytes);
}
