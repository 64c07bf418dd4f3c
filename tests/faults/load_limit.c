/* SPDX-License-Identifier: MIT */
/*
 * Programs that leave free memory which their next blocks cannot use, for a limit of resident
 * memory (tests/shim/test_limit.py).
 *
 *     load_limit mapping|holes|fork GARBAGE_MIB LIVE_MIB   writes the highest RSS in MiB
 *     load_limit rounds LIVE_MIB ROUNDS                    writes the RSS of each round
 *
 * mapping: one freed block; holes: between live blocks, each too short for the next ones;
 * fork: as mapping, the rest in a child, which first enters the control group whose cgroup.procs
 * LOAD_LIMIT_GROUP names; rounds: blocks of another size in each, all freed after it, in four
 * threads that take turns.
 */
#include "blocks.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>

#define SMALL_BYTES 1000
#define HOLE_BYTES ((size_t)32 << 10)
#define HOLE_STAYS 8 /* one block in so many */
#define WIDE_BYTES ((size_t)400 << 10)
#define THREADS 4

struct blocks {
    unsigned char **all;
    size_t count;
    size_t bytes;
};

static size_t highest_rss;

static size_t rss_bytes(void) {
    unsigned long all_pages = 0;
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CLAIM(file != NULL);
    CLAIM(fscanf(file, "%lu %lu", &all_pages, &pages) == 2);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void note_rss(void) {
    size_t bytes = rss_bytes();
    highest_rss = bytes > highest_rss ? bytes : highest_rss;
}

static struct blocks make(size_t bytes, size_t total) {
    struct blocks made = {NULL, total / bytes, bytes};
    made.all = malloc(made.count * sizeof *made.all);
    CLAIM(made.all != NULL);
    for (size_t i = 0; i < made.count; i++) {
        made.all[i] = malloc(bytes);
        CLAIM(made.all[i] != NULL);
        memset(made.all[i], (int)(i + 1), bytes);
        if ((i * bytes) / MIB != ((i + 1) * bytes) / MIB) {
            note_rss();
        }
    }
    return made;
}

/* Frees all but every `stays`th; 0: all. */
static void drop(const struct blocks *made, size_t stays) {
    for (size_t i = 0; i < made->count; i++) {
        CLAIM(made->all[i][made->bytes - 1] == (unsigned char)(i + 1));
        if (stays == 0 || i % stays != 0) {
            free(made->all[i]);
        }
    }
    if (stays == 0) {
        free(made->all);
    }
}

static void use_after_mapping(size_t garbage, size_t live) {
    struct blocks big = make(garbage, garbage);
    drop(&big, 0);
    struct blocks small = make(SMALL_BYTES, live);
    drop(&small, 0);
}

static void use_after_holes(size_t garbage, size_t live) {
    size_t stays = garbage / (HOLE_STAYS - 1);
    struct blocks holes = make(HOLE_BYTES, garbage + stays);
    drop(&holes, HOLE_STAYS);
    struct blocks wide = make(WIDE_BYTES, live - stays);
    drop(&wide, 0);
}

/* Makes no call of malloc before the process is in the group. */
static void enter_group(const char *path) {
    int file = path != NULL ? open(path, O_WRONLY) : -1;
    CLAIM(path == NULL || (file >= 0 && write(file, "0", 1) == 1 && close(file) == 0));
}

static void use_in_child(size_t garbage, size_t live) {
    struct blocks big = make(garbage, garbage);
    drop(&big, 0);
    const char *path = getenv("LOAD_LIMIT_GROUP");
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        enter_group(path);
        struct blocks small = make(SMALL_BYTES, live);
        drop(&small, 0);
        printf("%zu\n", highest_rss / MIB);
        exit(0);
    }
    int status = 0;
    CLAIM(waitpid(child, &status, 0) == child);
    CLAIM(status == 0);
    exit(0);
}

/* ---- rounds ---- */

static size_t round_bytes;
static size_t round_total;
static pthread_barrier_t turn;

static void *take_turns(void *argument) {
    size_t own = (size_t)argument;
    for (size_t round = 0;; round++) {
        pthread_barrier_wait(&turn);
        if (round_bytes == 0) {
            return NULL;
        }
        if (round % THREADS == own) {
            struct blocks made = make(round_bytes, round_total);
            drop(&made, 0);
        }
        pthread_barrier_wait(&turn);
    }
}

static void use_in_rounds(size_t live, size_t rounds) {
    static const size_t sizes[] = {100, 300 << 10, 40000000, 5000, 40 << 10, 3 << 20, 1000};
    pthread_t threads[THREADS];
    CLAIM(pthread_barrier_init(&turn, NULL, THREADS + 1) == 0);
    for (size_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, take_turns, (void *)i) == 0);
    }
    for (size_t round = 0; round < rounds; round++) {
        highest_rss = 0;
        round_bytes = sizes[round % (sizeof sizes / sizeof sizes[0])];
        round_total = live;
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
        printf("%zu\n", highest_rss / MIB);
    }
    round_bytes = 0;
    pthread_barrier_wait(&turn);
    for (size_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
}

int main(int count, char **arguments) {
    CLAIM(count == 4);
    size_t first = strtoull(arguments[2], NULL, 10);
    size_t second = strtoull(arguments[3], NULL, 10);
    if (strcmp(arguments[1], "rounds") == 0) {
        use_in_rounds(first * MIB, second);
        return 0;
    }
    if (strcmp(arguments[1], "mapping") == 0) {
        use_after_mapping(first * MIB, second * MIB);
    } else if (strcmp(arguments[1], "fork") == 0) {
        use_in_child(first * MIB, second * MIB);
    } else {
        CLAIM(strcmp(arguments[1], "holes") == 0);
        use_after_holes(first * MIB, second * MIB);
    }
    printf("%zu\n", highest_rss / MIB);
    return 0;
}
