/* SPDX-License-Identifier: MIT */
/*
 * Pages of tests that fork at each instruction (fork_step.h): some are allocated before the fork,
 * and the child, which frees them, takes others beside them. All are filled, so that memory which
 * is given twice is noticed.
 */
#ifndef PS_TESTS_UNIT_FORK_PAGES_H
#define PS_TESTS_UNIT_FORK_PAGES_H

#include "tests/unit/unit.h"

#include <poolshim/pages.h>

#define PAGE ((size_t)4096)
#define KEPT 24
#define TAKEN 60

static unsigned char *kept_pages[KEPT]; /* NULL: none */
static unsigned char *taken_pages[TAKEN];

static void fill(unsigned char *memory, size_t bytes, size_t mark) {
    memset(memory, (int)(mark % 255 + 1), bytes);
}

static void check_filled(const unsigned char *memory, size_t bytes, size_t mark) {
    for (size_t i = 0; i < bytes; i += 61) {
        if (memory[i] != (unsigned char)(mark % 255 + 1)) {
            CHECK_EQ(memory[i], mark % 255 + 1);
            return;
        }
    }
}

static size_t pages_bytes(size_t i) { return (i % 7 == 0 ? 20 + i : 1 + i % 5) * PAGE; }

static unsigned char *filled_pages(size_t i, size_t mark) {
    unsigned char *pages = ps_pages_alloc(pages_bytes(i), PAGE);
    REQUIRE(pages != NULL);
    fill(pages, pages_bytes(i), mark);
    return pages;
}

static void allocate_kept_pages(void) {
    for (size_t i = 0; i < KEPT; i++) {
        kept_pages[i] = filled_pages(i, i);
    }
}

static void take_pages(void) {
    for (size_t i = 0; i < TAKEN; i++) {
        taken_pages[i] = filled_pages(i, i + 7);
    }
}

static void check_kept_pages(void) {
    for (size_t i = 0; i < KEPT && kept_pages[i] != NULL; i++) {
        check_filled(kept_pages[i], pages_bytes(i), i);
    }
}

static void free_kept_pages(void) {
    for (size_t i = 0; i < KEPT && kept_pages[i] != NULL; i++) {
        ps_pages_free(kept_pages[i], pages_bytes(i));
        kept_pages[i] = NULL;
    }
}

static void free_taken_pages(void) {
    for (size_t i = 0; i < TAKEN; i++) {
        check_filled(taken_pages[i], pages_bytes(i), i + 7);
        ps_pages_free(taken_pages[i], pages_bytes(i));
    }
}

#endif
