/* SPDX-License-Identifier: MIT */
/*
 * Fronts (front/front.h): threads push and pop blocks of one class, another returns what is there
 * to the store. In every order each block has one holder: a thread, the front or the store; and its
 * memory is written by one at a time. The locked way loses none.
 *
 * The sequences are here as steps in C that the kernel never aborts: one may stand still between
 * any two of them. Only the stores of a push release, which is less than the order of any processor
 * (arch/aarch64/front.h). The threads of a front do not run at the same time, so one thread is all
 * of them. Sources and faults to find: front.model.
 */
#include "pools/engine/front/front.h"
#include "pools/engine/front/store.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/retention.h"

#include <explore.h>
#include <string.h>

#define BLOCKS 8
#define BLOCK_BYTES 16
#define LIMIT 5
#define CLASS 0

enum holder { NOBODY, PROGRAM, FRONT, STORE };

static char blocks[BLOCKS][BLOCK_BYTES];
static PS_ALIGNED(PS_CACHE_LINE) char memory[sizeof(struct ps_front) + LIMIT * sizeof(void *)];
static struct ps_front *const front = (struct ps_front *)memory;
static void *popped[EXPLORE_THREADS + 1][BLOCKS]; /* by thread: the newest last */
static size_t popped_count[EXPLORE_THREADS + 1];
static void *stored[BLOCKS];
static size_t stored_count;
static size_t filled_count;                    /* blocks that are in the front at first */
static size_t pushed_new[EXPLORE_THREADS + 1]; /* by thread: others */
static size_t moved[EXPLORE_THREADS + 1];      /* by thread: pushed or popped by sequences */
static __thread uint64_t now_us;

static size_t index_of(const void *block) {
    size_t index = (size_t)((const char *)block - blocks[0]) / BLOCK_BYTES;
    EXPLORE_ASSERT(index < BLOCKS);
    return index;
}

static void use(void *block) { explore_use(blocks[index_of(block)], BLOCK_BYTES); }

/* ---- stubs of the rest ---- */

struct ps_size_class ps_size_classes[PS_CLASS_LIMIT];
uint32_t ps_size_class_count = 1;
uint32_t ps_size_class_all_count = 1;
struct ps_store_counts ps_store_x_counts[PS_CLASS_LIMIT];
uint32_t ps_retention_x_pressure;
ptrdiff_t ps_rseq_offset;
__thread uint32_t ps_lock_thread_id;

/* The same front for all. */
uint32_t ps_lock_ask_thread_id(void) { return 1; }

/* All threads have one number, and so one front. */
__thread uint32_t ps_front_number_own;
size_t ps_front_number_take(void) { return 0; }
void ps_front_number_fork_child(void) {}

PS_NORETURN void ps_check_failed(const char *text) { explore_fail(text); }

uint64_t ps_os_now_us(void) { return now_us; }

void ps_os_wait_ms(uint32_t *word, uint32_t expected, uint64_t ms) {
    (void)word, (void)expected;
    now_us += ms * PS_FRONT_ANSWER_US;
    explore_time_passes();
}

void ps_store_give(uint32_t class_index, void **given, size_t count) {
    EXPLORE_ASSERT(class_index == CLASS && stored_count + count <= BLOCKS);
    for (size_t i = 0; i < count; i++) {
        use(given[i]);
        stored[stored_count++] = given[i];
    }
}

void ps_store_fork_add(uint32_t class_index, void *block) { ps_store_give(class_index, &block, 1); }

/* ---- sequences ---- */

static void **entry_of(uint64_t state) {
    return &front->x_entries[ps_front_table.places[CLASS].first + (state & PS_FRONT_COUNT)];
}

static bool push_here(void *block) {
    uint64_t state = ps_load_relaxed(&front->x_state[CLASS]);
    if (ps_load_relaxed(&front->x_limit[CLASS]) <= (uint16_t)state) { /* also if it is held */
        return false;
    }
    ps_store_release(entry_of(state), block);
    ps_store_release(&front->x_state[CLASS], state + 1);
    moved[explore_thread()]++;
    return true;
}

static void *pop_here(void) {
    uint64_t state = ps_load_relaxed(&front->x_state[CLASS]);
    if ((int16_t)state <= 0) { /* also if it is held */
        return NULL;
    }
    void *block = ps_load_relaxed(entry_of(state) - 1);
    if ((intptr_t)block <= 0) { /* also if it is reserved */
        return NULL;
    }
    ps_store_relaxed(&front->x_state[CLASS], state + PS_FRONT_POPPED);
    moved[explore_thread()]++;
    return block;
}

static void reset_here(void) {
    uint64_t state = ps_load_relaxed(&front->x_state[CLASS]);
    if ((int16_t)state > 0 && (intptr_t)ps_load_relaxed(entry_of(state) - 1) <= 0) {
        ps_store_relaxed(&front->x_state[CLASS], state & ~(uint64_t)UINT16_MAX);
    }
}

/* ---- threads ---- */

static void add_popped(void *block) {
    unsigned thread = explore_thread();
    use(block);
    popped[thread][popped_count[thread]++] = block;
}

static void pop(void) {
    bool is_here = ps_front_uses_sequences();
    void *block = is_here ? pop_here() : ps_front_pop_locked(CLASS);
    if (block != NULL) {
        add_popped(block);
    } else if (is_here) {
        reset_here();
    }
}

static void push(void *block) {
    use(block);
    bool is_here = ps_front_uses_sequences();
    if (!(is_here ? push_here(block) : ps_front_push_locked(CLASS, block))) {
        add_popped(block);
    }
}

/* A block that is not in the front at first. */
static void push_new(size_t index) {
    pushed_new[explore_thread()]++;
    push(blocks[BLOCKS - 1 - index]);
}

static void push_popped(void) {
    unsigned thread = explore_thread();
    if (popped_count[thread] != 0) {
        push(popped[thread][--popped_count[thread]]);
    }
}

static void push_1(void) { push_new(0); }

static void pop_push(void) {
    pop();
    push_popped();
}

static void push_pop(void) {
    push_new(0);
    pop();
}

static void pop_pop(void) {
    pop();
    pop();
}

static void pop_pop_push(void) {
    pop();
    pop();
    push_popped();
}

static void pop_push_push_pop(void) {
    pop();
    push_new(0);
    push_new(1);
    pop();
}

static void pop_twice_push_thrice(void) {
    pop();
    pop_push_push_pop();
    push_new(2);
    pop();
}

static void pop_pop_push_pop(void) {
    pop();
    pop();
    push_new(0);
    pop();
}

static void pop_thrice_push_pop(void) {
    pop();
    pop_pop_push_pop();
}

static void pop_thrice_push_thrice(void) {
    pop();
    pop_twice_push_thrice();
}

/* Begins when the class is held, or not at all. */
static void late(void) {
    if ((ps_load_acquire(&front->x_state[CLASS]) & PS_FRONT_HELD) != 0) {
        pop_pop_push();
        push_pop();
    }
}

static void return_all(void) { ps_front_return_idle(true, false); }

static void return_twice(void) {
    return_all();
    now_us = 0;
    return_all();
}

static void return_unused(void) { ps_front_return_idle(false, false); }

/* ---- scenarios ---- */

/* `lowest` entries that are NULL, and blocks above. */
static void fill(size_t lowest, size_t above) {
    for (size_t i = 0; i < above; i++) {
        explore_use(blocks[i], BLOCK_BYTES);
        front->x_entries[lowest + i] = blocks[i];
    }
    filled_count = above;
    front->x_state[CLASS] = lowest + above;
    front->x_limit[CLASS] = LIMIT;
}

static void set_up(bool has_sequences) {
    memset(memory, 0, sizeof memory);
    memset(popped, 0, sizeof popped);
    memset(popped_count, 0, sizeof popped_count);
    memset(pushed_new, 0, sizeof pushed_new);
    memset(moved, 0, sizeof moved);
    stored_count = 0;
    ps_front_table.has_sequences = has_sequences;
    ps_front_table.places[CLASS] = (struct ps_front_place){0, LIMIT};
    ps_front_table.x_fronts[0] = front;
    ps_front_table.x_end = 1;
}

static void locked_0(void) {
    set_up(false);
    fill(0, 0);
}

static void locked_2(void) {
    set_up(false);
    fill(0, 2);
}

/* One of two is unused: the other moves. */
static void locked_unused(void) {
    locked_2();
    front->x_seen[CLASS] = 1;
}

static void here_3(void) {
    set_up(true);
    fill(0, 3);
}

static void here_4(void) {
    set_up(true);
    fill(0, 4);
}

/* Of four blocks one was popped since the last return: three are there, all unused. */
static void here_unused(void) {
    here_3();
    front->x_seen[CLASS] = 4;
    front->x_state[CLASS] += (uint64_t)1 << PS_FRONT_TAKES_SHIFT;
}

static void here_2_null(void) {
    set_up(true);
    fill(2, 0);
}

static void here_3_null_2(void) {
    set_up(true);
    fill(3, 2);
}

/* ---- what must hold afterwards ---- */

static void find(enum holder *holders, const void *block, enum holder by) {
    EXPLORE_ASSERT(holders[index_of(block)] == NOBODY);
    holders[index_of(block)] = by;
}

static size_t find_in_front(enum holder *holders) {
    size_t found = 0;
    size_t count = front->x_state[CLASS] & PS_FRONT_COUNT;
    EXPLORE_ASSERT(count <= LIMIT && (front->x_state[CLASS] & PS_FRONT_HELD) == 0);
    for (size_t i = 0; i < count; i++) {
        if (front->x_entries[i] != NULL) {
            find(holders, front->x_entries[i], FRONT);
            found++;
        }
    }
    return found;
}

/* No block has two holders. Returns how many have none. */
static size_t lost_blocks(void) {
    enum holder holders[BLOCKS] = {NOBODY};
    size_t found = stored_count + find_in_front(holders);
    size_t all = filled_count;
    for (size_t i = 0; i < stored_count; i++) {
        find(holders, stored[i], STORE);
    }
    for (unsigned thread = 1; thread <= EXPLORE_THREADS; thread++) {
        for (size_t i = 0; i < popped_count[thread]; i++) {
            find(holders, popped[thread][i], PROGRAM);
        }
        found += popped_count[thread];
        all += pushed_new[thread];
    }
    explore_outcome((unsigned)(all - found));
    return all - found;
}

static void none_is_lost(void) { EXPLORE_ASSERT(lost_blocks() == 0); }

/* Those that sequences have reached, or pushed, over HELD. */
static void few_are_lost(void) { EXPLORE_ASSERT(lost_blocks() <= moved[1]); }

const struct explore_scenario explore_scenarios[] = {
    {"locked_push_pop", locked_0, {push_1, pop}, none_is_lost, false},
    {"locked_pop", locked_2, {pop, pop}, none_is_lost, false},
    {"locked_return", locked_2, {push_1, pop_push, return_all}, none_is_lost, false},
    {"locked_unused", locked_unused, {push_1, pop_push, return_unused}, none_is_lost, false},
    {"pop", here_3, {pop_pop, return_all}, few_are_lost, false},
    {"push", here_3, {push_pop, return_all}, few_are_lost, false},
    {"pop_push", here_4, {pop_pop_push, return_all}, few_are_lost, false},
    {"pop_more", here_3, {pop_pop_push_pop, return_all}, few_are_lost, false},
    {"late", here_3, {late, return_all}, none_is_lost, false},
    {"unused", here_unused, {pop_pop_push, return_unused}, few_are_lost, false},
    {"reset", here_2_null, {push_pop, return_all}, none_is_lost, false},
    {"reset_push", here_2_null, {pop_push_push_pop, return_all}, few_are_lost, false},
    {"reset_above", here_3_null_2, {pop_thrice_push_pop, return_all}, few_are_lost, false},
    {"reset_reached", here_3_null_2, {pop_thrice_push_thrice, return_all}, few_are_lost, false},
    {"return_twice", here_3, {pop_pop_push, return_twice}, few_are_lost, false},
    {"two_return", here_3, {pop_pop, return_all, return_all}, few_are_lost, false},
    {"locked_twice", locked_2, {push_pop, pop_push, return_twice}, none_is_lost, false},
    {"more_twice", here_4, {pop_twice_push_thrice, return_twice}, few_are_lost, true},
    {NULL, NULL, {NULL}, NULL, false},
};
