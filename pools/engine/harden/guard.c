/* SPDX-License-Identifier: MIT */
/*
 * See guard.h. Lock: guard_lock, protects the queue of free slots; system calls and traces precede
 * or follow it. A slot's record belongs to the thread that took the slot from the queue, then to
 * the thread that changes its state from LIVE to FREED, which is how a double free is detected.
 */
#include "pools/engine/harden/guard.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/draw.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/page_cache.h"

#include <string.h>

#define SLOT_NONE UINT32_MAX

uint32_t ps_guard_period;
struct ps_guard_pool ps_guard_pool;

PS_UNDO_LOG(guard_undo, 3);
static struct ps_lock guard_lock = PS_LOCK_INIT_UNDO(PS_RANK_GUARD, &guard_undo);
static uint16_t *queue; /* ring of free slots, oldest at queue_first */
static size_t queue_first;
static size_t x_queue_count;
struct ps_guard_counts ps_guard_x_counts;

/* ---- the pool ---- */

static bool enter_in_page_map(char *base, size_t bytes) {
    if (ps_page_cache_adopt(base, bytes >> PS_GRANULE_SHIFT) == NULL) {
        return false;
    }
    for (size_t offset = 0; offset < bytes; offset += PS_GRANULE_BYTES) {
        /* relaxed: no other thread has an address of it yet. */
        ps_store_relaxed(&ps_page_map_slot(base + offset)->run.kind, (uint8_t)PS_RUN_GUARD);
    }
    return true;
}

/* Allocates records and queue in one mapping, apart from the program's memory. */
static bool make_records(struct ps_guard_pool *pool) {
    size_t record_bytes = pool->slots * sizeof *pool->records;
    char *memory =
        ps_metadata_map(ps_round_up(record_bytes + pool->slots * sizeof *queue, (size_t)64 << 10));
    if (memory == NULL) {
        return false;
    }
    pool->records = (struct ps_guard_record *)memory;
    queue = (uint16_t *)(memory + record_bytes);
    for (size_t i = 0; i < pool->slots; i++) {
        queue[i] = (uint16_t)i;
    }
    x_queue_count = pool->slots;
    return true;
}

PS_COLD void ps_guard_start(const struct ps_config *config) {
    if (config->guard_sample == 0 || config->guard_slots == 0) {
        return;
    }
    struct ps_guard_pool pool = {.slots = config->guard_slots, .page_bytes = ps_os_page_bytes()};
    pool.part_bytes = ps_max(PS_GUARD_BYTES_LIMIT, pool.page_bytes);
    size_t bytes = pool.slots * 4 * pool.part_bytes;
    pool.base = ps_os_reserve(bytes, ps_max(PS_GRANULE_BYTES, 4 * pool.part_bytes));
    if (pool.base == NULL) {
        return;
    }
    if (!ps_os_protect(pool.base, bytes, false) || !make_records(&pool) ||
        !enter_in_page_map(pool.base, bytes)) {
        (void)ps_os_release(pool.base, bytes);
        return;
    }
    ps_guard_pool = pool;
    ps_guard_period = config->guard_sample;
}

PS_AT_START void ps_guard_watch(void) {
    if (ps_guard_pool.base != NULL) {
        ps_fault_watch(ps_guard_claim);
    }
}

static uint32_t take_slot(void) {
    uint32_t slot = SLOT_NONE;
    if (ps_load_relaxed(&x_queue_count) == 0) { /* relaxed: a hint; decided under the lock */
        return slot;
    }
    ps_lock_acquire(&guard_lock);
    if (x_queue_count != 0) {
        PS_UNDO_NOTE(&guard_undo, queue_first);
        PS_UNDO_NOTE(&guard_undo, x_queue_count);
        slot = queue[queue_first];
        queue_first = (queue_first + 1) % ps_guard_pool.slots;
        ps_store_relaxed(&x_queue_count, x_queue_count - 1); /* relaxed: as above */
    }
    ps_lock_release(&guard_lock);
    return slot;
}

static void return_slot(uint32_t slot) {
    ps_lock_acquire(&guard_lock);
    PS_UNDO_NOTE(&guard_undo, x_queue_count);
    queue[(queue_first + x_queue_count) % ps_guard_pool.slots] = (uint16_t)slot;
    ps_store_relaxed(&x_queue_count, x_queue_count + 1); /* relaxed: as in take_slot */
    ps_lock_release(&guard_lock);
}

/* ---- blocks ---- */

/* Counts a new live block. Called before the block can be freed, so that no count falls below 0. */
static void count_in(struct ps_guard_record *record, size_t page_bytes) {
    /* relaxed, all three: counts. */
    (void)ps_add_relaxed(&ps_guard_x_counts.live_count, 1u);
    (void)ps_add_relaxed(&ps_guard_x_counts.live_bytes, record->bytes);
    if (page_bytes > record->held_bytes) { /* pages are always the first of the data part */
        (void)ps_add_relaxed(&ps_guard_x_counts.held_bytes, page_bytes - record->held_bytes);
        record->held_bytes = (uint32_t)page_bytes;
    }
}

static void count_out(const struct ps_guard_record *record) {
    /* relaxed, both: counts. */
    (void)ps_add_relaxed(&ps_guard_x_counts.live_count, (uint64_t)-1);
    (void)ps_add_relaxed(&ps_guard_x_counts.live_bytes, (uint64_t)0 - record->bytes);
}

struct ps_guard_range ps_guard_pages(const struct ps_guard_record *record) {
    uintptr_t page_mask = ps_guard_pool.page_bytes - 1;
    char *first = (char *)((uintptr_t)record->block & ~page_mask);
    uintptr_t end = (uintptr_t)record->block + ps_max(record->bytes, 1);
    return (struct ps_guard_range){first, (char *)((end + page_mask) & ~page_mask)};
}

static void place(struct ps_guard_record *record, uint32_t slot, size_t bytes, bool is_at_end) {
    char *data = ps_guard_pool.base + slot * ps_guard_slot_bytes() + ps_guard_pool.part_bytes;
    size_t room = ps_round_up(ps_max(bytes, 1), bytes <= 8 ? 8 : 16);
    record->block = is_at_end ? data + ps_round_up(room, ps_guard_pool.page_bytes) - room : data;
    record->bytes = (uint32_t)bytes;
    if (ps_load_relaxed(&record->x_state) == PS_GUARD_UNUSED) { /* relaxed: the slot is ours */
        /* Most blocks need this page only. An advice that its neighbours do not have makes it a
         * mapping of its own, so that changing its access takes 1 us instead of 2.5. */
        ps_os_advise_huge(data, ps_guard_pool.page_bytes, false);
    }
}

static void fill_around(const struct ps_guard_record *record) {
    struct ps_guard_range pages = ps_guard_pages(record);
    char *end = record->block + record->bytes;
    memset(pages.first, PS_GUARD_FILL, (size_t)(record->block - pages.first));
    memset(end, PS_GUARD_FILL, (size_t)(pages.end - end));
}

/* The first byte of [first, end) that differs from the fill, or end. */
static const char *first_written(const char *first, const char *end) {
    for (; first < end && (uintptr_t)first % sizeof(uint64_t) != 0; first++) {
        if (*(const unsigned char *)first != PS_GUARD_FILL) {
            return first;
        }
    }
    for (uint64_t word; first + sizeof word <= end; first += sizeof word) {
        memcpy(&word, first, sizeof word);
        if (word != 0x0101010101010101u * PS_GUARD_FILL) {
            break;
        }
    }
    while (first < end && *(const unsigned char *)first == PS_GUARD_FILL) {
        first++;
    }
    return first;
}

/* The address of a byte around the block that was overwritten, or NULL. */
static const char *find_damage(const struct ps_guard_record *record) {
    struct ps_guard_range pages = ps_guard_pages(record);
    const char *behind = first_written(record->block + record->bytes, pages.end);
    if (behind != pages.end) {
        return behind;
    }
    const char *before = first_written(pages.first, record->block);
    return before != record->block ? before : NULL;
}

/* The thread takes a trace: allocations by the unwinder are not sampled. */
static __thread bool is_inside __attribute__((tls_model("initial-exec")));

static void take_trace(struct ps_guard_trace *trace) {
    is_inside = true;
    trace->thread = ps_os_thread_number();
    trace->count = (uint32_t)ps_guard_trace(trace->sites, PS_GUARD_FRAMES, 0);
    is_inside = false;
}

PS_COLD void *ps_guard_make(size_t bytes) {
    bool is_possible = !is_inside && bytes <= ps_guard_pool.part_bytes;
    uint32_t slot = is_possible ? take_slot() : SLOT_NONE;
    if (slot == SLOT_NONE) {
        return NULL;
    }
    struct ps_guard_record *record = &ps_guard_pool.records[slot];
    place(record, slot, bytes, (ps_draw_bits(&ps_front_thread.sampler.random) & 1) != 0);
    struct ps_guard_range pages = ps_guard_pages(record);
    if (!ps_os_protect(pages.first, (size_t)(pages.end - pages.first), true)) {
        (void)ps_os_protect(pages.first, (size_t)(pages.end - pages.first), false);
        return_slot(slot);
        return NULL;
    }
    fill_around(record);
    take_trace(&record->allocated);
    count_in(record, (size_t)(pages.end - pages.first));
    /* release: pairs with the swap in ps_guard_free and the load in check_live. */
    ps_store_release(&record->x_state, (uint32_t)PS_GUARD_LIVE);
    return record->block;
}

static const char call_free[] = "free";

/* Aborts with a report unless the address is the start of a live block. */
static struct ps_guard_record *check_live(const void *block, const char *call) {
    struct ps_guard_record *record = ps_guard_record_of(block);
    uint32_t state = ps_load_acquire(&record->x_state); /* acquire: pairs with ps_guard_alloc */
    if (state == PS_GUARD_UNUSED) {
        ps_guard_die(call, " of foreign pointer", block, record);
    }
    if (record->block != block) {
        ps_guard_die(call, " of interior pointer", block, record);
    }
    if (state == PS_GUARD_FREED) {
        bool is_free = call == call_free;
        ps_guard_die(is_free ? "double free" : call, is_free ? " of" : " of free block", block,
                     record);
    }
    return record;
}

PS_COLD void ps_guard_free(void *block) {
    struct ps_guard_record *record = check_live(block, call_free);
    const char *damage = find_damage(record);
    if (damage != NULL) {
        const char *what =
            damage < record->block ? " after heap underflow at" : " after heap overflow at";
        ps_guard_die(call_free, what, damage, record);
    }
    uint32_t state = PS_GUARD_LIVE;
    /* acquire: pairs with ps_guard_alloc; of two concurrent frees one fails. */
    if (!ps_cas_strong_acquire(&record->x_state, &state, (uint32_t)PS_GUARD_FREED)) {
        ps_guard_die("double free", " of", block, record);
    }
    count_out(record);
    take_trace(&record->freed);
    struct ps_guard_range pages = ps_guard_pages(record);
    /* Fails only at the limit of mappings; uses after the free then go undetected. */
    (void)ps_os_protect(pages.first, (size_t)(pages.end - pages.first), false);
    return_slot((uint32_t)(record - ps_guard_pool.records));
}

PS_COLD size_t ps_guard_usable(const void *block, const char *call) {
    return check_live(block, call)->bytes;
}

void ps_guard_fork_child(void) { ps_lock_fork_child(&guard_lock); }
