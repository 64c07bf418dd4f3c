// expect: exit 0
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * The first library of LD_PRELOAD, loaded by dlopen into a program that runs on libc's heap,
 * serves through dlsym, in threads too, and is no burden when the program ends.
 */
#include "claim.h"

#include <dlfcn.h>
#include <pthread.h>

static void *(*their_malloc)(size_t size);
static void (*their_free)(void *block);

static void *use_in_thread(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < 20000; i++) {
        size_t size = i % 3000 + 1;
        unsigned char *block = their_malloc(size);
        CLAIM(block != NULL);
        block[0] = 1;
        block[size - 1] = 1;
        their_free(block);
    }
    return NULL;
}

int main(int count, char **arguments) {
    (void)count;
    const char *preload = getenv("LD_PRELOAD");
    if (preload != NULL) {
        char path[4096];
        snprintf(path, sizeof path, "%s", preload);
        path[strcspn(path, ": ")] = '\0';
        CLAIM(setenv("PS_SCENARIO_ALLOCATOR", path, 1) == 0);
        CLAIM(unsetenv("LD_PRELOAD") == 0);
        execv("/proc/self/exe", arguments);
        CLAIM(!"execv returned");
    }
    const char *path = getenv("PS_SCENARIO_ALLOCATOR");
    if (path == NULL) {
        claim_skip("no LD_PRELOAD to take the allocator from");
    }
    void *allocator = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CLAIM(allocator != NULL);
    their_malloc = (void *(*)(size_t))dlsym(allocator, "malloc");
    their_free = (void (*)(void *))dlsym(allocator, "free");
    CLAIM(their_malloc != NULL && their_free != NULL);
    CLAIM((void *)their_malloc != (void *)malloc);
    use_in_thread(NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        CLAIM(pthread_create(&threads[i], NULL, use_in_thread, NULL) == 0);
    }
    for (int i = 0; i < 4; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}
