/* SPDX-License-Identifier: MIT */
/*
 * Writes beyond a block: past its end into a live neighbour, past its end into a freed one, in
 * front of it. The attacker looks for neighbours among blocks of one size; where there is none
 * within reach the write happens all the same, and the heap must survive it. Called by main.c;
 * calls the stage; no locks.
 */
#include "attack.h"

#include <stdlib.h>

#define BLOCKS 512
#define FILLER 'B' /* even: never a byte of a pattern */

static char *blocks[BLOCKS];

static size_t take_blocks(size_t size) {
    size_t count = size <= 4 * KIB ? BLOCKS : size <= 64 * KIB ? 64 : 8;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = stage_take(size);
    }
    return count;
}

/* The blocks whose ends are nearest to the start of another one: index of the lower and of the
 * upper one. */
struct pair {
    size_t low;
    size_t high;
};

static struct pair nearest(size_t count, size_t size) {
    struct pair found = {0, 0};
    uintptr_t gap = UINTPTR_MAX;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            uintptr_t distance = stage_address(blocks[j]) - (stage_address(blocks[i]) + size);
            if (i != j && distance < gap) {
                gap = distance;
                found = (struct pair){i, j};
            }
        }
    }
    return found;
}

/* b: the buffer that overflowed is freed before anybody looks at the neighbour, as the buffer of a
 * function that returns is. */
static void overflow_live(const struct attack *attack) {
    size_t count = take_blocks(attack->size);
    char *buffer = blocks[nearest(count, attack->size).low];
    stage_misuse();
    stage_write(buffer + attack->size, FILLER, attack->a);
    stage_after();
    if (attack->b) {
        stage_free(buffer);
    }
    stage_check();
    stage_hunt(attack->size);
}

static const struct attack live[] = {
    {"1-kept", GOAL_VICTIM_CHANGED, 16, overflow_live, 1, 0},
    {"1-kept", GOAL_VICTIM_CHANGED, 1024, overflow_live, 1, 0},
    {"1-freed", GOAL_VICTIM_CHANGED, 24, overflow_live, 1, 1},
    {"1-freed", GOAL_VICTIM_CHANGED, 64, overflow_live, 1, 1},
    {"1-freed", GOAL_VICTIM_CHANGED, 4096, overflow_live, 1, 1},
    {"8-kept", GOAL_VICTIM_CHANGED, 64, overflow_live, 8, 0},
    {"8-freed", GOAL_VICTIM_CHANGED, 16, overflow_live, 8, 1},
    {"8-freed", GOAL_VICTIM_CHANGED, 256, overflow_live, 8, 1},
    {"8-freed", GOAL_VICTIM_CHANGED, 1024, overflow_live, 8, 1},
    {"16-freed", GOAL_VICTIM_CHANGED, 64, overflow_live, 16, 1},
    {"64-kept", GOAL_VICTIM_CHANGED, 24, overflow_live, 64, 0},
    {"64-freed", GOAL_VICTIM_CHANGED, 64, overflow_live, 64, 1},
    {"64-freed", GOAL_VICTIM_CHANGED, 4096, overflow_live, 64, 1},
    {"page-freed", GOAL_VICTIM_CHANGED, 16 * KIB, overflow_live, 4096, 1},
    {"page-freed", GOAL_VICTIM_CHANGED, MIB, overflow_live, 4096, 1},
};

/* ---- into a freed neighbour, words that are an address: a bytes; b: of a live block ---- */

static void overflow_freed(const struct attack *attack) {
    size_t count = take_blocks(attack->size);
    char *target = attack->b ? stage_take(attack->size) : stage_chosen();
    struct pair pair = nearest(count, attack->size);
    char *buffer = blocks[pair.low];
    for (size_t i = 0; i < count; i++) { /* the neighbour and others, so that lists are long */
        if (i == pair.high || (i % 4 == 1 && i != pair.low)) {
            stage_free(blocks[i]);
        }
    }
    stage_misuse();
    stage_write_words(buffer + attack->size, (uintptr_t)target, attack->a / 8);
    stage_after();
    stage_hunt(attack->size);
    stage_drop(buffer);
}

static const struct attack freed[] = {
    {"8", GOAL_CHOSEN_ADDRESS, 16, overflow_freed, 8, 0},
    {"8", GOAL_CHOSEN_ADDRESS, 64, overflow_freed, 8, 0},
    {"16", GOAL_CHOSEN_ADDRESS, 24, overflow_freed, 16, 0},
    {"16", GOAL_CHOSEN_ADDRESS, 1024, overflow_freed, 16, 0},
    {"32", GOAL_CHOSEN_ADDRESS, 16, overflow_freed, 32, 0},
    {"32", GOAL_CHOSEN_ADDRESS, 64, overflow_freed, 32, 0},
    {"32", GOAL_CHOSEN_ADDRESS, 200, overflow_freed, 32, 0},
    {"32", GOAL_CHOSEN_ADDRESS, 4096, overflow_freed, 32, 0},
    {"32", GOAL_CHOSEN_ADDRESS, 16 * KIB, overflow_freed, 32, 0},
    {"to-victim-32", GOAL_TWO_OWNERS, 16, overflow_freed, 32, 1},
    {"to-victim-32", GOAL_TWO_OWNERS, 64, overflow_freed, 32, 1},
    {"to-victim-32", GOAL_TWO_OWNERS, 1024, overflow_freed, 32, 1},
    {"to-victim-64", GOAL_TWO_OWNERS, 200, overflow_freed, 64, 1},
};

/* ---- in front: a bytes; b: the block is freed before anybody looks ---- */

static void underflow(const struct attack *attack) {
    size_t count = take_blocks(attack->size);
    char *buffer = blocks[nearest(count, attack->size).high];
    stage_misuse();
    stage_write(buffer - attack->a, FILLER, attack->a);
    stage_after();
    if (attack->b) {
        stage_free(buffer);
    }
    stage_check();
    stage_hunt(attack->size);
}

static const struct attack front[] = {
    {"1-kept", GOAL_VICTIM_CHANGED, 64, underflow, 1, 0},
    {"1-freed", GOAL_VICTIM_CHANGED, 16, underflow, 1, 1},
    {"1-freed", GOAL_VICTIM_CHANGED, 1024, underflow, 1, 1},
    {"8-kept", GOAL_VICTIM_CHANGED, 256, underflow, 8, 0},
    {"8-kept", GOAL_VICTIM_CHANGED, 4096, underflow, 8, 0},
    {"8-freed", GOAL_VICTIM_CHANGED, 16, underflow, 8, 1},
    {"8-freed", GOAL_VICTIM_CHANGED, 64, underflow, 8, 1},
    {"8-freed", GOAL_VICTIM_CHANGED, 1024, underflow, 8, 1},
    {"16-freed", GOAL_VICTIM_CHANGED, 64, underflow, 16, 1},
    {"64-kept", GOAL_VICTIM_CHANGED, 16 * KIB, underflow, 64, 0},
    {"64-freed", GOAL_VICTIM_CHANGED, 200, underflow, 64, 1},
    {"64-freed", GOAL_VICTIM_CHANGED, MIB, underflow, 64, 1},
};

const struct family overflow_families[] = {
    FAMILY("overflow", "a write runs over the end of a block towards a live one", live),
    FAMILY("overflow-freed", "an address is written over the end, into a freed block", freed),
    FAMILY("underflow", "a write in front of a block", front),
    {0},
};
