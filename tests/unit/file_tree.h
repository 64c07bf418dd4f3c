/* SPDX-License-Identifier: MIT */
/*
 * Trees of files as the system has them below /proc and /sys, for tests of what reads these: each
 * test writes its own below a folder that is `root` meanwhile.
 */
#ifndef PS_TESTS_UNIT_FILE_TREE_H
#define PS_TESTS_UNIT_FILE_TREE_H

#include "tests/unit/fresh.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

static char root[64];

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

/* Writes a file and the folders above it. */
static inline void put(const char *path, const char *text) {
    char whole[4096];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        REQUIRE(mkdir(whole, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    REQUIRE(file != NULL);
    fputs(text, file);
    fclose(file);
}

/* Each test has the folder for itself. */
#define TREE_TEST(claim)                                                                           \
    static void claim##_in_tree(void);                                                             \
    TEST(claim) {                                                                                  \
        char name[] = "/tmp/poolshim-tree-XXXXXX";                                                 \
        REQUIRE(mkdtemp(name) != NULL);                                                            \
        memcpy(root, name, sizeof name);                                                           \
        claim##_in_tree();                                                                         \
        nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);                                           \
    }                                                                                              \
    static void claim##_in_tree(void)

#endif
