/* SPDX-License-Identifier: MIT */
/*
 * Work for arenas whose outcome is known: commit number k always makes the same changes, so a file
 * with k commits has one right content, which a trivial model knows. Included by the arena tests.
 */
#ifndef PS_TESTS_POOLS_ARENA_WORK_H
#define PS_TESTS_POOLS_ARENA_WORK_H

#include "tests/unit/unit.h"

#include <poolshim/arena.h>

/* Room enough for the work; with the usual 64 GiB an emulator that has a record per page spends
 * its time and memory on these, at every opening. */
static const struct ps_arena_options work_options = {.reserve_bytes = (size_t)64 << 20};

enum { WORK_SLOTS = 48, WORK_CHANGES_MAX = 12 };

struct work_block {
    uint64_t bytes; /* of the following words */
    uint64_t words[];
};

struct work_root {
    uint64_t commits;
    ps_offset slots[WORK_SLOTS];
};

struct work_model {
    uint64_t commits;
    struct {
        size_t bytes; /* 0: none */
        uint64_t fill;
    } slots[WORK_SLOTS];
};

struct work_change {
    size_t slot;
    size_t bytes; /* 0: free */
    uint64_t fill;
};

static inline uint64_t work_random(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = (*state ^ (*state >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* What commit number `commit` changes. */
__attribute__((unused)) static size_t work_changes(uint64_t commit, struct work_change *changes) {
    uint64_t state = commit * 77 + 5;
    size_t count = 1 + work_random(&state) % WORK_CHANGES_MAX;
    for (size_t i = 0; i < count; i++) {
        uint64_t kind = work_random(&state) % 16;
        size_t most = kind == 0 ? 60000 : kind < 4 ? 6000 : 400;
        size_t bytes = 8 + work_random(&state) % most / 8 * 8;
        changes[i] = (struct work_change){work_random(&state) % WORK_SLOTS,
                                          kind % 3 == 2 ? 0 : bytes, work_random(&state)};
    }
    return count;
}

__attribute__((unused)) static void work_model_step(struct work_model *model) {
    struct work_change changes[WORK_CHANGES_MAX];
    size_t count = work_changes(++model->commits, changes);
    for (size_t i = 0; i < count; i++) {
        model->slots[changes[i].slot].bytes = changes[i].bytes;
        model->slots[changes[i].slot].fill = changes[i].fill;
    }
}

/* Makes the next changes, without the commit. False: no memory. */
__attribute__((unused)) static int work_arena_step(struct ps_arena *arena) {
    struct work_root *root = PS_ARENA_AT(arena, struct work_root, ps_arena_root(arena));
    if (root == NULL) {
        root = ps_arena_alloc(arena, sizeof *root);
        if (root == NULL) {
            return 0;
        }
        memset(root, 0, sizeof *root);
        ps_arena_set_root(arena, ps_arena_offset(arena, root));
    }
    struct work_change changes[WORK_CHANGES_MAX];
    size_t count = work_changes(++root->commits, changes);
    for (size_t i = 0; i < count; i++) {
        ps_offset *slot = &root->slots[changes[i].slot];
        struct work_block *block = ps_arena_at(arena, *slot);
        if (changes[i].bytes == 0) {
            ps_arena_free(arena, block);
            block = NULL;
        } else {
            block = ps_arena_realloc(arena, block, sizeof *block + changes[i].bytes);
            if (block == NULL) {
                return 0;
            }
            block->bytes = changes[i].bytes;
            for (size_t word = 0; word < block->bytes / 8; word++) {
                block->words[word] = changes[i].fill + word;
            }
        }
        *slot = ps_arena_offset(arena, block);
    }
    return 1;
}

__attribute__((unused)) static uint64_t work_commits(const struct ps_arena *arena) {
    const struct work_root *root = ps_arena_at(arena, ps_arena_root(arena));
    return root == NULL ? 0 : root->commits;
}

/* NULL: the arena has what the model has and nothing else. */
__attribute__((unused)) static const char *work_difference(const struct ps_arena *arena,
                                                           const struct work_model *model) {
    const char *fault = ps_arena_check(arena);
    if (fault != NULL) {
        return fault;
    }
    if (work_commits(arena) != model->commits) {
        return "another number of commits";
    }
    const struct work_root *root = ps_arena_at(arena, ps_arena_root(arena));
    size_t blocks = root != NULL;
    for (size_t i = 0; i < WORK_SLOTS && root != NULL; i++) {
        const struct work_block *block = ps_arena_at(arena, root->slots[i]);
        if ((block == NULL) != (model->slots[i].bytes == 0)) {
            return "a block is missing or too many";
        }
        blocks += block != NULL;
        if (block != NULL && block->bytes != model->slots[i].bytes) {
            return "a block has another length";
        }
        for (size_t word = 0; block != NULL && word < block->bytes / 8; word++) {
            if (block->words[word] != model->slots[i].fill + word) {
                return "a block has other contents";
            }
        }
    }
    struct ps_arena_stats stats;
    ps_arena_stats(arena, &stats);
    return stats.used_count != blocks ? "blocks that nobody refers to" : NULL;
}

/* Checks and says what differs. */
#define WORK_CHECK(arena, model)                                                                   \
    do {                                                                                           \
        const char *difference_ = work_difference((arena), (model));                               \
        CHECK_STR_EQ(difference_ == NULL ? "the same" : difference_, "the same");                  \
    } while (0)

#endif
