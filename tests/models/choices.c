/* SPDX-License-Identifier: MIT */
/*
 * The list of choices that makes an execution, and the states that have been seen. Called by
 * explore.c and memory.c.
 */
#include "choices.h"

#include "checker.h"

#include <stdlib.h>
#include <string.h>

#define TRAIL_MAX 4096

struct choice {
    uint32_t taken, count;
};

static struct choice trail[TRAIL_MAX];
static uint32_t trail_count, depth;
static uint64_t dice;  /* not 0: choices are random */
static uint64_t *seen; /* states; 0: free place */
static size_t seen_size, seen_count;

void *checker_allocate(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (memory == NULL) {
        explore_fail("out of memory");
    }
    return memory;
}

static uint64_t mixed(uint64_t x) {
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t checker_event(uint64_t read, uint64_t previous) {
    uint64_t name = ((uint64_t)checker.thread << 32 | ++checker.events[checker.thread]) << 8;
    checker.state += mixed(mixed(mixed(name) + read) + previous);
    return name;
}

static void seen_grow(void) {
    uint64_t *old = seen;
    size_t old_size = seen_size;
    seen_size = old_size == 0 ? (size_t)1 << 16 : old_size * 2;
    seen = checker_allocate(seen_size * sizeof *seen);
    for (size_t i = 0; i < old_size; i++) {
        size_t slot = old[i] % seen_size;
        while (old[i] != 0 && seen[slot] != 0) {
            slot = (slot + 1) % seen_size;
        }
        if (old[i] != 0) {
            seen[slot] = old[i];
        }
    }
    free(old);
}

bool choices_is_new(void) {
    uint64_t state = checker.state;
    state += state == 0;
    if (seen_count * 2 >= seen_size) {
        seen_grow();
    }
    size_t slot = state % seen_size;
    while (seen[slot] != 0 && seen[slot] != state) {
        slot = (slot + 1) % seen_size;
    }
    if (seen[slot] == state) {
        return false;
    }
    seen[slot] = state;
    seen_count++;
    return true;
}

unsigned choices_choose(unsigned count) {
    if (depth == TRAIL_MAX) {
        explore_fail("does not end: too many steps");
    }
    if (dice != 0) {
        depth++;
        dice += UINT64_C(0x9e3779b97f4a7c15);
        return (unsigned)(mixed(dice) % count);
    }
    if (depth == trail_count) {
        trail[trail_count++] = (struct choice){0, count};
    }
    if (trail[depth].count != count) {
        explore_fail("the explorer cannot repeat an execution");
    }
    return trail[depth++].taken;
}

unsigned checker_choose(unsigned count) {
    if (count == 0) {
        explore_fail("the explorer has no choice");
    }
    return count == 1 || checker.thread == 0 ? 0 : choices_choose(count);
}

/* The next list of choices; false: there is none. */
bool choices_advance(void) {
    while (trail_count != 0 && trail[trail_count - 1].taken + 1 == trail[trail_count - 1].count) {
        trail_count--;
    }
    if (trail_count == 0) {
        return false;
    }
    trail[trail_count - 1].taken++;
    return true;
}

void choices_begin(uint64_t seed) {
    depth = 0;
    dice = seed;
}

bool choices_are_random(void) { return dice != 0; }

bool choices_are_repeated(void) { return depth < trail_count; }

void choices_forget(void) {
    trail_count = 0;
    if (seen != NULL) {
        memset(seen, 0, seen_size * sizeof *seen);
    }
    seen_count = 0;
}

size_t choices_states(void) { return seen_count; }
