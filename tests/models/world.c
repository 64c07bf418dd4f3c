/* SPDX-License-Identifier: MIT */
/*
 * See world.h. Replaces size_class.c, link.c, span_room.c, page_cache.c, metadata.c, lock.c
 * and fatal.c.
 */
#include "world.h"

#include "pools/engine/heap/background.h"
#include "pools/engine/heap/confirm.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/medium.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/node.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/small/span.h"
#include "pools/engine/small/span_remote.h"

#define METADATA_BYTES ((size_t)8 << 20)

struct ps_size_class ps_size_classes[PS_CLASS_LIMIT];
uint32_t ps_size_class_count = 1;
uint8_t ps_size_class_by_8[PS_CLASS_BYTES_LIMIT / 8 + 1]; /* every size is of class 0 */
uint8_t ps_size_class_by_1[PS_FEW_BYTES + 1];
size_t ps_size_class_guard_bytes;
size_t ps_size_class_max_bytes = PS_CLASS_BYTES_LIMIT;
struct ps_limit_words ps_limit_words;
uint32_t ps_node_x_last; /* one node */
__thread uint32_t ps_lock_thread_id;

static PS_ALIGNED(65536) char memory[WORLD_GRANULES][PS_GRANULE_BYTES];
static PS_ALIGNED(65536) char metadata[METADATA_BYTES];
static size_t metadata_used;
static struct ps_lock cache_lock = PS_LOCK_INIT(PS_RANK_PAGE);
static bool is_out[WORLD_GRANULES];
static unsigned out_count;

void ps_check_failed(const char *text) { explore_fail(text); }

void ps_fatal_block(const char *what, const void *block, size_t size) {
    (void)block, (void)size;
    explore_fail(what);
}

/* One for all: how salts differ is no matter of orders. */
uintptr_t ps_link_mark_salt = UINTPTR_MAX / 5;

uintptr_t ps_link_new_salt(void) { return (uintptr_t)0x5a17 << 48; }

bool ps_span_open(struct ps_span *span, bool is_sparse) {
    (void)is_sparse;
    span->first = ps_size_classes[span->class_index].first;
    span->limit = ps_size_classes[span->class_index].limit;
    return true;
}

void ps_span_shut(const struct ps_span *span) { (void)span; }

/* ---- locks ---- */

uint32_t ps_lock_ask_thread_id(void) { return ps_lock_thread_id = explore_thread() + 1; }

void ps_lock_acquire_slow(struct ps_lock *lock) {
    do { /* ends: the explorer finds deadlocks */
        explore_until_zero(&lock->x_state);
    } while (!ps_lock_try(lock));
}

void ps_lock_check_acquire(const struct ps_lock *lock) { (void)lock; }

void ps_lock_check_release(const struct ps_lock *lock) { (void)lock; }

bool ps_lock_fork_child(struct ps_lock *lock) { return lock->x_state == 0; }

void ps_lock_watch_forks(void) {}

bool ps_lock_is_forking(void) { return false; }

/* ---- the background thread: models/background.c has it ---- */

void ps_background_thread_begun(void) {}

void ps_background_thread_ended(void) {}

/* The word decides. */
bool ps_confirm_is_listed(const struct ps_span *span, const void *block) {
    (void)span, (void)block;
    return true;
}

/* ---- the page layer ---- */

void *ps_metadata_map(size_t bytes) { return ps_metadata_take(bytes); }

bool ps_metadata_map_at(void *base, size_t bytes) {
    (void)base, (void)bytes;
    return false;
}

uint64_t ps_os_random(void) { return 0; }

void *ps_metadata_take(size_t bytes) {
    char *taken = metadata + metadata_used;
    metadata_used += (bytes + 65535) & ~(size_t)65535;
    EXPLORE_ASSERT(metadata_used <= METADATA_BYTES);
    return taken;
}

bool ps_os_is_mapped(const void *address) { return address != NULL; }

uint64_t ps_os_now_ms(void) { return 0; }

void ps_os_advise_huge(void *base, size_t bytes, bool is_on) {
    (void)base, (void)bytes, (void)is_on;
}

struct ps_run *ps_page_cache_take(size_t granules, size_t align_granules) {
    (void)granules, (void)align_granules;
    struct ps_run *run = NULL;
    ps_lock_acquire(&cache_lock);
    for (size_t i = 0; i < WORLD_GRANULES && run == NULL; i++) {
        if (!is_out[i]) {
            struct ps_slot *slot = ps_page_map_slot(memory[i]);
            explore_revive(slot, PS_TENANT_BYTES);
            explore_revive(memory[i], (size_t)ps_size_classes[0].limit * WORLD_BLOCK_BYTES);
            run = &slot->run;
            run->base = memory[i];
            run->granules = 1;
            ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_BUSY);
            is_out[i] = true;
            out_count++;
        }
    }
    ps_lock_release(&cache_lock);
    return run;
}

struct ps_run *ps_page_cache_take_clean(size_t granules) { return ps_page_cache_take(granules, 1); }

void ps_page_cache_give(struct ps_run *run) {
    struct ps_span *span = ps_span_of_slot(ps_slot_of_run(run));
    size_t index = (size_t)(run->base - memory[0]) / PS_GRANULE_BYTES;
    EXPLORE_ASSERT(!ps_span_is_queued(span));
    /* The slot and the blocks have other owners from now on. */
    explore_use(run->base, (size_t)span->limit * WORLD_BLOCK_BYTES);
    explore_kill(run->base, (size_t)span->limit * WORLD_BLOCK_BYTES);
    explore_use(&span->free_countdown, PS_TENANT_BYTES - offsetof(struct ps_span, free_countdown));
    explore_kill(&span->free_countdown, PS_TENANT_BYTES - offsetof(struct ps_span, free_countdown));
    ps_lock_acquire(&cache_lock);
    EXPLORE_ASSERT(is_out[index]);
    ps_store_relaxed(&run->kind, (uint8_t)PS_RUN_FREE);
    is_out[index] = false;
    out_count--;
    ps_lock_release(&cache_lock);
}

struct ps_run *ps_medium_lend(size_t granules, size_t *at) {
    (void)granules, (void)at;
    return NULL;
}

void ps_page_cache_walk(void (*visit)(struct ps_slot *slot, void *context), void *context) {
    ps_lock_acquire(&cache_lock);
    for (size_t i = 0; i < WORLD_GRANULES; i++) {
        visit(ps_page_map_slot(memory[i]), context);
    }
    ps_lock_release(&cache_lock);
}

/* ---- for scenarios ---- */

unsigned world_given(void) { return WORLD_GRANULES - out_count; }

void world_begin(uint16_t blocks, uint16_t notice_blocks) {
    world_classes(blocks, notice_blocks);
    EXPLORE_ASSERT(world_cover());
}

bool world_cover(void) { return ps_page_map_cover(memory, sizeof memory); }

void world_classes(uint16_t blocks, uint16_t notice_blocks) {
    ps_size_classes[0] = (struct ps_size_class){.block_bytes = WORLD_BLOCK_BYTES,
                                                .window_blocks = blocks,
                                                .granules = 1,
                                                .limit = blocks,
                                                .notice_blocks = notice_blocks,
                                                .has_streaks = true};
}

struct ps_span *world_full_span(uintptr_t owner_key) {
    struct ps_span *span = ps_span_create(0, owner_key);
    span->carved = span->limit;
    span->handed = (uint32_t)span->limit << PS_SCALED_SHIFT;
    span->used = (uint16_t)ps_span_capacity(span);
    span->place = PS_PLACE_FULL;
    ps_span_settle(span);
    explore_use(span->run.base, ps_span_capacity(span) * WORLD_BLOCK_BYTES);
    return span;
}

void *world_block(struct ps_span *span, size_t index) {
    char *block = ps_span_block(span, index);
    explore_use(block, WORLD_BLOCK_BYTES);
    return block;
}

static void found(struct ps_span *span, unsigned *seen, size_t index) {
    EXPLORE_ASSERT(index < ps_span_capacity(span) && (*seen & 1u << index) == 0);
    *seen |= 1u << index;
}

void world_check_all_free(struct ps_span *span) {
    unsigned seen = 0;
    for (char *block = span->free; !ps_link_is_end(block); block = ps_link_of(block, span->salt)) {
        found(span, &seen, ps_span_index(span, block));
    }
    for (char *block = span->stash; !ps_link_is_end(block); block = ps_link_of(block, span->salt)) {
        found(span, &seen, ps_span_index(span, block));
    }
    for (size_t head = span->gap_head; head != 0;) {
        struct ps_gap *gap = (struct ps_gap *)ps_span_block(span, head - 1);
        for (size_t i = 0; i < gap->blocks; i++) {
            found(span, &seen, head - 1 + i);
        }
        head = gap->next;
    }
    for (size_t index = span->carved; index < span->limit; index++) {
        found(span, &seen, index);
    }
    EXPLORE_ASSERT(span->used == 0 && seen + 1 == 1u << ps_span_capacity(span));
    explore_use(span->run.base, ps_span_capacity(span) * WORLD_BLOCK_BYTES);
}
