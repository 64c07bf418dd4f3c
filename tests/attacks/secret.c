/* SPDX-License-Identifier: MIT */
/*
 * Reads of what somebody else wrote: through a stale pointer, and from fresh memory that nobody
 * cleared. Called by main.c; calls the stage; no locks.
 */
#include "attack.h"

#include <malloc.h>
#include <stdlib.h>

#define SECRET UINT64_C(0x5ec7e7c0de5ec7e7)
#define BLOCKS 200

static char *blocks[BLOCKS];

static void write_secret(void *block, size_t size) {
    stage_write_words(block, SECRET, (size < 64 * KIB ? size : 64 * KIB) / 8);
}

/* Ends the play if one of the words is the secret. */
static void look_for_secret(const void *block, size_t size) {
    const volatile uint64_t *words = (const volatile uint64_t *)stage_hide(block);
    for (size_t i = 0; i < (size < 64 * KIB ? size : 64 * KIB) / 8; i++) {
        if (words[i] == SECRET) {
            stage_reached("read a secret of another owner");
        }
    }
}

static void *take_plain(size_t size) {
    void *block = malloc(size);
    if (block == NULL) {
        stage_broken("no memory");
    }
    return stage_hide(block);
}

/* ---- through a stale pointer: a says whose secret ---- */

enum whose { LEFT_BEHIND, OF_NEXT_OWNER, OF_THREAD };

static size_t secret_size;

static void take_with_secrets(void *unused) {
    (void)unused;
    size_t count = stage_hunt_count(secret_size);
    for (size_t i = 0; i < count; i++) {
        write_secret(take_plain(secret_size), secret_size);
    }
}

static void read_stale(const struct attack *attack) {
    secret_size = attack->size;
    char *block = (char *)take_plain(attack->size);
    stage_take(attack->size);
    if (attack->a == LEFT_BEHIND) {
        write_secret(block, attack->size);
    }
    free(block);
    if (attack->a == OF_NEXT_OWNER) {
        take_with_secrets(NULL);
    } else if (attack->a == OF_THREAD) {
        stage_hunt_on_thread(16);
        stage_on_thread(take_with_secrets, NULL);
    }
    stage_misuse();
    look_for_secret(block, attack->size);
    stage_after();
}

static const struct attack reads[] = {
    {"left-behind", GOAL_SECRET_READ, 24, read_stale, LEFT_BEHIND, 0},
    {"left-behind", GOAL_SECRET_READ, 64, read_stale, LEFT_BEHIND, 0},
    {"left-behind", GOAL_SECRET_READ, 1024, read_stale, LEFT_BEHIND, 0},
    {"left-behind", GOAL_SECRET_READ, 16 * KIB, read_stale, LEFT_BEHIND, 0},
    {"left-behind", GOAL_SECRET_READ, 100 * KIB, read_stale, LEFT_BEHIND, 0},
    {"left-behind", GOAL_SECRET_READ, 64 * MIB, read_stale, LEFT_BEHIND, 0},
    {"next-owner", GOAL_SECRET_READ, 16, read_stale, OF_NEXT_OWNER, 0},
    {"next-owner", GOAL_SECRET_READ, 64, read_stale, OF_NEXT_OWNER, 0},
    {"next-owner", GOAL_SECRET_READ, 200, read_stale, OF_NEXT_OWNER, 0},
    {"next-owner", GOAL_SECRET_READ, 4096, read_stale, OF_NEXT_OWNER, 0},
    {"next-owner", GOAL_SECRET_READ, 100 * KIB, read_stale, OF_NEXT_OWNER, 0},
    {"next-owner", GOAL_SECRET_READ, MIB, read_stale, OF_NEXT_OWNER, 0},
};

/* ---- from fresh memory: a says how it is asked for ---- */

enum how { BY_MALLOC, BY_ALIGNED, BY_GROWING, BY_THREAD, BY_SMALLER, AFTER_TRIM };

static void free_with_secrets(size_t size) {
    size_t count = size <= 16 * KIB ? BLOCKS : 8;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = (char *)take_plain(size);
        write_secret(blocks[i], size);
    }
    stage_take(size);
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
}

static void free_over_there(void *unused) {
    (void)unused;
    free_with_secrets(secret_size);
}

static void look_in_fresh(size_t how, size_t size) {
    size_t count = stage_hunt_count(size);
    for (size_t i = 0; i < count; i++) {
        char *block;
        if (how == BY_ALIGNED) {
            block = (char *)aligned_alloc(64, (size + 63) & ~(size_t)63);
        } else if (how == BY_GROWING) {
            block = (char *)realloc(take_plain(size / 2), size);
        } else {
            block = (char *)malloc(how == BY_SMALLER ? size / 4 : size);
        }
        if (block == NULL) {
            stage_broken("no memory");
        }
        look_for_secret(block, how == BY_SMALLER ? size / 4 : size);
    }
}

static void read_fresh(const struct attack *attack) {
    secret_size = attack->size;
    if (attack->a == BY_THREAD) {
        stage_on_thread(free_over_there, NULL);
    } else {
        free_with_secrets(attack->size);
    }
    if (attack->a == AFTER_TRIM) {
        malloc_trim(0);
    }
    stage_misuse(); /* the program uses memory that it has not written */
    look_in_fresh(attack->a, attack->size);
    stage_after();
}

static const struct attack fresh[] = {
    {"malloc", GOAL_SECRET_READ, 64, read_fresh, BY_MALLOC, 0},
    {"malloc", GOAL_SECRET_READ, 200, read_fresh, BY_MALLOC, 0},
    {"malloc", GOAL_SECRET_READ, 1024, read_fresh, BY_MALLOC, 0},
    {"malloc", GOAL_SECRET_READ, 4096, read_fresh, BY_MALLOC, 0},
    {"malloc", GOAL_SECRET_READ, 16 * KIB, read_fresh, BY_MALLOC, 0},
    {"malloc", GOAL_SECRET_READ, 100 * KIB, read_fresh, BY_MALLOC, 0},
    {"malloc", GOAL_SECRET_READ, MIB, read_fresh, BY_MALLOC, 0},
    {"malloc", GOAL_SECRET_READ, 64 * MIB, read_fresh, BY_MALLOC, 0},
    {"aligned", GOAL_SECRET_READ, 64, read_fresh, BY_ALIGNED, 0},
    {"realloc", GOAL_SECRET_READ, 200, read_fresh, BY_GROWING, 0},
    {"thread", GOAL_SECRET_READ, 1024, read_fresh, BY_THREAD, 0},
    {"smaller", GOAL_SECRET_READ, 100 * KIB, read_fresh, BY_SMALLER, 0},
    {"after-trim", GOAL_SECRET_READ, 1024, read_fresh, AFTER_TRIM, 0},
};

const struct family secret_families[] = {
    FAMILY("stale-read", "a stale pointer reads old data or those of the next owner", reads),
    FAMILY("uninitialised-read", "fresh memory contains data of its last owner", fresh),
    {0},
};
