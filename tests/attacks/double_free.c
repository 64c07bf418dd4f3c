/* SPDX-License-Identifier: MIT */
/*
 * A block freed twice: at once, after other frees, after somebody else got the block, from two
 * threads. The goal is always that two owners get the same memory. Called by main.c; calls the
 * stage; no locks.
 */
#include "attack.h"

#include <malloc.h>
#include <stdlib.h>

#define OTHERS_MAX 256

static char *others[OTHERS_MAX];

static void take_others(size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) {
        others[i] = stage_take(size);
    }
}

static void free_others(size_t count) {
    for (size_t i = 0; i < count; i++) {
        stage_drop(others[i]);
    }
}

/* ---- at once ---- */

enum maker { BY_MALLOC, BY_CALLOC, BY_ALIGNED, BY_PAGE_ALIGNED, BY_REALLOC };

static char *make(size_t maker, size_t size) {
    void *block = NULL;
    switch (maker) {
    case BY_CALLOC:
        return stage_take_as(calloc(1, size), size);
    case BY_ALIGNED:
        return stage_take_as(aligned_alloc(64, size), size);
    case BY_PAGE_ALIGNED:
        return posix_memalign(&block, 4096, size) == 0 ? stage_take_as(block, size) : NULL;
    case BY_REALLOC:
        return stage_take_as(realloc(malloc(size / 4), size), size);
    default:
        return stage_take(size);
    }
}

static void free_twice(const struct attack *attack) {
    char *block = make(attack->a, attack->size);
    stage_take(attack->size); /* or it would merge with the free memory after it */
    stage_free(block);
    stage_misuse();
    free(stage_hide(block));
    stage_after();
    stage_hunt(attack->size);
}

static const struct attack at_once[] = {
    {"malloc", GOAL_TWO_OWNERS, 8, free_twice, BY_MALLOC, 0},
    {"malloc", GOAL_TWO_OWNERS, 16, free_twice, BY_MALLOC, 0},
    {"malloc", GOAL_TWO_OWNERS, 64, free_twice, BY_MALLOC, 0},
    {"malloc", GOAL_TWO_OWNERS, 200, free_twice, BY_MALLOC, 0},
    {"malloc", GOAL_TWO_OWNERS, 1024, free_twice, BY_MALLOC, 0},
    {"malloc", GOAL_TWO_OWNERS, 4096, free_twice, BY_MALLOC, 0},
    {"malloc", GOAL_TWO_OWNERS, 16 * KIB, free_twice, BY_MALLOC, 0},
    {"malloc", GOAL_TWO_OWNERS, 100 * KIB, free_twice, BY_MALLOC, 0},
    {"malloc", GOAL_TWO_OWNERS, MIB, free_twice, BY_MALLOC, 0},
    {"malloc", GOAL_TWO_OWNERS, 64 * MIB, free_twice, BY_MALLOC, 0},
    {"calloc", GOAL_TWO_OWNERS, 24, free_twice, BY_CALLOC, 0},
    {"aligned", GOAL_TWO_OWNERS, 128, free_twice, BY_ALIGNED, 0},
    {"page-aligned", GOAL_TWO_OWNERS, 4096, free_twice, BY_PAGE_ALIGNED, 0},
    {"realloc", GOAL_TWO_OWNERS, 1024, free_twice, BY_REALLOC, 0},
};

/* ---- after other frees: a of them ---- */

static void free_between(const struct attack *attack) {
    take_others(attack->a, attack->size);
    char *block = stage_take(attack->size);
    stage_take(attack->size);
    stage_free(block);
    free_others(attack->a);
    stage_misuse();
    free(stage_hide(block));
    stage_after();
    stage_hunt(attack->size);
}

/* Everything around the block is freed too, and idle memory goes back. */
static void free_when_drained(const struct attack *attack) {
    size_t count = attack->size <= 4 * KIB ? OTHERS_MAX : 48;
    take_others(count, attack->size);
    char *block = stage_take(attack->size);
    stage_free(block);
    free_others(count);
    malloc_trim(0);
    stage_misuse();
    free(stage_hide(block));
    stage_after();
    stage_hunt(attack->size);
}

static const struct attack delayed[] = {
    {"one-between", GOAL_TWO_OWNERS, 16, free_between, 1, 0},
    {"one-between", GOAL_TWO_OWNERS, 64, free_between, 1, 0},
    {"one-between", GOAL_TWO_OWNERS, 1024, free_between, 1, 0},
    {"one-between", GOAL_TWO_OWNERS, 16 * KIB, free_between, 1, 0},
    {"one-between", GOAL_TWO_OWNERS, MIB, free_between, 1, 0},
    {"nine-between", GOAL_TWO_OWNERS, 24, free_between, 9, 0},
    {"nine-between", GOAL_TWO_OWNERS, 200, free_between, 9, 0},
    {"nine-between", GOAL_TWO_OWNERS, 4096, free_between, 9, 0},
    {"many-between", GOAL_TWO_OWNERS, 16, free_between, 200, 0},
    {"many-between", GOAL_TWO_OWNERS, 1024, free_between, 200, 0},
    {"drained", GOAL_TWO_OWNERS, 64, free_when_drained, 0, 0},
    {"drained", GOAL_TWO_OWNERS, 1024, free_when_drained, 0, 0},
    {"drained", GOAL_TWO_OWNERS, 16 * KIB, free_when_drained, 0, 0},
};

/* ---- after the block got another owner; a blocks are freed after it first ---- */

static void free_of_new_owner(const struct attack *attack) {
    take_others(attack->a, attack->size);
    char *block = stage_take(attack->size);
    stage_take(attack->size);
    stage_free(block);
    free_others(attack->a);
    for (size_t i = 0; i < stage_hunt_count(attack->size) && !stage_block_at(block); i++) {
        stage_take(attack->size);
    }
    stage_misuse();
    free(stage_hide(block));
    stage_after();
    stage_hunt(attack->size);
}

static const struct attack reused[] = {
    {"next-owner", GOAL_TWO_OWNERS, 8, free_of_new_owner, 0, 0},
    {"next-owner", GOAL_TWO_OWNERS, 16, free_of_new_owner, 0, 0},
    {"next-owner", GOAL_TWO_OWNERS, 64, free_of_new_owner, 0, 0},
    {"next-owner", GOAL_TWO_OWNERS, 200, free_of_new_owner, 0, 0},
    {"next-owner", GOAL_TWO_OWNERS, 1024, free_of_new_owner, 0, 0},
    {"next-owner", GOAL_TWO_OWNERS, 4096, free_of_new_owner, 0, 0},
    {"next-owner", GOAL_TWO_OWNERS, 16 * KIB, free_of_new_owner, 0, 0},
    {"next-owner", GOAL_TWO_OWNERS, 100 * KIB, free_of_new_owner, 0, 0},
    {"next-owner", GOAL_TWO_OWNERS, MIB, free_of_new_owner, 0, 0},
    {"next-owner", GOAL_TWO_OWNERS, 64 * MIB, free_of_new_owner, 0, 0},
    {"later-owner", GOAL_TWO_OWNERS, 64, free_of_new_owner, 50, 0},
    {"later-owner", GOAL_TWO_OWNERS, 1024, free_of_new_owner, 50, 0},
};

/* ---- two threads; a says who frees ---- */

enum who { MAIN_THEN_OTHER, OTHER_TWICE, OTHER_THEN_MAIN, OTHER_MANY_THEN_MAIN };

static void free_here_or_there(void *block, int is_there) {
    if (is_there) {
        stage_free_on_thread(block);
    } else {
        free(block);
    }
}

static void free_in_two_threads(const struct attack *attack) {
    size_t who = attack->a;
    size_t between = who >= OTHER_MANY_THEN_MAIN ? 40 : 0;
    take_others(between, attack->size);
    char *block = stage_take(attack->size);
    stage_take(attack->size);
    stage_hunt_on_thread(attack->size);
    stage_forget(block);
    free_here_or_there(block, who != MAIN_THEN_OTHER);
    for (size_t i = 0; i < between; i++) {
        stage_forget(others[i]);
        free_here_or_there(others[i], 1);
    }
    stage_misuse();
    free_here_or_there(stage_hide(block), who == MAIN_THEN_OTHER || who == OTHER_TWICE);
    stage_after();
    stage_hunt(attack->size);
    stage_hunt_on_thread(attack->size);
    stage_hunt(attack->size);
}

static const struct attack threads[] = {
    {"owner-then-other", GOAL_TWO_OWNERS, 16, free_in_two_threads, MAIN_THEN_OTHER, 0},
    {"owner-then-other", GOAL_TWO_OWNERS, 200, free_in_two_threads, MAIN_THEN_OTHER, 0},
    {"owner-then-other", GOAL_TWO_OWNERS, 1024, free_in_two_threads, MAIN_THEN_OTHER, 0},
    {"owner-then-other", GOAL_TWO_OWNERS, 16 * KIB, free_in_two_threads, MAIN_THEN_OTHER, 0},
    {"other-twice", GOAL_TWO_OWNERS, 16, free_in_two_threads, OTHER_TWICE, 0},
    {"other-twice", GOAL_TWO_OWNERS, 64, free_in_two_threads, OTHER_TWICE, 0},
    {"other-twice", GOAL_TWO_OWNERS, 4096, free_in_two_threads, OTHER_TWICE, 0},
    {"other-twice", GOAL_TWO_OWNERS, MIB, free_in_two_threads, OTHER_TWICE, 0},
    {"other-then-owner", GOAL_TWO_OWNERS, 64, free_in_two_threads, OTHER_THEN_MAIN, 0},
    {"other-then-owner", GOAL_TWO_OWNERS, 200, free_in_two_threads, OTHER_THEN_MAIN, 0},
    {"other-then-owner", GOAL_TWO_OWNERS, 100 * KIB, free_in_two_threads, OTHER_THEN_MAIN, 0},
    {"after-many-remote", GOAL_TWO_OWNERS, 64, free_in_two_threads, OTHER_MANY_THEN_MAIN, 0},
    {"after-many-remote", GOAL_TWO_OWNERS, 1024, free_in_two_threads, OTHER_MANY_THEN_MAIN, 0},
};

/* ---- with blocks of other sizes in between; a says who frees first, b: how many others ---- */

/* Sizes around the block's, none of them its own, half of them live on. */
static void stir(size_t size, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char *one = stage_take(size / 2 + 1 + i % 5);
        char *two = stage_take(size * 2 + i % 7);
        stage_drop(i % 2 != 0 ? one : two);
    }
}

static void free_among_others(const struct attack *attack) {
    size_t size = attack->size;
    size_t same = attack->b < OTHERS_MAX ? attack->b : OTHERS_MAX;
    take_others(same, size);
    char *block = stage_take(size);
    stage_take(size);
    stage_forget(block);
    stage_free_by(attack->a, block);
    stir(size, attack->b);
    free_others(same);
    stir(size, attack->b);
    stage_misuse();
    free(stage_hide(block));
    stage_after();
    stage_hunt(size);
    stage_hunt_on_thread(size);
    stage_hunt(size);
}

static const struct attack mixed[] = {
    {"three", GOAL_TWO_OWNERS, 8, free_among_others, SELF, 3},
    {"three", GOAL_TWO_OWNERS, 40, free_among_others, SELF, 3},
    {"three", GOAL_TWO_OWNERS, 2000, free_among_others, SELF, 3},
    {"thirty", GOAL_TWO_OWNERS, 16, free_among_others, SELF, 30},
    {"thirty", GOAL_TWO_OWNERS, 100, free_among_others, SELF, 30},
    {"thirty", GOAL_TWO_OWNERS, 8000, free_among_others, SELF, 30},
    {"thirty", GOAL_TWO_OWNERS, 60 * KIB, free_among_others, SELF, 30},
    {"two-hundred", GOAL_TWO_OWNERS, 64, free_among_others, SELF, 200},
    {"two-hundred", GOAL_TWO_OWNERS, 500, free_among_others, SELF, 200},
    {"other-first", GOAL_TWO_OWNERS, 24, free_among_others, OTHER, 3},
    {"other-first", GOAL_TWO_OWNERS, 300, free_among_others, OTHER, 30},
    {"other-first", GOAL_TWO_OWNERS, 16 * KIB, free_among_others, OTHER, 3},
    {"ended-first", GOAL_TWO_OWNERS, 64, free_among_others, ENDED, 3},
    {"ended-first", GOAL_TWO_OWNERS, 3000, free_among_others, ENDED, 30},
};

const struct family double_free_families[] = {
    FAMILY("double-free", "a block is freed twice in a row", at_once),
    FAMILY("double-free-later", "other frees come between the two frees of a block", delayed),
    FAMILY("double-free-reused", "the stale free hits the next owner of the block", reused),
    FAMILY("double-free-threads", "two threads free the same block", threads),
    FAMILY("double-free-mixed", "blocks of many sizes come and go between the two frees", mixed),
    {0},
};
