/* SPDX-License-Identifier: MIT */
/*
 * Writes through a pointer to a block that was freed: an address into the free block, in the hope
 * that malloc takes it for one of its own; anything into the block when the next owner has it.
 * Called by main.c; calls the stage; no locks.
 */
#include "attack.h"

#include <stdlib.h>

#define OTHERS 40

static char *others[OTHERS];

/* Takes as many blocks of the size again, and frees them. */
static void take_others(size_t size) {
    for (size_t i = 0; i < OTHERS; i++) {
        others[i] = stage_take(size);
    }
}

static void free_others(void) {
    for (size_t i = 0; i < OTHERS; i++) {
        stage_drop(others[i]);
    }
}

/* ---- an address into the free block: a says where, b when ---- */

/* The second word alone is no link anywhere, but may be the mark that tells a double free. */
enum where { FIRST_WORD, SECOND_WORD, ALL_WORDS, TO_VICTIM };
enum when { ALONE, AFTER_OTHERS, BEFORE_OTHERS, BY_OTHER_THREAD };

static char *free_in_time(const struct attack *attack) {
    if (attack->b != ALONE) {
        take_others(attack->size);
    }
    char *block = stage_take(attack->size);
    stage_take(attack->size);
    if (attack->b == AFTER_OTHERS) {
        free_others();
    }
    stage_forget(block);
    if (attack->b == BY_OTHER_THREAD) {
        for (size_t i = 0; i < OTHERS; i++) {
            stage_forget(others[i]);
            stage_free_on_thread(others[i]);
        }
        stage_free_on_thread(block);
        return block;
    }
    free(block);
    if (attack->b == BEFORE_OTHERS) {
        free_others();
    }
    return block;
}

static void write_links(char *block, char *target, const struct attack *attack) {
    size_t words = attack->size / 8;
    switch (attack->a) {
    case FIRST_WORD:
    case TO_VICTIM:
        stage_write_words(block, (uintptr_t)target, 1);
        break;
    case SECOND_WORD:
        stage_write_words(block + 8, (uintptr_t)target, 1);
        free(block);
        break;
    default:
        stage_write_words(block, (uintptr_t)target, words < 64 ? words : 64);
    }
}

static void write_link(const struct attack *attack) {
    char *target = attack->a == TO_VICTIM ? stage_take(attack->size) : stage_chosen();
    char *block = (char *)stage_hide(free_in_time(attack));
    stage_misuse();
    write_links(block, target, attack);
    stage_after();
    stage_hunt(attack->size);
    if (attack->b == BY_OTHER_THREAD) {
        stage_hunt_on_thread(attack->size);
    }
}

static const struct attack links[] = {
    {"first-word", GOAL_CHOSEN_ADDRESS, 8, write_link, FIRST_WORD, ALONE},
    {"first-word", GOAL_CHOSEN_ADDRESS, 64, write_link, FIRST_WORD, ALONE},
    {"first-word", GOAL_CHOSEN_ADDRESS, 1024, write_link, FIRST_WORD, AFTER_OTHERS},
    {"first-word", GOAL_CHOSEN_ADDRESS, 4096, write_link, FIRST_WORD, AFTER_OTHERS},
    {"first-word-others-later", GOAL_CHOSEN_ADDRESS, 16, write_link, FIRST_WORD, BEFORE_OTHERS},
    {"second-word-free-again", GOAL_TWO_OWNERS, 24, write_link, SECOND_WORD, ALONE},
    {"second-word-free-again", GOAL_TWO_OWNERS, 200, write_link, SECOND_WORD, AFTER_OTHERS},
    {"all-words", GOAL_CHOSEN_ADDRESS, 24, write_link, ALL_WORDS, AFTER_OTHERS},
    {"all-words", GOAL_CHOSEN_ADDRESS, 1024, write_link, ALL_WORDS, AFTER_OTHERS},
    {"all-words", GOAL_CHOSEN_ADDRESS, 16 * KIB, write_link, ALL_WORDS, AFTER_OTHERS},
    {"all-words", GOAL_CHOSEN_ADDRESS, MIB, write_link, ALL_WORDS, ALONE},
    {"to-victim", GOAL_TWO_OWNERS, 16, write_link, TO_VICTIM, AFTER_OTHERS},
    {"to-victim", GOAL_TWO_OWNERS, 64, write_link, TO_VICTIM, AFTER_OTHERS},
    {"freed-by-thread", GOAL_CHOSEN_ADDRESS, 16, write_link, FIRST_WORD, BY_OTHER_THREAD},
    {"freed-by-thread", GOAL_CHOSEN_ADDRESS, 200, write_link, FIRST_WORD, BY_OTHER_THREAD},
    {"freed-by-thread", GOAL_CHOSEN_ADDRESS, 1024, write_link, ALL_WORDS, BY_OTHER_THREAD},
};

/* ---- into the next owner's data: a says who that is, b is the offset ---- */

enum next { NEXT_TAKER, LATER_TAKER, TAKER_IN_THREAD, SMALLER_TAKER };

/* The function of a program that allocates for all owners. */
static __attribute__((noinline)) char *take_at_one_place(size_t size) { return stage_take(size); }

static void write_stale_at_one_place(const struct attack *attack) {
    char *block = take_at_one_place(attack->size);
    stage_free(block);
    stage_hunt_by(take_at_one_place, attack->size);
    stage_misuse();
    stage_write((char *)stage_hide(block) + attack->b, 'B', 4);
    stage_after();
    stage_check();
}

static void write_stale(const struct attack *attack) {
    if (attack->a == LATER_TAKER) {
        take_others(attack->size);
    }
    char *block = stage_take(attack->size);
    stage_take(attack->size);
    stage_free(block);
    if (attack->a == LATER_TAKER) {
        free_others();
    }
    if (attack->a == TAKER_IN_THREAD) {
        stage_hunt_on_thread(attack->size);
    }
    stage_hunt(attack->a == SMALLER_TAKER ? attack->size / 2 : attack->size);
    stage_misuse();
    stage_write((char *)stage_hide(block) + attack->b, 'B', 4);
    stage_after();
    stage_check();
    stage_hunt(attack->size);
}

static const struct attack writes[] = {
    {"next-owner", GOAL_VICTIM_CHANGED, 8, write_stale, NEXT_TAKER, 0},
    {"next-owner", GOAL_VICTIM_CHANGED, 16, write_stale, NEXT_TAKER, 8},
    {"next-owner", GOAL_VICTIM_CHANGED, 64, write_stale, NEXT_TAKER, 32},
    {"next-owner", GOAL_VICTIM_CHANGED, 200, write_stale, NEXT_TAKER, 0},
    {"next-owner", GOAL_VICTIM_CHANGED, 1024, write_stale, NEXT_TAKER, 512},
    {"next-owner", GOAL_VICTIM_CHANGED, 4096, write_stale, NEXT_TAKER, 0},
    {"next-owner", GOAL_VICTIM_CHANGED, 16 * KIB, write_stale, NEXT_TAKER, 1024},
    {"next-owner", GOAL_VICTIM_CHANGED, 100 * KIB, write_stale, NEXT_TAKER, 1024},
    {"next-owner", GOAL_VICTIM_CHANGED, MIB, write_stale, NEXT_TAKER, 1024},
    {"next-owner", GOAL_VICTIM_CHANGED, 64 * MIB, write_stale, NEXT_TAKER, 1024},
    {"later-owner", GOAL_VICTIM_CHANGED, 64, write_stale, LATER_TAKER, 16},
    {"thread-owner", GOAL_VICTIM_CHANGED, 200, write_stale, TAKER_IN_THREAD, 16},
    {"smaller-owner", GOAL_VICTIM_CHANGED, 100 * KIB, write_stale, SMALLER_TAKER, 1024},
    {"owner-at-one-place", GOAL_VICTIM_CHANGED, 64, write_stale_at_one_place, 0, 16},
    {"owner-at-one-place", GOAL_VICTIM_CHANGED, 1024, write_stale_at_one_place, 0, 512},
};

const struct family stale_families[] = {
    FAMILY("stale-link", "an address is written into a freed block, for malloc to follow", links),
    FAMILY("stale-write", "a write through a stale pointer hits the next owner", writes),
    {0},
};
