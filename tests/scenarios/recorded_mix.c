// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Blocks of known sizes, live at a known moment: what tests/shim/test_recording.py expects in the
 * file of POOLSHIM_RECORD. Modes: known (the default), crowd, fork, leave (by _exit), hold (never
 * frees).
 *
 *   crowd: threads allocate, free each other's blocks, resize them and end; at the end the program
 *   prints how many blocks of each size it has, "size count" on each line.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 4000
#define LARGE_BYTES ((size_t)48 << 20)
#define THREADS 32
#define SLOTS 2048
#define STEPS 20000

static void *blocks[BLOCKS];
static size_t count;

static void keep(void *block) {
    if (block == NULL || count == BLOCKS) {
        abort();
    }
    blocks[count++] = block;
}

static void free_all(void) {
    while (count > 0) {
        free(blocks[--count]);
    }
}

/* 1000 of 24 bytes, 500 of 200, 3 of 5000, 10 of 40, 7 of 128, 1 of 3000, 1 of 30000, 2 of 136. */
static void make_known(void) {
    for (int i = 0; i < 1000; i++) {
        keep(malloc(24));
    }
    for (int i = 0; i < 500; i++) {
        keep(malloc(200));
    }
    for (int i = 0; i < 3; i++) {
        keep(malloc(5000));
    }
    for (int i = 0; i < 10; i++) {
        keep(calloc(4, 10));
    }
    for (int i = 0; i < 7; i++) {
        keep(memalign(64, 100));
    }
    keep(realloc(realloc(realloc(malloc(10), 1000), 50), 3000)); /* moves each time */
    keep(realloc(malloc(29000), 30000));
    keep(realloc(malloc(131), 136)); /* grows in place */
    keep(realloc(malloc(136), 131)); /* shrinks in place */
}

/* More than all before, so that the moment before this is freed is the peak. */
static void show(void) { free(malloc(LARGE_BYTES)); }

struct item {
    size_t bytes;
    char rest[];
};

static struct item *slots[SLOTS];

static size_t draw(unsigned *state) {
    *state = *state * 1103515245u + 12345u;
    return *state >> 8;
}

static struct item *make_item(struct item *old, unsigned *state) {
    size_t kind = draw(state) % 8;
    size_t bytes = sizeof(struct item) + draw(state) % (kind == 0 ? 40000 : kind < 3 ? 1500 : 200);
    struct item *item = realloc(old, bytes);
    if (item == NULL) {
        abort();
    }
    /* One that shrinks where it is counts as before. */
    item->bytes = item == old && old->bytes > bytes ? old->bytes : bytes;
    return item;
}

static void *live(void *seed) {
    unsigned state = (unsigned)(size_t)seed;
    for (int i = 0; i < STEPS; i++) {
        struct item **slot = &slots[draw(&state) % SLOTS];
        struct item *item = __atomic_exchange_n(slot, NULL, __ATOMIC_ACQ_REL);
        if (item != NULL && draw(&state) % 2 == 0) {
            free(item);
            continue;
        }
        item = make_item(item, &state);
        free(__atomic_exchange_n(slot, item, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

static void work_in_crowd(void) {
    pthread_t threads[THREADS];
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < THREADS; i++) {
            pthread_create(&threads[i], NULL, live, (void *)(round * THREADS + i + 1));
        }
        for (size_t i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    for (size_t i = 0; i < SLOTS; i++) {
        if (slots[i] != NULL) {
            printf("%zu\n", slots[i]->bytes);
        }
    }
    fflush(stdout);
}

static void fork_one(void) {
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 777; i++) {
            keep(malloc(300));
        }
        show();
        exit(0);
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) {
        abort();
    }
}

int main(int argument_count, char **arguments) {
    const char *mode = argument_count > 1 ? arguments[1] : "known";
    if (strcmp(mode, "crowd") == 0) {
        work_in_crowd();
        show();
        return 0;
    }
    make_known();
    if (strcmp(mode, "hold") == 0) {
        return 0;
    }
    show();
    if (strcmp(mode, "fork") == 0) {
        fork_one();
    }
    free_all();
    if (strcmp(mode, "leave") == 0) {
        _exit(0);
    }
    return 0;
}
