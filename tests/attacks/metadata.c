/* SPDX-License-Identifier: MIT */
/*
 * The words of an allocator beside the blocks: in front of a block, in front of the first and after
 * the last one of a row, changed by overflows of the attacker's own blocks. And the size of
 * pointers that are no blocks. Called by main.c; calls the stage; no locks.
 */
#include "attack.h"

#include <malloc.h>
#include <stdlib.h>

#define BLOCKS 256

static char *blocks[BLOCKS];

static size_t take_blocks(size_t size) {
    size_t count = size <= 4 * KIB ? BLOCKS : 16;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = stage_take(size);
    }
    return count;
}

/* ---- a tag in front of a block of the attacker's, forged to a bytes, and the block freed ---- */

static void forge_tag(const struct attack *attack) {
    size_t count = take_blocks(attack->size);
    char *block = blocks[count / 2];
    char *before = stage_block_at(block - 8); /* where blocks lie back to back it is his too */
    stage_misuse();
    stage_write_words(block - 8, ((attack->a + 8 + 15) & ~(uintptr_t)15) | 1, 1);
    stage_after();
    if (before != NULL) {
        stage_refill(before);
    }
    stage_free(block);
    stage_hunt(attack->a);
    stage_hunt(attack->size);
}

/* ---- in front of the first block of a row, or after its last one ---- */

/* The block that no other one of ours touches at its front or end, with 64 KiB to spare if there is
 * such a one: beside it the allocator's own words are the likeliest. */
static char *edge_block(size_t count, size_t size, int is_front) {
    char *best = blocks[0];
    uintptr_t best_gap = 0;
    for (size_t i = 0; i < count; i++) {
        uintptr_t gap = UINTPTR_MAX;
        for (size_t j = 0; j < count; j++) {
            uintptr_t low = stage_address(blocks[is_front ? j : i]) + size;
            uintptr_t distance = stage_address(blocks[is_front ? i : j]) - low;
            if (i != j && distance < gap) {
                gap = distance;
            }
        }
        if (gap > best_gap) {
            best_gap = gap;
            best = blocks[i];
        }
    }
    return best;
}

/* a bytes; b: they are an address outside the heap, else a byte over and over. */
static void write_beside(const struct attack *attack, int is_front) {
    char *target = stage_chosen();
    size_t count = take_blocks(attack->size);
    char *block = edge_block(count, attack->size, is_front);
    for (size_t i = 0; i < count; i += 3) {
        if (blocks[i] != block) {
            stage_free(blocks[i]);
        }
    }
    char *start = is_front ? block - attack->a : block + attack->size;
    stage_misuse();
    if (attack->b) {
        stage_write_words(start, (uintptr_t)target, attack->a / 8);
    } else {
        stage_write(start, 'B', attack->a);
    }
    stage_after();
    stage_hunt(attack->size);
    stage_drop(block);
    stage_hunt(attack->size);
}

static void write_in_front(const struct attack *attack) { write_beside(attack, 1); }
static void write_behind(const struct attack *attack) { write_beside(attack, 0); }

static const struct attack metadata[] = {
    {"forged-tag-larger", GOAL_TWO_OWNERS, 24, forge_tag, 200, 0},
    {"forged-tag-larger", GOAL_TWO_OWNERS, 64, forge_tag, 500, 0},
    {"forged-tag-larger", GOAL_TWO_OWNERS, 200, forge_tag, 1000, 0},
    {"forged-tag-larger", GOAL_TWO_OWNERS, 1024, forge_tag, 4096, 0},
    {"forged-tag-larger", GOAL_TWO_OWNERS, 16 * KIB, forge_tag, 40 * KIB, 0},
    {"front-of-row", GOAL_VICTIM_CHANGED, 16, write_in_front, 64, 0},
    {"front-of-row", GOAL_VICTIM_CHANGED, 4096, write_in_front, 4096, 0},
    {"front-of-row-address", GOAL_CHOSEN_ADDRESS, 200, write_in_front, 4096, 1},
    {"end-of-row", GOAL_VICTIM_CHANGED, 24, write_behind, 64, 0},
    {"end-of-row-address", GOAL_CHOSEN_ADDRESS, 64, write_behind, 128, 1},
};

/* ---- the size of a pointer that is no block; a: its kind, b: distance from its start ---- */

enum what { FREED, INTERIOR, STACK, STATIC };

/* Told of more room than there is, the program would use it. */
static void ask(char *pointer, size_t room) {
    stage_misuse();
    size_t told = malloc_usable_size(stage_hide(pointer));
    if (told > room) {
        stage_reached("told of room that is not there");
    }
    stage_after();
}

static void ask_size(const struct attack *attack) {
    static char static_room[KIB] __attribute__((aligned(4096)));
    char stack_room[KIB] __attribute__((aligned(64))) = {0};
    char *room = (char *)stage_hide(attack->a == STACK ? stack_room : static_room);
    char *block = stage_take(attack->size);
    stage_take(attack->size);
    size_t usable = malloc_usable_size(block);
    switch (attack->a) {
    case FREED:
        stage_free(block);
        ask(block, 0);
        break;
    case INTERIOR:
        stage_forget(block);
        stage_write_words(block, (attack->size * 2 + 16) | 1, attack->size / 8);
        ask(block + attack->b, usable - attack->b);
        free(block);
        break;
    default:
        stage_write_words(room, (attack->size + 16) | 1, KIB / 8);
        ask(room + 16 + attack->b, 0);
    }
}

static const struct attack sizes[] = {
    {"freed", GOAL_WRONG_ROOM, 16, ask_size, FREED, 0},
    {"freed", GOAL_WRONG_ROOM, 200, ask_size, FREED, 0},
    {"freed", GOAL_WRONG_ROOM, 4096, ask_size, FREED, 0},
    {"freed", GOAL_WRONG_ROOM, 16 * KIB, ask_size, FREED, 0},
    {"freed", GOAL_WRONG_ROOM, MIB, ask_size, FREED, 0},
    {"interior-plus-8", GOAL_WRONG_ROOM, 64, ask_size, INTERIOR, 8},
    {"interior-plus-16", GOAL_WRONG_ROOM, 200, ask_size, INTERIOR, 16},
    {"interior-middle", GOAL_WRONG_ROOM, 1024, ask_size, INTERIOR, 512},
    {"interior-page", GOAL_WRONG_ROOM, 100 * KIB, ask_size, INTERIOR, 4096},
    {"stack", GOAL_WRONG_ROOM, 64, ask_size, STACK, 0},
    {"stack", GOAL_WRONG_ROOM, 4096, ask_size, STACK, 0},
    {"static", GOAL_WRONG_ROOM, 24, ask_size, STATIC, 0},
    {"static", GOAL_WRONG_ROOM, 1024, ask_size, STATIC, 0},
};

const struct family metadata_families[] = {
    FAMILY("metadata", "the words that an allocator may store beside blocks are overwritten",
           metadata),
    FAMILY("usable-size", "malloc_usable_size of a pointer that is no live block", sizes),
    {0},
};
