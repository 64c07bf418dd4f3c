/* SPDX-License-Identifier: MIT */
/*
 * A cache of a processor (cpu_cache.h), without restartable sequences: threads put blocks into it
 * and take them, a third returns what it has. In every order each block belongs to one thread or to
 * the cache, its memory is written by one at a time, and none is lost. Sources and faults to find:
 * cpu_cache.model.
 */
#include "pools/engine/heap/cpu_cache.h"
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/cpu_return.h"
#include "pools/engine/heap/heap.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/registry.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/node.h"
#include "pools/engine/small/span_remote.h"

#include <string.h>
#include <world.h>

#define BLOCKS 3

static struct ps_heap heaps[EXPLORE_THREADS + 1];
static struct ps_heap owner;
static struct ps_cpu_cache memory;
static struct ps_span *span;
static void *held[EXPLORE_THREADS + 1]; /* by each thread; allocated */
static unsigned returned[EXPLORE_THREADS + 1];

/* ---- stubs of the rest ---- */

uint32_t ps_os_cpu(void) { return 0; }

uint64_t ps_os_now_us(void) { return 0; }

bool ps_background_is_crowded(void) { return true; }

struct ps_mode ps_mode;

struct ps_thread_words ps_thread_of[PS_MODEL_THREADS];

uint8_t ps_node_x_of_cpu[PS_NODE_CPUS];

void ps_registry_set_caches_first(bool is_first) { (void)is_first; }

PS_NORETURN void ps_misuse_free(const struct ps_span *of, const void *block) {
    (void)of, (void)block;
    explore_fail("wrong: a second free");
}

PS_NORETURN void ps_misuse_link(const void *block, size_t block_bytes) {
    (void)block, (void)block_bytes;
    explore_fail("wrong: a link that was overwritten");
}

static void give(void *block) {
    ps_span_check_waiting(span, block);
    explore_use(block, WORLD_BLOCK_BYTES); /* as a span that takes it */
    returned[explore_thread()]++;
}

/* ---- the threads ---- */

static void set_up(void) {
    memset(&memory, 0, sizeof memory);
    memory.changing = PS_CPU_NO_CLASS;
    memset(heaps, 0, sizeof heaps);
    memset(ps_thread_of, 0, sizeof ps_thread_of);
    memset(held, 0, sizeof held);
    memset(returned, 0, sizeof returned);
    ps_cpu_x_caches[0] = &memory;
    ps_cpu_x_end = 1;
    world_begin(BLOCKS, 2);
    span = world_full_span(ps_heap_key(&owner));
    ps_cpu_cache_ask(span->class_index); /* four blocks of the class */
}

static void put(void *block) {
    explore_use(block, WORLD_BLOCK_BYTES);
    *(uintptr_t *)block = UINTPTR_MAX / 3; /* of the program: no link */
    if (!ps_cpu_cache_put(&heaps[explore_thread()], span, block)) {
        held[explore_thread()] = block;
    }
}

static void put_0(void) { put(world_block(span, 0)); }
static void put_1(void) { put(world_block(span, 1)); }

static void take(void) {
    void *block = ps_cpu_cache_take(span->class_index);
    if (block != NULL) {
        explore_use(block, WORLD_BLOCK_BYTES);
        held[explore_thread()] = block;
    }
}

static void put_2_and_take(void) {
    put(world_block(span, 2));
    if (held[explore_thread()] == NULL) {
        take();
    }
}

static void drain(void) { ps_cpu_return_all(give); }

/* Each block is held, cached or returned: as many as there were, and none twice. */
static void check_blocks(unsigned blocks) {
    unsigned found = 0;
    for (unsigned i = 0; i <= EXPLORE_THREADS; i++) {
        for (unsigned k = 0; k < i; k++) {
            EXPLORE_ASSERT(held[i] == NULL || held[i] != held[k]);
        }
        found += (held[i] != NULL) + returned[i];
    }
    size_t cached = ps_cpu_cache_blocks(span->class_index);
    EXPLORE_ASSERT(found + cached == blocks);
    explore_outcome((unsigned)cached);
}

static void two_blocks(void) { check_blocks(2); }

static void one_block(void) { check_blocks(1); }

static void three_blocks(void) { check_blocks(3); }

const struct explore_scenario explore_scenarios[] = {
    {"put_take", set_up, {put_0, take}, one_block, false},
    {"two_put", set_up, {put_0, put_1}, two_blocks, false},
    {"two_take", set_up, {put_0, take, take}, one_block, false},
    {"drain", set_up, {put_0, put_1, drain}, two_blocks, false},
    {"all", set_up, {put_0, put_1, put_2_and_take, drain}, three_blocks, true},
    {NULL, NULL, {NULL}, NULL, false},
};
