/* SPDX-License-Identifier: MIT */
/*
 * realloc of a pointer that is no live block: freed before, moved away, freed by realloc(p, 0), the
 * middle of a block, memory that is not the heap's. Called by main.c; calls the stage; no locks.
 */
#include "attack.h"

#include <stdlib.h>

/* What realloc gave belongs to somebody; the old size and the new one are asked for again. */
static void go_on(void *resized, size_t old_size, size_t new_size) {
    stage_after();
    if (resized != NULL) {
        stage_take_as(resized, new_size);
    }
    stage_hunt(old_size);
    stage_hunt(new_size);
}

/* a: the new size. b: how many others of the size are freed in between. */
static void resize_freed(const struct attack *attack) {
    char *others[16];
    for (size_t i = 0; i < attack->b; i++) {
        others[i] = stage_take(attack->size);
    }
    char *block = stage_take(attack->size);
    stage_take(attack->size);
    stage_free(block);
    for (size_t i = 0; i < attack->b; i++) {
        stage_drop(others[i]);
    }
    stage_misuse();
    go_on(realloc(stage_hide(block), attack->a), attack->size, attack->a);
}

/* The block grows and moves; the program grows its old address, too. */
static void resize_moved(const struct attack *attack) {
    char *block = stage_take(attack->size);
    stage_take(attack->size);
    stage_forget(block);
    char *stale = (char *)stage_hide(block);
    char *moved = stage_take_as(realloc(block, attack->a), attack->a);
    stage_misuse();
    if (moved == stale) {
        stage_end(attack->size, "realloc did not move the block");
    }
    go_on(realloc(stale, attack->a), attack->size, attack->a);
}

/* realloc(p, 0) frees, and the program frees (a == 0) or resizes p once more. */
static void resize_to_zero(const struct attack *attack) {
    char *block = stage_take(attack->size);
    stage_take(attack->size);
    stage_forget(block);
    char *rest = (char *)realloc(block, stage_hide(NULL) == NULL ? 0 : 1);
    if (rest != NULL) { /* some return a block of no size: its owner has that */
        stage_own(rest, 1, "the block of no size has a second owner");
    }
    stage_misuse();
    if (attack->a != 0) {
        go_on(realloc(stage_hide(block), attack->a), attack->size, attack->a);
    }
    free(stage_hide(block));
    go_on(NULL, attack->size, attack->size);
}

/* a: distance from the start; b: the new size. */
static void resize_interior(const struct attack *attack) {
    char *block = stage_take(attack->size);
    stage_take(attack->size);
    stage_forget(block);
    stage_write(block, 0, attack->size);
    stage_own(block, attack->size, "realloc returned the middle of a live block");
    uintptr_t tag = ((attack->size - attack->a + 8) & ~(uintptr_t)15) | 1;
    stage_write_words(block + attack->a - 8, tag, 1);
    stage_misuse();
    go_on(realloc(stage_hide(block + attack->a), attack->b), attack->size - attack->a, attack->b);
}

/* a: on the stack, or static; b: the new size. */
static void resize_foreign(const struct attack *attack) {
    static char static_room[64 * KIB] __attribute__((aligned(4096)));
    char stack_room[8 * KIB] __attribute__((aligned(64))) = {0};
    char *room = (char *)stage_hide(attack->a ? stack_room : static_room);
    size_t room_size = attack->a ? sizeof stack_room : sizeof static_room;
    stage_write(room, 0, room_size);
    stage_write_words(room + 64 - 8, ((attack->size + 8 + 15) & ~(uintptr_t)15) | 1, 1);
    stage_own(room, room_size, "malloc returned memory that is not the heap's");
    stage_take(attack->size);
    stage_misuse();
    go_on(realloc(stage_hide(room + 64), attack->b), attack->size, attack->b);
    stage_end(attack->size, "the goal was not reached"); /* the room is still there */
}

static const struct attack resizes[] = {
    {"freed-same", GOAL_TWO_OWNERS, 64, resize_freed, 64, 0},
    {"freed-same", GOAL_TWO_OWNERS, 16 * KIB, resize_freed, 16 * KIB, 0},
    {"freed-grow", GOAL_TWO_OWNERS, 16, resize_freed, 200, 0},
    {"freed-grow", GOAL_TWO_OWNERS, 1024, resize_freed, 4096, 8},
    {"freed-grow", GOAL_TWO_OWNERS, MIB, resize_freed, 2 * MIB, 0},
    {"freed-shrink", GOAL_TWO_OWNERS, 4096, resize_freed, 2000, 0},
    {"moved", GOAL_TWO_OWNERS, 24, resize_moved, 500, 0},
    {"moved", GOAL_TWO_OWNERS, 200, resize_moved, 4096, 0},
    {"to-zero-free", GOAL_TWO_OWNERS, 64, resize_to_zero, 0, 0},
    {"to-zero-grow", GOAL_TWO_OWNERS, 200, resize_to_zero, 600, 0},
    {"interior-grow", GOAL_TWO_OWNERS, 200, resize_interior, 64, 400},
    {"interior-shrink", GOAL_TWO_OWNERS, 4096, resize_interior, 1024, 500},
    {"foreign-stack", GOAL_CHOSEN_ADDRESS, 64, resize_foreign, 1, 300},
    {"foreign-static", GOAL_CHOSEN_ADDRESS, 1024, resize_foreign, 0, 2048},
};

/* ---- freed a while ago, by whom a says; b: the new size ---- */

static void resize_long_freed(const struct attack *attack) {
    char *others[20];
    for (size_t i = 0; i < 20; i++) {
        others[i] = stage_take(attack->size);
    }
    char *block = stage_take(attack->size);
    stage_take(attack->size);
    stage_forget(block);
    stage_free_by(attack->a, block);
    for (size_t i = 0; i < 20; i += 2) {
        stage_free(others[i]);
    }
    stage_misuse();
    go_on(realloc(stage_hide(block), attack->b), attack->size, attack->b);
    stage_unnoticed("realloc of a freed block");
}

/* a: distance from the start; b: the new size. */
static void resize_odd(const struct attack *attack) {
    char *block = stage_take(attack->size);
    stage_take(attack->size);
    stage_misuse();
    void *moved = realloc(stage_hide(block + attack->a), attack->b);
    stage_after();
    stage_hunt(attack->b);
    if (moved != NULL) {
        stage_unnoticed("realloc of no block");
    }
}

static const struct attack odd[] = {
    {"freed-same", GOAL_UNNOTICED, 24, resize_long_freed, SELF, 24},
    {"freed-grow", GOAL_UNNOTICED, 64, resize_long_freed, SELF, 300},
    {"freed-grow", GOAL_UNNOTICED, 1024, resize_long_freed, SELF, 5000},
    {"freed-grow", GOAL_UNNOTICED, 16 * KIB, resize_long_freed, SELF, 40 * KIB},
    {"freed-shrink", GOAL_UNNOTICED, 4096, resize_long_freed, SELF, 100},
    {"freed-shrink", GOAL_UNNOTICED, MIB, resize_long_freed, SELF, 100 * KIB},
    {"freed-by-other", GOAL_UNNOTICED, 64, resize_long_freed, OTHER, 200},
    {"freed-by-other", GOAL_UNNOTICED, 2000, resize_long_freed, OTHER, 9000},
    {"freed-by-ended", GOAL_UNNOTICED, 100, resize_long_freed, ENDED, 1000},
    {"plus-1", GOAL_UNNOTICED, 64, resize_odd, 1, 200},
    {"plus-8", GOAL_UNNOTICED, 100, resize_odd, 8, 100},
    {"plus-16", GOAL_UNNOTICED, 1024, resize_odd, 16, 64},
    {"plus-page", GOAL_UNNOTICED, 100 * KIB, resize_odd, 4096, 200 * KIB},
};

const struct family resize_families[] = {
    FAMILY("realloc", "realloc of a pointer that is no live block", resizes),
    FAMILY("realloc-odd", "realloc of a block freed a while ago, or of an odd place", odd),
    {0},
};
