// expect: exit 0
// lib: unwind_plugin_narrow.c unwind_plugin_wide.c unwind_compare.c
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * Libraries are opened and closed, at one address in turn, and call back into code that allocates;
 * meanwhile threads allocate at other places. tests/shim/test_unwind.py compares the stacks.
 */
#include "claim.h"
#include "unwind_plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 200
#define THREADS 3

static int is_over;

static void allocate(void) { free(malloc(200)); }

static int allocate_and_compare(const void *left, const void *right) {
    allocate();
    return *(const int *)left - *(const int *)right;
}

static void *sort_in_thread(void *argument) {
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        int numbers[] = {4, 2, 7, 1, 9, 3};
        qsort(numbers, 6, sizeof numbers[0], allocate_and_compare);
    }
    return argument;
}

static void *call_plugin(const char *name) {
    unwind_callback *callback = allocate;
    void (*plugin)(unwind_callback *);
    char path[4096];
    claim_library_path(path, sizeof path, name);
    void *library = dlopen(path, RTLD_NOW);
    CLAIM(library != NULL);
    void *symbol = dlsym(library, "unwind_plugin");
    CLAIM(symbol != NULL);
    memcpy(&plugin, &symbol, sizeof plugin);
    plugin(callback);
    CLAIM(dlclose(library) == 0);
    return symbol;
}

int main(void) {
    pthread_t threads[THREADS];
    int same = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, sort_in_thread, NULL);
    }
    for (int i = 0; i < ROUNDS; i++) {
        void *narrow = call_plugin("unwind_plugin_narrow");
        void *wide = call_plugin("unwind_plugin_wide");
        same += narrow == wide;
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%d of %d at one address\n", same, ROUNDS);
    return 0;
}
