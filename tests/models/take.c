/* SPDX-License-Identifier: MIT */
/*
 * Heaps that are taken from their threads (thread.h): the first thread of each scenario has a heap,
 * was idle, and calls at any moment while the second searches for idle heaps. In every order, no
 * block belongs to two threads, none is lost, and a thread that needs a heap gets one; the medium
 * blocks that wait in a heap have no protection but that of the heap. Nothing is written to the
 * words of a thread that has been joined. Sources and faults to find: take.model.
 */
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/heap/thread_record.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/small/orphans.h"
#include "pools/engine/small/span_remote.h"

#include <pthread.h>
#include <string.h>
#include <world.h>

#define BLOCKS 3
#define BLOCKS_MAX (2 * EXPLORE_THREADS)
#define MEDIUM_BYTES ((size_t)17 << PS_MEDIUM_PAGE_SHIFT) /* above every class */
#define MEDIUM_BLOCKS 3
#define FIRST_LOOK_MS 1000
#define WAIT_MS 4

static struct ps_heap *owner;  /* heap of the first thread */
static void *live[BLOCKS_MAX]; /* allocated; each thread writes its own */
static void *live_medium[2];

/* ---- stubs for the rest of the heap layer ---- */

/* Not used by heaps: the inline functions of front_path.h name them. */
PS_THREAD_LOCAL_LINE(struct ps_front_words, ps_front_thread);
struct ps_front_table ps_front_table;

/* A region of few blocks, each at a fixed place. */
static PS_ALIGNED(65536) char medium[MEDIUM_BLOCKS][2 * PS_GRANULE_BYTES];
static bool is_medium_out[MEDIUM_BLOCKS];
static struct ps_lock medium_lock = PS_LOCK_INIT(PS_RANK_MEDIUM);

size_t ps_os_page_bytes(void) { return PS_MEDIUM_PAGE_BYTES; }

char *ps_medium_take(size_t pages, size_t align, bool *is_zero) {
    char *block = NULL;
    EXPLORE_ASSERT(pages << PS_MEDIUM_PAGE_SHIFT == MEDIUM_BYTES && align == 1);
    ps_lock_acquire(&medium_lock);
    for (size_t i = 0; i < MEDIUM_BLOCKS && block == NULL; i++) {
        if (!is_medium_out[i]) {
            is_medium_out[i] = true;
            block = medium[i];
        }
    }
    ps_lock_release(&medium_lock);
    *is_zero = false;
    return block;
}

void ps_medium_give(const ps_medium_block *blocks, size_t count) {
    ps_lock_acquire(&medium_lock);
    for (size_t i = 0; i < count; i++) {
        size_t index = (size_t)(ps_medium_address_of(blocks[i]) - medium[0]) / sizeof medium[0];
        EXPLORE_ASSERT(is_medium_out[index]);
        is_medium_out[index] = false;
    }
    ps_lock_release(&medium_lock);
}

void *ps_large_alloc(size_t bytes, size_t align, bool *is_zero) {
    return ps_medium_alloc(ps_thread_own(), bytes, align, is_zero);
}

uint32_t ps_engine_x_has_started = 1;

int pthread_setspecific(pthread_key_t key, const void *value) {
    (void)key, (void)value;
    return 0;
}

/* Words and descriptor of a thread have one address. */
pthread_t pthread_self(void) { return (pthread_t)&ps_thread; }

/* ---- the threads ---- */

/* As in thread.c. No function returns it: the explorer sees no store to a result. */
#define FIRST_WORDS                                                                                \
    (struct ps_thread_words) { .key = ps_heap_key(NULL) }

/* Makes the calling thread's heap another thread's. */
static void hand_to(unsigned thread) {
    ps_thread_of[thread] = ps_thread;
    ps_thread.own->x_thread = &ps_thread_of[thread];
    ps_thread_of[0] = FIRST_WORDS;
}

static void *allocate(void) {
    void *block = ps_owned_alloc(WORLD_BLOCK_BYTES);
    explore_use(block, WORLD_BLOCK_BYTES);
    *(uintptr_t *)block = 0; /* the world has one salt: an old link would pass for a new one */
    return block;
}

static void *allocate_medium(void) {
    char *block = ps_owned_alloc(MEDIUM_BYTES);
    explore_use(block, sizeof(uintptr_t));
    return block;
}

static void end_medium(size_t index) {
    explore_use(live_medium[index], sizeof(uintptr_t));
    ps_owned_free(live_medium[index]);
    live_medium[index] = NULL;
}

static void end(size_t index) {
    explore_use(live[index], WORLD_BLOCK_BYTES);
    ps_owned_free(live[index]);
    live[index] = NULL;
}

/* As size_class.c plans a class with free streaks: without the first block. */
static void begin(void) {
    world_begin(BLOCKS, 1);
    ps_size_classes[0].first = 1;
    ps_size_classes[0].limit++;
    ps_take_start();
    for (size_t i = 0; i < PS_MODEL_THREADS; i++) {
        ps_thread_of[i] = FIRST_WORDS;
    }
    ps_thread.is_announced = 1;
}

static void set_up(void) {
    begin();
    (void)ps_heap_acquire();
    hand_to(2);
    live[0] = allocate();
    owner = ps_thread.own;
    hand_to(1);
}

/* One medium block is cached in the heap, and one is live. */
static void set_up_medium(void) {
    static const struct ps_config config = PS_CONFIG_DEFAULT;
    begin();
    EXPLORE_ASSERT(ps_page_map_cover(medium, sizeof medium));
    for (size_t i = 0; i < MEDIUM_BLOCKS; i++) {
        struct ps_slot *slot = ps_page_map_slot(medium[i]);
        ps_store_relaxed(&((struct ps_medium_granule *)slot)->x_owner, PS_KEY_MEDIUM);
        ps_store_relaxed(&slot->run.kind, (uint8_t)PS_RUN_MEDIUM);
        is_medium_out[i] = false;
    }
    ps_medium_start(&config);
    (void)ps_heap_acquire();
    hand_to(2);
    live[0] = allocate();
    owner = ps_thread.own;
    live_medium[0] = allocate_medium();
    live_medium[1] = allocate_medium();
    end_medium(0);
    hand_to(1);
}

/* The third thread has a heap too, which it keeps. */
static void set_up_three(void) {
    begin();
    (void)ps_heap_acquire();
    hand_to(3);
    ps_thread_of[3].own->x_thread = NULL;
    ps_thread.is_announced = 1;
    (void)ps_heap_acquire();
    hand_to(2);
    live[0] = allocate();
    owner = ps_thread.own;
    hand_to(1);
}

/* The first thread frees blocks in order, and has freed one. */
static void set_up_streak(void) {
    begin();
    (void)ps_heap_acquire();
    hand_to(2);
    void *first = allocate();
    live[0] = allocate();
    owner = ps_thread.own;
    ps_streak_open(owner, ps_span_at(first), first, WORLD_BLOCK_BYTES);
    EXPLORE_ASSERT(ps_thread.streak_next == live[0]);
    hand_to(1);
}

static struct ps_thread_record *record;
static uint32_t x_not_ended;
static struct ps_thread_words reused; /* what the program writes where the words were */

/* The first thread has a record. */
static void set_up_record(void) {
    set_up();
    x_not_ended = 1;
    record = ps_thread_record_make(false, false);
    ps_thread_of[1].record = record;
    record->heap = owner;
    owner->record = record;
    pthread_t thread = (pthread_t)&ps_thread_of[1];
    ps_thread_record_created(record, &thread);
}

static void frees(void) { end(0); }

/* Ends without its destructors. */
static void frees_and_vanishes(void) {
    frees();
    ps_store_release(&x_not_ended, 0u);
}

static void joins(void) {
    uint32_t zero;
    struct ps_thread_record *joined = ps_thread_record_join((pthread_t)&ps_thread_of[1]);
    EXPLORE_ASSERT(joined == record);
    do {
        zero = 0;
        explore_until_zero(&x_not_ended);
    } while (
        !ps_cas_strong_acquire(&x_not_ended, &zero, 1u)); /* a load could read an older value */
    memset(&reused, 0xee, sizeof reused);
    ps_thread_of[1] = reused;
    ps_thread_joined(joined, true);
}

static void frees_medium(void) { end_medium(1); }

static void allocates_medium(void) { live_medium[0] = allocate_medium(); }

static void allocates(void) { live[1] = allocate(); }

static void allocates_and_frees(void) {
    allocates();
    frees();
}

static void ends(void) { ps_heap_give_up(); }

static void frees_and_ends(void) {
    frees();
    ends();
}

static uint64_t now_us; /* one thread of a scenario walks */

uint64_t ps_os_now_us(void) { return now_us; }

static void look(uint64_t now_ms) {
    now_us = now_ms * 1000;
    ps_thread_enter();
    ps_take_tick(now_ms);
    ps_thread_leave();
}

static void walks_twice(void) {
    look(FIRST_LOOK_MS);
    explore_time_passes();
    look(FIRST_LOOK_MS + WAIT_MS);
}

static void walks_and_allocates(void) {
    walks_twice();
    live[2] = allocate();
}

static void other_frees(void) {
    end(0);
    ps_remote_flush(ps_thread.own);
}

/* ---- what must hold ---- */

/* Gives up the heap of a thread as at its end. */
static void end_thread(unsigned thread) {
    ps_thread_of[0] = ps_thread_of[thread];
    struct ps_heap *heap = ps_thread.own != NULL ? ps_thread.own : ps_thread.last;
    if (heap != NULL && heap->x_thread == &ps_thread_of[thread]) {
        heap->x_thread = &ps_thread_of[0];
    }
    ps_heap_give_up();
}

/* 0: the heap was taken, and its thread did not return; 1: its thread has it, or had it to its end;
 * 2: its thread has another one. */
static void all_returns(void) {
    EXPLORE_ASSERT(owner->x_state != PS_HEAP_HELD && owner->x_state != PS_HEAP_IDLE);
    EXPLORE_ASSERT(!ps_thread_of[1].is_exiting || owner->x_thread != &ps_thread_of[1]);
    struct ps_heap *heap = ps_thread_of[1].own;
    explore_outcome(heap == owner || owner->is_asked ? 1 : heap == NULL ? 0 : 2);
    for (unsigned i = 1; i <= EXPLORE_THREADS; i++) {
        end_thread(i);
    }
    for (size_t i = 0; i < BLOCKS_MAX; i++) {
        if (live[i] != NULL) {
            end(i);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        if (live_medium[i] != NULL) {
            end_medium(i);
        }
    }
    for (size_t i = 0; i < MEDIUM_BLOCKS; i++) {
        EXPLORE_ASSERT(!is_medium_out[i]);
    }
    ps_thread_of[0] = FIRST_WORDS;
    struct ps_heap *adopter = ps_heap_acquire();
    for (struct ps_span *span;
         (span = ps_orphans_adopt(0, ps_heap_key_of(adopter, 0), true)) != NULL;) {
        adopter->x_spans[0]++;
        ps_heap_take_in(adopter, span);
    }
    ps_heap_give_up();
    EXPLORE_ASSERT(world_given() == WORLD_GRANULES && ps_orphans_count() == 0);
}

static void words_are_left(void) {
    EXPLORE_ASSERT(memcmp(&ps_thread_of[1], &reused, sizeof reused) == 0);
    EXPLORE_ASSERT(owner->x_thread == NULL && owner->x_state != PS_HEAP_LIVE);
    ps_thread_of[1] = (struct ps_thread_words){.key = ps_heap_key(NULL)};
    for (uint64_t ms = 2 * FIRST_LOOK_MS; owner->x_state == PS_HEAP_IDLE; ms += WAIT_MS) {
        look(ms); /* ends: each clears some of the heap */
    }
    all_returns();
}

const struct explore_scenario explore_scenarios[] = {
    {"frees", set_up, {frees, walks_twice}, all_returns, false},
    {"allocates", set_up, {allocates, walks_twice}, all_returns, false},
    {"both_allocate", set_up, {allocates, walks_and_allocates}, all_returns, false},
    {"continues_streak", set_up_streak, {frees, walks_twice}, all_returns, false},
    {"frees_medium", set_up_medium, {frees_medium, walks_twice}, all_returns, false},
    {"allocates_medium", set_up_medium, {allocates_medium, walks_twice}, all_returns, false},
    {"ends", set_up, {ends, walks_twice}, all_returns, false},
    {"streak_ends", set_up_streak, {frees_and_ends, walks_twice}, all_returns, true},
    {"lost", set_up_record, {frees_and_vanishes, walks_twice, joins}, words_are_left, false},
    {"other_frees", set_up_three, {allocates, walks_twice, other_frees}, all_returns, true},
    {"goes_on", set_up, {allocates_and_frees, walks_twice}, all_returns, true},
    {NULL, NULL, {NULL}, NULL, false},
};
