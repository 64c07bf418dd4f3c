/* SPDX-License-Identifier: MIT */
/*
 * Data in freed blocks: writes that no call meets before the program ends, and addresses that tell
 * where other blocks are. Called by main.c; calls the stage; no locks.
 */
#include "attack.h"

#include <stdlib.h>
#include <string.h>

#define ROW 64

static char *row[ROW];

static char *take_row(size_t size) {
    for (size_t i = 0; i < ROW; i++) {
        row[i] = stage_take(size);
    }
    return row[ROW / 2];
}

/* ---- a write after free, and the program ends: a: offset; b: who frees ---- */

static void write_and_end(const struct attack *attack) {
    char *block = take_row(attack->size);
    stage_forget(block);
    stage_free_by(attack->b, block);
    for (size_t i = 0; i < 6; i++) { /* the program goes on for a little while */
        stage_free(row[i]);
    }
    stage_misuse();
    stage_write((char *)stage_hide(block) + attack->a, 'W', 8);
    stage_after();
    stage_unnoticed("the program ended");
}

static const struct attack ends[] = {
    {"first-word", GOAL_UNNOTICED, 16, write_and_end, 0, SELF},
    {"first-word", GOAL_UNNOTICED, 64, write_and_end, 0, SELF},
    {"first-word", GOAL_UNNOTICED, 1024, write_and_end, 0, SELF},
    {"second-word", GOAL_UNNOTICED, 24, write_and_end, 8, SELF},
    {"second-word", GOAL_UNNOTICED, 200, write_and_end, 8, SELF},
    {"middle", GOAL_UNNOTICED, 1024, write_and_end, 512, SELF},
    {"middle", GOAL_UNNOTICED, 16 * KIB, write_and_end, 8 * KIB, SELF},
    {"middle", GOAL_UNNOTICED, 100 * KIB, write_and_end, 50 * KIB, SELF},
    {"last-word", GOAL_UNNOTICED, 64, write_and_end, 56, SELF},
    {"last-word", GOAL_UNNOTICED, 4096, write_and_end, 4088, SELF},
    {"freed-by-other", GOAL_UNNOTICED, 64, write_and_end, 16, OTHER},
    {"freed-by-ended", GOAL_UNNOTICED, 200, write_and_end, 16, ENDED},
};

/* ---- an address in a freed block: a others were freed before; b: so many after ---- */

static void read_links(const struct attack *attack) {
    uintptr_t word;
    char *block = take_row(attack->size);
    for (size_t i = 0; i < attack->a; i++) {
        stage_free(row[i * 2 + 1]);
    }
    stage_free(block);
    for (size_t i = 0; i < attack->b; i++) {
        stage_free(row[i * 2]);
    }
    stage_misuse();
    for (size_t at = 0; at + 8 <= attack->size && at < 64; at += 8) {
        memcpy(&word, (char *)stage_hide(block) + at, sizeof word);
        if (word - (stage_address(block) - 64 * MIB) < 128 * MIB) {
            stage_reached("a freed block tells the address of another one");
        }
    }
    stage_after();
}

static const struct attack links[] = {
    {"newest", GOAL_SECRET_READ, 16, read_links, 1, 0},
    {"newest", GOAL_SECRET_READ, 64, read_links, 3, 0},
    {"newest", GOAL_SECRET_READ, 200, read_links, 3, 0},
    {"newest", GOAL_SECRET_READ, 1024, read_links, 2, 0},
    {"newest", GOAL_SECRET_READ, 4096, read_links, 2, 0},
    {"newest", GOAL_SECRET_READ, 16 * KIB, read_links, 2, 0},
    {"older", GOAL_SECRET_READ, 24, read_links, 9, 9},
    {"older", GOAL_SECRET_READ, 100, read_links, 9, 9},
    {"older", GOAL_SECRET_READ, 500, read_links, 9, 9},
    {"older", GOAL_SECRET_READ, 3000, read_links, 5, 9},
};

const struct family left_families[] = {
    FAMILY("left-behind", "a write into a freed block that no later call meets", ends),
    FAMILY("readable-links", "a freed block is read for the addresses of others", links),
    {0},
};
