/* SPDX-License-Identifier: MIT */
/*
 * Pointers freed that malloc never returned: into the middle of a block, and into memory that is
 * not the heap's. The attacker wrote that memory, with words that look like a size in front of
 * the pointer. Called by main.c; calls the stage; no locks.
 */
#include "attack.h"

#include <stdlib.h>
#include <sys/mman.h>

/* The tag in front of a block of the size, in a heap with such tags. */
static uintptr_t forged_tag(size_t size) { return ((size + 8 + 15) & ~(uintptr_t)15) | 1; }

/* A tag in front of the pointer and one where the next block would begin. */
static void forge(char *pointer, size_t size, const char *end) {
    stage_write_words(pointer - 8, forged_tag(size), 1);
    char *next = pointer - 8 + (forged_tag(size) & ~(uintptr_t)15);
    if (next + 8 <= end) {
        stage_write_words(next, forged_tag(size), 1);
    }
}

/* ---- into the middle: a bytes after the start; b: with a forged tag in front of it ---- */

static void free_interior(const struct attack *attack) {
    size_t size = attack->size;
    char *front = stage_take(size);
    char *block = stage_take(size);
    stage_take(size);
    stage_forget(block);
    stage_write(block, 0, size < 64 * KIB ? size : 64 * KIB);
    stage_own(block, size, "malloc returned the middle of a live block");
    size_t rest = size - attack->a;
    if (attack->b) {
        forge(block + attack->a, rest > 32 ? rest / 2 : rest, block + size);
    }
    stage_misuse();
    free(stage_hide(block + attack->a));
    stage_after();
    stage_hunt(size);
    stage_hunt(rest > 32 ? rest / 2 : rest);
    stage_free(block); /* its owner has noticed nothing */
    stage_drop(front);
    stage_hunt(size);
}

static const struct attack interior[] = {
    {"plus-1", GOAL_TWO_OWNERS, 64, free_interior, 1, 0},
    {"plus-1", GOAL_TWO_OWNERS, 4096, free_interior, 1, 0},
    {"plus-8", GOAL_TWO_OWNERS, 16, free_interior, 8, 0},
    {"plus-16", GOAL_TWO_OWNERS, 64, free_interior, 16, 0},
    {"plus-16", GOAL_TWO_OWNERS, 16 * KIB, free_interior, 16, 0},
    {"plus-16", GOAL_TWO_OWNERS, MIB, free_interior, 16, 0},
    {"forged-plus-16", GOAL_TWO_OWNERS, 64, free_interior, 16, 1},
    {"forged-plus-16", GOAL_TWO_OWNERS, 200, free_interior, 16, 1},
    {"forged-middle", GOAL_TWO_OWNERS, 1024, free_interior, 512, 1},
    {"forged-middle", GOAL_TWO_OWNERS, 4096, free_interior, 2048, 1},
    {"forged-middle", GOAL_TWO_OWNERS, 100 * KIB, free_interior, 50 * KIB, 1},
    {"page", GOAL_TWO_OWNERS, 64 * KIB, free_interior, 4 * KIB, 0},
    {"forged-page", GOAL_TWO_OWNERS, MIB, free_interior, 4 * KIB, 1},
};

/* ---- not the heap's: a says what, b: the pointer's distance from an address that is even ---- */

enum place { ON_STACK, STATIC, MAPPED, THREAD_LOCAL };

#define ROOM (256 * KIB)

static char static_room[ROOM] __attribute__((aligned(4096)));
static _Thread_local char thread_room[4 * KIB] __attribute__((aligned(64)));

static void free_in(char *room, size_t room_size, const struct attack *attack) {
    static const char label[] = "malloc returned memory that is not the heap's";
    char *pointer = room + 64 + attack->b;
    stage_write(room, 0, room_size);
    forge(pointer, attack->size, room + room_size);
    stage_own(room, room_size, label);
    stage_take(attack->size);
    stage_misuse();
    free(stage_hide(pointer));
    stage_after();
    stage_hunt(attack->size);
    stage_end(attack->size, "the goal was not reached"); /* the room is still there */
}

static void free_foreign(const struct attack *attack) {
    char stack_room[8 * KIB] __attribute__((aligned(64))) = {0};
    void *mapping;
    switch (attack->a) {
    case ON_STACK:
        free_in((char *)stage_hide(stack_room), sizeof stack_room, attack);
        break;
    case MAPPED:
        mapping = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapping == MAP_FAILED) {
            stage_broken("no mapping");
        }
        free_in((char *)mapping + MIB, ROOM, attack);
        break;
    case THREAD_LOCAL:
        free_in((char *)stage_hide(thread_room), sizeof thread_room, attack);
        break;
    default:
        free_in((char *)stage_hide(static_room), sizeof static_room, attack);
    }
}

static const struct attack foreign[] = {
    {"stack", GOAL_CHOSEN_ADDRESS, 16, free_foreign, ON_STACK, 0},
    {"stack", GOAL_CHOSEN_ADDRESS, 64, free_foreign, ON_STACK, 0},
    {"stack", GOAL_CHOSEN_ADDRESS, 1024, free_foreign, ON_STACK, 0},
    {"stack-unaligned", GOAL_CHOSEN_ADDRESS, 200, free_foreign, ON_STACK, 8},
    {"static", GOAL_CHOSEN_ADDRESS, 24, free_foreign, STATIC, 0},
    {"static", GOAL_CHOSEN_ADDRESS, 200, free_foreign, STATIC, 0},
    {"static", GOAL_CHOSEN_ADDRESS, 4096, free_foreign, STATIC, 0},
    {"static", GOAL_CHOSEN_ADDRESS, 100 * KIB, free_foreign, STATIC, 0},
    {"mapped", GOAL_CHOSEN_ADDRESS, 64, free_foreign, MAPPED, 0},
    {"mapped", GOAL_CHOSEN_ADDRESS, 16 * KIB, free_foreign, MAPPED, 0},
    {"thread-local", GOAL_CHOSEN_ADDRESS, 64, free_foreign, THREAD_LOCAL, 0},
};

/* ---- beside the blocks: where one could lie, but none was ever handed out; and at odd offsets
 * ---- */

#define ROW 24

/* A row of live blocks, the way from each to the next as often as not. */
static char *take_row(size_t size, ptrdiff_t *step) {
    char *row[ROW];
    for (size_t i = 0; i < ROW; i++) {
        row[i] = stage_take(size);
    }
    *step = (ptrdiff_t)(stage_address(row[ROW - 1]) - stage_address(row[ROW - 2]));
    return row[ROW - 1];
}

static void free_it(void *pointer) { free(pointer); }

/* a: so many steps beyond the newest block; b: on another thread. */
static void free_unallocated(const struct attack *attack) {
    ptrdiff_t step;
    char *last = take_row(attack->size, &step);
    char *pointer = last + step * (ptrdiff_t)attack->a;
    if (stage_block_at(pointer) != NULL) {
        pointer = last - step * (ptrdiff_t)(ROW + attack->a); /* the row runs the other way */
    }
    stage_misuse();
    if (attack->b) {
        stage_on_thread(free_it, stage_hide(pointer));
    } else {
        free(stage_hide(pointer));
    }
    stage_after();
    stage_hunt(attack->size);
    stage_hunt(attack->size);
}

static const struct attack unallocated[] = {
    {"next", GOAL_TWO_OWNERS, 8, free_unallocated, 1, 0},
    {"next", GOAL_TWO_OWNERS, 16, free_unallocated, 1, 0},
    {"next", GOAL_TWO_OWNERS, 64, free_unallocated, 1, 0},
    {"next", GOAL_TWO_OWNERS, 200, free_unallocated, 1, 0},
    {"next", GOAL_TWO_OWNERS, 1024, free_unallocated, 1, 0},
    {"third", GOAL_TWO_OWNERS, 32, free_unallocated, 3, 0},
    {"third", GOAL_TWO_OWNERS, 4096, free_unallocated, 3, 0},
    {"tenth", GOAL_TWO_OWNERS, 64, free_unallocated, 10, 0},
    {"tenth", GOAL_TWO_OWNERS, 500, free_unallocated, 10, 0},
    {"hundredth", GOAL_TWO_OWNERS, 16, free_unallocated, 100, 0},
    {"hundredth", GOAL_TWO_OWNERS, 100, free_unallocated, 100, 0},
    {"thousandth", GOAL_TWO_OWNERS, 16, free_unallocated, 1000, 0},
    {"other-thread", GOAL_TWO_OWNERS, 64, free_unallocated, 1, 1},
    {"other-thread", GOAL_TWO_OWNERS, 1000, free_unallocated, 2, 1},
};

/* a: from a block in the middle of a row, in bytes; b: that far in front of it. */
static void free_beside(const struct attack *attack) {
    char *row[ROW];
    for (size_t i = 0; i < ROW; i++) {
        row[i] = stage_take(attack->size);
    }
    char *pointer = attack->b ? row[ROW / 2] - attack->a : row[ROW / 2] + attack->a;
    stage_misuse();
    free(stage_hide(pointer));
    stage_after();
    stage_hunt(attack->size);
    stage_hunt(attack->size);
    stage_unnoticed("a free of no block");
}

static const struct attack beside[] = {
    {"minus-1", GOAL_UNNOTICED, 64, free_beside, 1, 1},
    {"minus-8", GOAL_UNNOTICED, 24, free_beside, 8, 1},
    {"minus-16", GOAL_UNNOTICED, 200, free_beside, 16, 1},
    {"minus-16", GOAL_UNNOTICED, 4096, free_beside, 16, 1},
    {"plus-2", GOAL_UNNOTICED, 16, free_beside, 2, 0},
    {"plus-4", GOAL_UNNOTICED, 1000, free_beside, 4, 0},
    {"plus-8", GOAL_UNNOTICED, 40, free_beside, 8, 0},
    {"plus-32", GOAL_UNNOTICED, 3000, free_beside, 32, 0},
    {"plus-48", GOAL_UNNOTICED, 100, free_beside, 48, 0},
    {"last-byte", GOAL_UNNOTICED, 64, free_beside, 63, 0},
    {"last-byte", GOAL_UNNOTICED, 16 * KIB, free_beside, 16 * KIB - 1, 0},
    {"half", GOAL_UNNOTICED, 512, free_beside, 256, 0},
    {"half", GOAL_UNNOTICED, 200 * KIB, free_beside, 100 * KIB, 0},
    {"page", GOAL_UNNOTICED, 40000, free_beside, 4096, 0},
};

const struct family bad_free_families[] = {
    FAMILY("free-interior", "free of a pointer into the middle of a live block", interior),
    FAMILY("free-foreign", "free of memory that is not the heap's, made to look like it", foreign),
    FAMILY("free-unallocated", "free of a place where a block would fit that was never handed out",
           unallocated),
    FAMILY("free-beside", "free of an odd place in or between live blocks", beside),
    {0},
};
