/* SPDX-License-Identifier: MIT */
/*
 * The two tables of the trace: each allocation and each free is an event, once, in an order that
 * agrees with the program's; an event's stack is the one that was taken; a stack that was entered
 * is found by all later calls. This file has substitutes for recording and unwinding. Sources,
 * bounds and planted faults: trace.model.
 */
#include "pools/engine/record/trace.h"

#include "pools/engine/harden/guard.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/record/record.h"
#include "pools/engine/record/trace_peak.h"

#include <explore.h>

#define FILE_WORDS 8192 /* 64 KiB */
#define FRAMES 2
#define STACK 0x1000 /* the innermost call site */

PS_THREAD_LOCAL_LINE(struct ps_front_words, ps_front_thread);
size_t ps_size_class_max_bytes = PS_CLASS_BYTES_LIMIT;

static uint64_t file[FILE_WORDS];
static char blocks[EXPLORE_THREADS + 1][16];
static char *x_freed; /* the allocator's: a block that the next allocation may take */
static uintptr_t stacks[EXPLORE_THREADS + 1]; /* by thread: what it unwinds to */
static __thread char *next_block;

static struct ps_trace_header *header(void) { return (struct ps_trace_header *)file; }

/* ---- what the tracer calls ---- */

bool ps_record_start(const struct ps_config *config) { return config != NULL; }

void *ps_record_alloc(size_t bytes) {
    explore_use(next_block, bytes);
    return next_block;
}

void ps_record_free(void *block) {
    explore_use(block, sizeof blocks[0]);
    ps_store_release(&x_freed, (char *)block); /* pairs with make_freed */
}

uint64_t ps_trace_peak_read(void) { return 0; }

size_t ps_os_resident(void *base, size_t bytes) { return base != NULL ? bytes : 0; }

size_t ps_guard_trace(uintptr_t *sites, size_t limit, uintptr_t instruction) {
    (void)limit, (void)instruction;
    sites[0] = stacks[explore_thread()];
    sites[1] = ~sites[0];
    return FRAMES;
}

/* ---- threads ---- */

static void begin_thread(uintptr_t stack) {
    unsigned thread = explore_thread();
    ps_front_thread.armed_bytes = 1;
    stacks[thread] = stack;
}

static void make(char *block) {
    next_block = block;
    EXPLORE_ASSERT(ps_trace_alloc(sizeof blocks[0]) == block);
}

static void set_up(void) {
    struct ps_config config = {.trace_memory = file, .trace_bytes = sizeof file};
    EXPLORE_ASSERT(ps_trace_start(&config) && ps_trace_is_on());
    begin_thread(STACK);
}

static void make_alike(void) {
    begin_thread(STACK);
    make(blocks[explore_thread()]);
}

static void make_otherwise(void) {
    begin_thread(STACK * (1 + explore_thread()));
    make(blocks[explore_thread()]);
}

static void make_and_free(void) {
    make_alike();
    ps_trace_free(blocks[explore_thread()]);
}

/* An allocation that gets the other thread's block, if that is free already. */
static void make_freed(void) {
    begin_thread(STACK);
    char *block = ps_load_acquire(&x_freed); /* pairs with ps_record_free */
    make(block != NULL ? block : blocks[explore_thread()]);
    ps_trace_free(next_block);
}

/* ---- afterwards ---- */

static const struct ps_trace_event *event_at(uint64_t at) {
    return (const struct ps_trace_event *)((char *)file + header()->event_begin) + at;
}

static const uint64_t *stack_at(const struct ps_trace_event *event) {
    EXPLORE_ASSERT(event->stack != 0);
    return (const uint64_t *)((char *)file + header()->stack_begin) + event->stack;
}

/* It is the one that the block's thread has taken. */
static void check_stack(const struct ps_trace_event *event, uintptr_t stack) {
    const uint64_t *words = stack_at(event);
    EXPLORE_ASSERT(words[0] == FRAMES && words[1] == stack && words[2] == ~stack);
}

/* Each block is allocated and freed by turns. Returns the frees. */
static unsigned check_events(unsigned made) {
    unsigned freed = 0;
    uint64_t live[EXPLORE_THREADS + 1] = {0};
    EXPLORE_ASSERT(header()->x_made_count == made);
    for (uint64_t at = 0; at < header()->x_event_count; at++) {
        const struct ps_trace_event *event = event_at(at);
        size_t block = (event->address - (uintptr_t)blocks) / sizeof blocks[0];
        bool is_made = event->kind == PS_TRACE_MADE;
        EXPLORE_ASSERT(live[block] == !is_made);
        live[block] = is_made;
        freed += !is_made;
        check_stack(event, stacks[block]);
    }
    EXPLORE_ASSERT(header()->x_event_count == made + freed);
    return freed;
}

static void two_made(void) { EXPLORE_ASSERT(check_events(2) == 0); }

static void two_freed(void) { EXPLORE_ASSERT(check_events(2) == 2); }

static void three_freed(void) { EXPLORE_ASSERT(check_events(3) == 3); }

/* Every stack is found: no words are added for it. */
static void stacks_found(void) {
    two_made();
    uint64_t words = header()->x_stack_words;
    explore_outcome((unsigned)words);
    for (uint64_t at = 0; at < 2; at++) {
        stacks[0] = stack_at(event_at(at))[1];
        make(blocks[0]);
        ps_trace_free(blocks[0]);
    }
    EXPLORE_ASSERT(header()->x_stack_words == words);
}

const struct explore_scenario explore_scenarios[] = {
    {"one_stack", set_up, {make_alike, make_alike}, stacks_found, false},
    {"two_stacks", set_up, {make_otherwise, make_otherwise}, stacks_found, false},
    {"blocks", set_up, {make_and_free, make_and_free}, two_freed, false},
    {"handed_on", set_up, {make_and_free, make_freed}, two_freed, false},
    {"handed_on_beside", set_up, {make_and_free, make_freed, make_and_free}, three_freed, true},
    {NULL, NULL, {NULL}, NULL, false},
};
