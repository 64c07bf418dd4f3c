// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Call sites that allocate known amounts: what tests/shim/test_profile.py expects in the file of
 * POOLSHIM_PROFILE. At its end the program prints a line per site and block size: name, usable
 * bytes of a block, blocks allocated, blocks live. Modes: known (the default), threads, fork, leave
 * (by _exit), write NAME (by the library's function, and at exit).
 */
#include "pools/include/poolshim/poolshim.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 20000
#define LARGE_ROUNDS 40
#define ROWS 16

struct row {
    const char *name;
    size_t bytes;
    size_t made;
    size_t live;
};

static __thread struct row rows[ROWS];
static struct row totals[ROWS];
static pthread_mutex_t totals_lock = PTHREAD_MUTEX_INITIALIZER;

/* Counts a block for a site; each name and size has a row. */
static void count(struct row *table, struct row row) {
    for (size_t i = 0; i < ROWS; i++) {
        if (table[i].name == NULL || (table[i].name == row.name && table[i].bytes == row.bytes)) {
            table[i].name = row.name;
            table[i].bytes = row.bytes;
            table[i].made += row.made;
            table[i].live += row.live;
            return;
        }
    }
    abort();
}

static void *counted(const char *name, void *block, int is_kept) {
    if (block == NULL) {
        abort();
    }
    count(rows, (struct row){name, malloc_usable_size(block), 1, is_kept != 0});
    memset(block, 1, 1);
    return block;
}

/* Each leaks or frees what it allocates. Not one tail call: they have to be on the stack. */
#define SITE __attribute__((noinline)) static void

SITE keep_small(void) { (void)*(volatile char *)counted(__func__, malloc(100), 1); }

SITE churn_small(void) {
    free(counted(__func__, malloc(100), 0));
    __asm__ volatile("");
}

/* In the function that calls it, which is the site: not a function, whose name would be listed. */
#define KEEP_EACH(nth, i, bytes)                                                                   \
    do {                                                                                           \
        void *block = counted(__func__, malloc(bytes), (i) % (nth) == 0);                          \
        if ((i) % (nth) != 0) {                                                                    \
            free(block);                                                                           \
        }                                                                                          \
        __asm__ volatile("");                                                                      \
    } while (0)

SITE keep_some(int i) { KEEP_EACH(4, i, 700); }

SITE churn_pages(void) {
    free(counted(__func__, malloc(6000), 0));
    __asm__ volatile("");
}

SITE zero_medium(void) {
    free(counted(__func__, calloc(10, 3000), 0));
    __asm__ volatile("");
}

SITE keep_large(int i) { KEEP_EACH(2, i, 2000000); }

static void *work(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        keep_small();
        churn_small();
        keep_some(i);
        if (i % 4 == 0) {
            churn_pages();
        }
        if (i % 20 == 0) {
            zero_medium();
        }
        if (i % (ROUNDS / LARGE_ROUNDS) == 0) {
            keep_large(i / (ROUNDS / LARGE_ROUNDS));
        }
    }
    pthread_mutex_lock(&totals_lock);
    for (size_t i = 0; i < ROWS && rows[i].name != NULL; i++) {
        count(totals, rows[i]);
    }
    pthread_mutex_unlock(&totals_lock);
    return NULL;
}

static void work_in_threads(void) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, NULL) != 0) {
            abort();
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

__attribute__((noinline)) static void keep_in_child(void) {
    (void)*(volatile char *)malloc(8000000);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "known";
    if (strcmp(mode, "threads") == 0) {
        work_in_threads();
    } else {
        work(NULL);
    }
    if (strcmp(mode, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            keep_in_child();
            return 0;
        }
        waitpid(child, NULL, 0);
    }
    if (strcmp(mode, "write") == 0) {
        if (poolshim_profile_write(argv[2]) != 0) {
            perror("poolshim_profile_write");
        }
    }
    for (size_t i = 0; i < ROWS && totals[i].name != NULL; i++) {
        printf("%s %zu %zu %zu\n", totals[i].name, totals[i].bytes, totals[i].made, totals[i].live);
    }
    fflush(stdout);
    if (strcmp(mode, "leave") == 0) {
        _exit(0);
    }
    return 0;
}
