// flags: -O2
/* SPDX-License-Identifier: MIT */
/*
 * The states in which TLSF calls take longest. Without arguments: goes through all cases and checks
 * the pool after each. With the name of a case, a number and "call": as many times brings the pool
 * into the state and makes the call; with "rest" it leaves the call out.
 * tests/pools/test_pools_tlsf.py counts the instructions of both.
 */
#include "tests/pools/modes.h"

#include <poolshim/tlsf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char room[1 << 22] __attribute__((aligned(4096)));
static struct ps_tlsf *tlsf;
static char *blocks[8];

/* Sizes far from the class of any other block, so that each call empties or begins a list. */
enum { SMALL = 24, MEDIUM = 3000, LARGE = 200000 };

static void fresh(void) { tlsf = ps_tlsf_init(room, sizeof room, NULL); }

/* used, free, used, free, used: the middle one is merged with both. */
static void between_two_free_blocks(void) {
    fresh();
    blocks[0] = ps_tlsf_alloc(tlsf, SMALL);
    blocks[1] = ps_tlsf_alloc(tlsf, MEDIUM);
    blocks[2] = ps_tlsf_alloc(tlsf, 40000);
    blocks[3] = ps_tlsf_alloc(tlsf, LARGE);
    blocks[4] = ps_tlsf_alloc(tlsf, SMALL);
    ps_tlsf_free(tlsf, blocks[1]);
    ps_tlsf_free(tlsf, blocks[3]);
}

static void free_middle(void) { ps_tlsf_free(tlsf, blocks[2]); }

/* There are other free blocks in its list, before and after the first. */
static void between_free_blocks_with_company(void) {
    fresh();
    for (int i = 0; i < 8; i++) {
        blocks[i] = ps_tlsf_alloc(tlsf, i % 2 == 0 ? SMALL : MEDIUM);
    }
    for (int i = 1; i < 8; i += 2) {
        ps_tlsf_free(tlsf, blocks[i]);
    }
}

static void free_fourth(void) { ps_tlsf_free(tlsf, blocks[4]); }

static void alone(void) {
    fresh();
    blocks[0] = ps_tlsf_alloc(tlsf, 64);
    blocks[1] = ps_tlsf_alloc(tlsf, 64);
}

static void free_first(void) { ps_tlsf_free(tlsf, blocks[0]); }

/* The class of the request is empty, so is the rest of its word; the split changes two lists. */
static void only_a_far_larger_block(void) { fresh(); }

static void alloc_small(void) { blocks[0] = ps_tlsf_alloc(tlsf, SMALL); }

/* The rest of the block has another class. */
static void one_class_down(void) {
    fresh();
    blocks[0] = ps_tlsf_alloc(tlsf, LARGE);
    blocks[1] = ps_tlsf_alloc(tlsf, SMALL);
    ps_tlsf_free(tlsf, blocks[0]);
}

static void alloc_most(void) { blocks[0] = ps_tlsf_alloc(tlsf, LARGE / 2); }

/* Nothing fits by class: the request's own class is looked into, all tries are in vain but one. */
static void near_fits_only(void) {
    fresh();
    for (int i = 0; i < 4; i++) {
        blocks[i] = ps_tlsf_alloc(tlsf, i == 0 ? 102200 : 99000);
        (void)!ps_tlsf_alloc(tlsf, SMALL);
    }
    struct ps_tlsf_stats stats;
    ps_tlsf_stats(tlsf, &stats);
    while (ps_tlsf_alloc(tlsf, 90000) != NULL) {
    }
    for (int i = 0; i < 4; i++) {
        ps_tlsf_free(tlsf, blocks[i]);
    }
}

static void alloc_near(void) {
    blocks[0] = ps_tlsf_alloc(tlsf, 102100);
    if (blocks[0] == NULL) {
        abort();
    }
}

static void alloc_aligned_far(void) { blocks[0] = ps_tlsf_alloc_aligned(tlsf, SMALL, 65536); }

static void alloc_aligned_near(void) {
    blocks[0] = ps_tlsf_alloc_aligned(tlsf, 102000, 32);
    if (blocks[0] == NULL) {
        abort();
    }
}

static void grow_into_free(void) { blocks[0] = ps_tlsf_realloc(tlsf, blocks[0], MEDIUM / 2); }

static void next_to_free(void) {
    fresh();
    blocks[0] = ps_tlsf_alloc(tlsf, SMALL);
    blocks[1] = ps_tlsf_alloc(tlsf, MEDIUM);
    blocks[2] = ps_tlsf_alloc(tlsf, SMALL);
    ps_tlsf_free(tlsf, blocks[1]);
}

static void shrink_before_free(void) { blocks[0] = ps_tlsf_realloc(tlsf, blocks[0], SMALL); }

static void large_next_to_free(void) {
    fresh();
    blocks[0] = ps_tlsf_alloc(tlsf, LARGE);
    blocks[1] = ps_tlsf_alloc(tlsf, MEDIUM);
    blocks[2] = ps_tlsf_alloc(tlsf, SMALL);
    ps_tlsf_free(tlsf, blocks[1]);
}

static const struct bound_case {
    const char *name;
    void (*set_up)(void);
    void (*call)(void);
} cases[] = {
    {"free-between-two", between_two_free_blocks, free_middle},
    {"free-between-listed", between_free_blocks_with_company, free_fourth},
    {"free-alone", alone, free_first},
    {"alloc-far", only_a_far_larger_block, alloc_small},
    {"alloc-other-class", one_class_down, alloc_most},
    {"alloc-near", near_fits_only, alloc_near},
    {"aligned-far", only_a_far_larger_block, alloc_aligned_far},
    {"aligned-near", near_fits_only, alloc_aligned_near},
    {"realloc-grow", next_to_free, grow_into_free},
    {"realloc-shrink", large_next_to_free, shrink_before_free},
};
enum { CASE_COUNT = sizeof cases / sizeof *cases };

static int check_all(void) {
    for (int i = 0; i < CASE_COUNT; i++) {
        cases[i].set_up();
        cases[i].call();
        const char *fault = ps_tlsf_check(tlsf);
        printf("%s: %s\n", cases[i].name, fault == NULL ? "sound" : fault);
        if (fault != NULL) {
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    if (is_malloc_mode()) { /* the cases fill the pool's own memory */
        printf("skip: needs chunks\n");
        return 77;
    }
    if (argc != 4) {
        return check_all();
    }
    int is_called = strcmp(argv[3], "call") == 0;
    for (int i = 0; i < CASE_COUNT; i++) {
        for (int left = atoi(argv[2]); left > 0 && strcmp(cases[i].name, argv[1]) == 0; left--) {
            cases[i].set_up();
            if (is_called) {
                cases[i].call();
            }
        }
    }
    return 0;
}
