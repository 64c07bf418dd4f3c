/* SPDX-License-Identifier: MIT */
/*
 * Accesses outside of blocks: far after or in front of one, and in blocks of no size. And writes
 * over a neighbour's end that only the neighbour's own free can find. Called by main.c; calls the
 * stage; no locks.
 */
#include "attack.h"

#include <stdlib.h>

#define ROW 200
#define HERE 'H'

static char *row[ROW];

static char *take_row(size_t size) {
    size_t count = size <= 4 * KIB ? ROW : size <= 64 * KIB ? 48 : 12;
    for (size_t i = 0; i < count; i++) {
        row[i] = stage_take(size);
    }
    return row[count / 2];
}

/* ---- far away: a bytes; b: in front ---- */

static volatile char *far_of(const struct attack *attack) {
    char *block = take_row(attack->size);
    return (volatile char *)stage_hide(attack->b ? block - attack->a
                                                 : block + attack->size + attack->a);
}

static void write_far(const struct attack *attack) {
    volatile char *place = far_of(attack);
    stage_misuse();
    *place = HERE;
    stage_after();
    stage_unnoticed("memory far from the block was written");
}

static void read_far(const struct attack *attack) {
    volatile char *place = far_of(attack);
    stage_misuse();
    char seen = *place;
    stage_after();
    stage_unnoticed(seen == HERE ? "HERE was read" : "memory far from the block was read");
}

static const struct attack far_writes[] = {
    {"page-behind", GOAL_UNNOTICED, 16, write_far, 4 * KIB, 0},
    {"page-behind", GOAL_UNNOTICED, 64, write_far, 4 * KIB, 0},
    {"page-behind", GOAL_UNNOTICED, 1024, write_far, 4 * KIB, 0},
    {"page-behind", GOAL_UNNOTICED, 4096, write_far, 4 * KIB, 0},
    {"page-behind", GOAL_UNNOTICED, 100 * KIB, write_far, 4 * KIB, 0},
    {"page-in-front", GOAL_UNNOTICED, 24, write_far, 4 * KIB, 1},
    {"page-in-front", GOAL_UNNOTICED, 200, write_far, 4 * KIB, 1},
    {"page-in-front", GOAL_UNNOTICED, 16 * KIB, write_far, 4 * KIB, 1},
    {"64K-behind", GOAL_UNNOTICED, 64, write_far, 64 * KIB, 0},
    {"64K-behind", GOAL_UNNOTICED, 2048, write_far, 64 * KIB, 0},
    {"64K-in-front", GOAL_UNNOTICED, 1024, write_far, 64 * KIB, 1},
    {"1M-behind", GOAL_UNNOTICED, 64, write_far, MIB, 0},
    {"1M-behind", GOAL_UNNOTICED, 8 * KIB, write_far, MIB, 0},
    {"1M-in-front", GOAL_UNNOTICED, 4096, write_far, MIB, 1},
};

static const struct attack far_reads[] = {
    {"page-behind", GOAL_UNNOTICED, 8, read_far, 4 * KIB, 0},
    {"page-behind", GOAL_UNNOTICED, 100, read_far, 4 * KIB, 0},
    {"page-behind", GOAL_UNNOTICED, 2000, read_far, 4 * KIB, 0},
    {"page-behind", GOAL_UNNOTICED, 32 * KIB, read_far, 4 * KIB, 0},
    {"page-in-front", GOAL_UNNOTICED, 16, read_far, 4 * KIB, 1},
    {"page-in-front", GOAL_UNNOTICED, 512, read_far, 4 * KIB, 1},
    {"64K-behind", GOAL_UNNOTICED, 16, read_far, 64 * KIB, 0},
    {"64K-in-front", GOAL_UNNOTICED, 256, read_far, 64 * KIB, 1},
    {"64K-behind", GOAL_UNNOTICED, 200 * KIB, read_far, 64 * KIB, 0},
    {"1M-behind", GOAL_UNNOTICED, 16, read_far, MIB, 0},
    {"1M-in-front", GOAL_UNNOTICED, 64, read_far, MIB, 1},
};

/* ---- no size: a: how it is made; b: read it at an offset of `size`, instead of writing ---- */

enum maker { BY_MALLOC, BY_CALLOC, BY_ALIGNED, BY_REALLOC, BY_MANY };

static char *make_empty(size_t maker) {
    volatile size_t none = 0;
    switch (maker) {
    case BY_CALLOC:
        return (char *)calloc(none, 8);
    case BY_ALIGNED:
        return (char *)aligned_alloc(64, none);
    case BY_REALLOC:
        return (char *)realloc(NULL, none);
    case BY_MANY:
        for (int i = 0; i < 500; i++) {
            row[i % ROW] = (char *)malloc(none);
        }
        return row[77];
    default:
        return (char *)malloc(none);
    }
}

static void touch_empty(const struct attack *attack) {
    volatile char *block = (volatile char *)stage_hide(make_empty(attack->a));
    stage_misuse();
    if (block == NULL) {
        stage_end(64, "there is no block of no size");
    }
    if (attack->b) {
        (void)block[attack->size];
    } else {
        block[attack->size] = HERE;
    }
    stage_after();
    free((void *)block);
    stage_hunt(16);
    stage_unnoticed("a block of no size was used");
}

static const struct attack empty[] = {
    {"write-malloc", GOAL_UNNOTICED, 0, touch_empty, BY_MALLOC, 0},
    {"write-malloc", GOAL_UNNOTICED, 1, touch_empty, BY_MALLOC, 0},
    {"write-malloc", GOAL_UNNOTICED, 7, touch_empty, BY_MALLOC, 0},
    {"write-calloc", GOAL_UNNOTICED, 0, touch_empty, BY_CALLOC, 0},
    {"write-aligned", GOAL_UNNOTICED, 0, touch_empty, BY_ALIGNED, 0},
    {"write-realloc", GOAL_UNNOTICED, 0, touch_empty, BY_REALLOC, 0},
    {"write-many", GOAL_UNNOTICED, 0, touch_empty, BY_MANY, 0},
    {"read-malloc", GOAL_UNNOTICED, 0, touch_empty, BY_MALLOC, 1},
    {"read-malloc", GOAL_UNNOTICED, 15, touch_empty, BY_MALLOC, 1},
    {"read-calloc", GOAL_UNNOTICED, 0, touch_empty, BY_CALLOC, 1},
    {"read-many", GOAL_UNNOTICED, 3, touch_empty, BY_MANY, 1},
};

/* ---- over the end of a block, and only the neighbour is freed; a bytes; b: in front ---- */

static void free_neighbour(const struct attack *attack) {
    char *buffer = take_row(attack->size);
    size_t step = (size_t)-1;
    char *neighbour = NULL;
    for (size_t i = 0; i < ROW && row[i] != NULL; i++) {
        size_t above = stage_address(row[i]) - stage_address(buffer);
        size_t distance = attack->b ? -above : above;
        if (distance != 0 && distance < step) {
            step = distance;
            neighbour = row[i];
        }
    }
    stage_misuse();
    stage_write(attack->b ? buffer - attack->a : buffer + attack->size, 'B', attack->a);
    stage_after();
    if (neighbour == NULL) {
        stage_broken("no neighbour");
    }
    stage_free(neighbour);
    stage_unnoticed("the neighbour's free has found nothing");
}

static const struct attack neighbours[] = {
    {"8-over", GOAL_UNNOTICED, 24, free_neighbour, 8, 0},
    {"8-over", GOAL_UNNOTICED, 64, free_neighbour, 8, 0},
    {"8-over", GOAL_UNNOTICED, 1024, free_neighbour, 8, 0},
    {"16-over", GOAL_UNNOTICED, 16, free_neighbour, 16, 0},
    {"16-over", GOAL_UNNOTICED, 200, free_neighbour, 16, 0},
    {"32-over", GOAL_UNNOTICED, 4000, free_neighbour, 32, 0},
    {"100-over", GOAL_UNNOTICED, 100, free_neighbour, 100, 0},
    {"8-under", GOAL_UNNOTICED, 32, free_neighbour, 8, 1},
    {"8-under", GOAL_UNNOTICED, 500, free_neighbour, 8, 1},
    {"16-under", GOAL_UNNOTICED, 64, free_neighbour, 16, 1},
};

const struct family beyond_families[] = {
    FAMILY("far-write", "a write far after or in front of a block", far_writes),
    FAMILY("far-read", "a read far after or in front of a block", far_reads),
    FAMILY("no-size", "a block of no size is read or written", empty),
    FAMILY("neighbour", "a write over the end of a block whose neighbour alone is freed",
           neighbours),
    {0},
};
