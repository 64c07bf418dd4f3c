/* SPDX-License-Identifier: MIT */
/*
 * See trace.h. Two tables without locks: the live traced blocks, by address, and the stacks, by
 * hash. The entry of a freed block is reused for the next one at the address.
 */
#include "pools/engine/record/trace.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/huge.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/record/record.h"
#include "pools/engine/record/record_peak.h"
#include "pools/engine/record/trace_peak.h"
#include "pools/engine/small/size_class.h"

#include <errno.h>
#include <string.h>

#define HEADER_BYTES 4096
#define MAPS_SHARE 16  /* of the file: the text of the mappings */
#define STACK_SHARE 8  /* likewise: the stacks */
#define STACK_TRIES 64 /* entries that a stack's search visits */
#define FREED 1        /* in an address of the table: the block was freed */
#define MAP_UNIT ((size_t)64 << 10)
#define PEAK_EVENTS 4096 /* from one reading of the peak RSS to the next */

/* Bits of the state. */
enum { IS_TRACING = 1, IS_RESIZING = 2, IS_ZEROING = 4 };

/* The calling thread, as the trace knows it. */
struct ps_trace_words {
    uint32_t state;
    uint32_t thread; /* its number, from 1; 0: it has none yet */
};
static PS_THREAD_LOCAL_LINE(struct ps_trace_words, own_words);
static uint32_t x_threads;

/* Written at start, before other threads; header NULL again in the child of a fork. */
static struct ps_trace_header *header;
static uint64_t *stack_words;
static struct ps_trace_event *events;
static uint64_t *blocks; /* a power of two, more than the allocations that are traced */
static size_t block_mask;
static uint64_t *stacks; /* hash << 32 | name; 0: free */
static size_t stack_mask;
static uint64_t x_window; /* the present one, or the next */

/* ---- start ---- */

static void lay_out(struct ps_trace_header *at, size_t bytes) {
    at->maps_begin = HEADER_BYTES;
    at->maps_end = at->stack_begin = HEADER_BYTES + ps_round_down(bytes / MAPS_SHARE, 8);
    at->stack_end = at->event_begin = at->stack_begin + ps_round_down(bytes / STACK_SHARE, 8);
    at->event_limit = (bytes - at->event_begin) / sizeof(struct ps_trace_event);
    at->x_stack_words = 1; /* 0 is no stack */
}

static void place_windows(struct ps_trace_header *at) {
    uint64_t budget = at->event_limit / 2;
    uint64_t length = budget / 2 / (PS_TRACE_WINDOWS - 1);
    uint64_t gap = length;
    uint64_t end = budget / 2;
    at->window_count = PS_TRACE_WINDOWS;
    at->window_ends[0] = end;
    for (size_t i = 1; i < PS_TRACE_WINDOWS; i++) {
        at->window_starts[i] = end + gap;
        end = at->window_ends[i] = at->window_starts[i] + length;
        gap += gap / 2;
    }
}

static size_t table_bytes(size_t mask) {
    return ps_round_up((mask + 1) * sizeof(uint64_t), MAP_UNIT);
}

static uint64_t *map_table(size_t count, size_t *mask) {
    *mask = count - 1;
    uint64_t *table = ps_metadata_map(table_bytes(*mask));
    if (table != NULL) {
        ps_huge_refuse(table, table_bytes(*mask));
    }
    return table;
}

static size_t power_above(uint64_t count) {
    size_t power = 1;
    while (power <= count) { /* ends: count is far below 2^63 */
        power *= 2;
    }
    return power;
}

bool ps_trace_start(const struct ps_config *config) {
    struct ps_trace_header *at = config->trace_memory;
    if (!ps_record_start(config)) {
        return false;
    }
    if (at == NULL || config->trace_bytes < PS_TRACE_BYTES_MIN) {
        return true; /* the shim has said why */
    }
    lay_out(at, config->trace_bytes);
    place_windows(at);
    blocks = map_table(power_above(at->event_limit), &block_mask);
    stacks = map_table(power_above((at->stack_end - at->stack_begin) / 64), &stack_mask);
    if (blocks == NULL || stacks == NULL) {
        return true;
    }
    stack_words = (uint64_t *)((char *)at + at->stack_begin);
    events = (struct ps_trace_event *)((char *)at + at->event_begin);
    header = at;
    at->magic = PS_TRACE_MAGIC;
    return true;
}

bool ps_trace_is_on(void) { return header != NULL; }

/* The file is the parent's. */
void ps_trace_fork_child(void) {
    header = NULL;
    ps_record_fork_child();
}

/* ---- live blocks; relaxed throughout: an entry concerns the threads that have the block in turn,
 * and it reaches each of them by a transfer that makes the entry visible ---- */

static uint64_t *block_entry(const void *block, uint64_t wanted) {
    size_t at = ((uintptr_t)block * PS_GOLDEN_64) >> 20;
    for (size_t i = 0; i <= block_mask; i++) {
        uint64_t *entry = &blocks[(at + i) & block_mask];
        uint64_t found = ps_load_relaxed(entry);
        if ((found & ~(uint64_t)FREED) == (uintptr_t)block || found == wanted) {
            return entry;
        }
        if (found == 0) {
            return NULL;
        }
    }
    return NULL;
}

/* Enters a block; the table has room, see the equation in trace.h. */
static void enter_block(const void *block) {
    for (;;) { /* each turn but the last: another thread has filled an entry */
        uint64_t *entry = block_entry(block, 0);
        if (entry == NULL) {
            return;
        }
        uint64_t found = ps_load_relaxed(entry);
        bool is_ours = found == 0 || (found & ~(uint64_t)FREED) == (uintptr_t)block;
        if (is_ours && ps_cas_weak_relaxed(entry, &found, (uint64_t)(uintptr_t)block)) {
            return;
        }
    }
}

static bool has_block(const void *block) {
    uint64_t *entry = block_entry(block, (uintptr_t)block);
    return entry != NULL && ps_load_relaxed(entry) == (uintptr_t)block;
}

/* False when the block is not a live traced one. */
static bool remove_block(const void *block) {
    uint64_t *entry = block_entry(block, (uintptr_t)block);
    if (entry == NULL || ps_load_relaxed(entry) != (uintptr_t)block) {
        return false;
    }
    ps_store_relaxed(entry, (uint64_t)(uintptr_t)block | FREED);
    return true;
}

/* ---- stacks ---- */

struct sites {
    size_t count;
    uintptr_t sites[PS_TRACE_FRAMES];
};

static uint32_t hash_of(const struct sites *taken) {
    uint64_t hash = taken->count;
    for (size_t i = 0; i < taken->count; i++) {
        hash = (hash ^ taken->sites[i]) * PS_GOLDEN_64;
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static bool is_stack(uint32_t name, const struct sites *taken) {
    const uint64_t *words = stack_words + name;
    return words[0] == taken->count &&
           memcmp(words + 1, taken->sites, taken->count * sizeof *words) == 0;
}

/* Writes a stack; 0 when there is no room. */
static uint32_t add_stack(const struct sites *taken) {
    size_t limit = (header->stack_end - header->stack_begin) / sizeof(uint64_t);
    /* relaxed: words of our own_words. */
    uint64_t at = ps_add_relaxed(&header->x_stack_words, taken->count + 1);
    if (at + taken->count + 1 > limit) {
        return 0;
    }
    stack_words[at] = taken->count;
    memcpy(stack_words + at + 1, taken->sites, taken->count * sizeof(uint64_t));
    return (uint32_t)at;
}

/* The name of a stack. Two threads may write the same one at a time; one of them is found later. */
static uint32_t name_of(const struct sites *taken) {
    uint32_t hash = hash_of(taken) | 1;
    uint32_t made = 0;
    for (size_t i = 0; i < STACK_TRIES; i++) {
        uint64_t *entry = &stacks[(hash + i) & stack_mask];
        uint64_t found = ps_load_acquire(entry); /* acquire: pairs with the swap below */
        if (found == 0) {
            made = made != 0 ? made : add_stack(taken);
            uint64_t wanted = (uint64_t)hash << 32 | made;
            /* acq_rel: makes the words of the stack visible; see the load above. */
            if (made == 0 || ps_cas_strong_acq_rel(entry, &found, wanted)) {
                return made;
            }
        }
        if (found >> 32 == hash && is_stack((uint32_t)found, taken)) {
            return (uint32_t)found;
        }
    }
    return made;
}

static uint32_t take_stack(void) {
    struct sites taken;
    taken.count = ps_guard_trace(taken.sites, PS_TRACE_FRAMES, 0);
    uint32_t name = taken.count != 0 ? name_of(&taken) : 0;
    if (name == 0) {
        (void)ps_add_relaxed(&header->x_lost_stack_count, (uint64_t)1); /* relaxed: a count */
    }
    return name;
}

/* ---- events ---- */

/* False for a thread that has not begun, or whose destructors have run: its stack is not taken. */
static bool is_running(void) {
    return ps_front_thread.armed_bytes != 0 && ps_front_thread.end != PS_FRONT_END_OVER;
}

static uint16_t own_number(void) {
    if (own_words.thread == 0) {
        own_words.thread = ps_add_relaxed(&x_threads, 1u) + 1; /* relaxed: a number */
    }
    return (uint16_t)own_words.thread;
}

/* The file and the tables, as far as they are resident. */
static uint64_t own_bytes(void) {
    /* relaxed, both: counts. */
    uint64_t event_count = ps_min(ps_load_relaxed(&header->x_event_count), header->event_limit);
    uint64_t word_count = ps_load_relaxed(&header->x_stack_words);
    return HEADER_BYTES + event_count * sizeof(struct ps_trace_event) +
           word_count * sizeof(uint64_t) + ps_os_resident(blocks, table_bytes(block_mask)) +
           ps_os_resident(stacks, table_bytes(stack_mask));
}

/* The peak includes the trace itself, which was smaller when it was reached: so it is read often,
 * and the highest difference counts. relaxed, all: counts. Two threads at a time may store the
 * lower value, until the next reading. */
void ps_trace_note_peak(void) {
    if (header == NULL || ps_load_relaxed(&header->x_made_count) >= header->window_ends[0]) {
        return;
    }
    uint64_t peak_bytes = ps_trace_peak_read();
    uint64_t net_bytes = peak_bytes - ps_min(own_bytes(), peak_bytes);
    if (net_bytes > ps_load_relaxed(&header->x_peak_rss_bytes)) {
        ps_store_relaxed(&header->x_peak_rss_bytes, net_bytes);
    }
}

static void append(struct ps_trace_event event) {
    /* relaxed: a place of our own; its order is that of the calls, which the program orders. */
    uint64_t at = ps_add_relaxed(&header->x_event_count, (uint64_t)1);
    if (at >= header->event_limit) {
        return;
    }
    if (is_running()) {
        own_words.state |= IS_TRACING;
        if ((own_words.state & IS_RESIZING) != 0) {
            event.kind |= PS_TRACE_RESIZED;
        }
        if ((own_words.state & IS_ZEROING) != 0) {
            event.kind |= PS_TRACE_ZEROED;
        }
        event.thread = own_number();
        event.stack = take_stack();
        own_words.state &= ~(uint32_t)IS_TRACING;
    }
    events[at] = event;
    if ((at + 1) % PEAK_EVENTS == 0) {
        ps_trace_note_peak();
    }
}

/* True if an allocation, after so many others, is traced. */
static bool is_in_window(uint64_t made_count) {
    uint64_t window = ps_load_relaxed(&x_window); /* relaxed: a stale value is advanced again */
    while (window < PS_TRACE_WINDOWS && made_count >= header->window_ends[window]) {
        (void)ps_cas_weak_relaxed(&x_window, &window, window + 1);
        window = ps_load_relaxed(&x_window);
    }
    return window < PS_TRACE_WINDOWS && made_count >= header->window_starts[window];
}

/* Notes an allocation; returns the block, which may be NULL. */
static void *note_made(void *block, size_t bytes, size_t align) {
    if (block == NULL || header == NULL || !is_running() || (own_words.state & IS_TRACING) != 0) {
        return block;
    }
    /* relaxed, both: counts. */
    uint64_t made_count = ps_add_relaxed(&header->x_made_count, (uint64_t)1);
    (void)ps_add_relaxed(&header->x_made_bytes, (uint64_t)bytes);
    if (is_in_window(made_count)) {
        uint8_t align_shift = align == 0 ? 0 : (uint8_t)ps_log2(align);
        enter_block(block);
        append((struct ps_trace_event){.address = (uintptr_t)block,
                                       .bytes = (uint32_t)ps_min(bytes, UINT32_MAX),
                                       .made_count = (uint32_t)made_count,
                                       .kind = PS_TRACE_MADE,
                                       .align_shift = align_shift});
    }
    return block;
}

/* Notes a free that is about to be made. */
static void note_freed(const void *block) {
    if (header != NULL && remove_block(block)) {
        uint64_t made_count = ps_load_relaxed(&header->x_made_count); /* relaxed: a count */
        append((struct ps_trace_event){.address = (uintptr_t)block,
                                       .made_count = (uint32_t)made_count,
                                       .kind = PS_TRACE_FREED});
    }
}

/* ---- entry points ---- */

void *ps_trace_alloc(size_t bytes) { return note_made(ps_record_alloc(bytes), bytes, 0); }

/* As in ps_record_zalloc. */
void *ps_trace_zalloc(size_t bytes) {
    own_words.state |= IS_ZEROING;
    void *block = ps_record_zalloc(bytes);
    if (bytes > ps_size_class_max_bytes) {
        block = note_made(block, bytes, 0);
    }
    own_words.state &= ~(uint32_t)IS_ZEROING;
    return block;
}

void *ps_trace_alloc_aligned(size_t bytes, size_t align) {
    return note_made(ps_record_alloc_aligned(bytes, align), bytes, align);
}

void *ps_trace_alloc_in(struct ps_partition *partition,
                        const struct ps_partition_request *request) {
    size_t align = request->align > 16 ? request->align : 0;
    return note_made(ps_record_alloc_in(partition, request), request->bytes, align);
}

void ps_trace_free(void *block) {
    int saved_errno = errno;
    note_freed(block);
    errno = saved_errno;
    ps_record_free(block);
}

/* A resize that copies calls the other two. */
void *ps_trace_resize(void *block, size_t bytes) {
    if (header == NULL || !is_running()) {
        return ps_record_resize(block, bytes);
    }
    own_words.state |= IS_RESIZING;
    void *resized = ps_record_resize(block, bytes);
    bool stays = resized != NULL && (resized == block || has_block(block));
    if (stays) {
        note_freed(block);
        (void)note_made(resized, bytes, 0);
    }
    own_words.state &= ~(uint32_t)IS_RESIZING;
    return resized;
}
