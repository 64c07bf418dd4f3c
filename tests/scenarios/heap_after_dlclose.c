// expect: exit 0
// lib: early_user.c
// lib: keeps_blocks.c
/* SPDX-License-Identifier: MIT */
/*
 * Libraries come and go: their constructors and destructors use the heap, the program frees
 * their blocks after dlclose, which are still valid, a hundred times without growth.
 */
#include "claim.h"
#include "heap_use.h"

#include <dlfcn.h>
#include <malloc.h>

static void load_and_unload(void) {
    char path[4096];
    claim_library_path(path, sizeof path, "early_user");
    void *early = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CLAIM(early != NULL);
    int (*answer)(void) = (int (*)(void))dlsym(early, "early_user_answer");
    CLAIM(answer != NULL && answer() == 1);
    claim_library_path(path, sizeof path, "keeps_blocks");
    void *keeper = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    CLAIM(keeper != NULL);
    void *(*make)(size_t) = (void *(*)(size_t))dlsym(keeper, "keeps_blocks_make");
    CLAIM(make != NULL);
    unsigned char *blocks[200];
    for (unsigned i = 0; i < 200; i++) {
        blocks[i] = make(100 + i * 50);
        CLAIM(blocks[i] != NULL);
        heap_use_write(blocks[i], 100 + i * 50, (unsigned char)i);
    }
    CLAIM(dlclose(early) == 0);
    CLAIM(dlclose(keeper) == 0);
    for (unsigned i = 0; i < 200; i++) {
        CLAIM(heap_use_holds(blocks[i], 100 + i * 50, (unsigned char)i));
        free(blocks[i]);
    }
    CLAIM(heap_use());
}

/* Resident bytes after the rounds, without retained free memory, which depends on the clock. */
static size_t rss_after_rounds(int rounds) {
    for (int i = 0; i < rounds; i++) {
        load_and_unload();
    }
    malloc_trim(0);
    return claim_rss_bytes();
}

int main(void) {
    size_t before = rss_after_rounds(10);
    CLAIM(rss_after_rounds(100) < before + ((size_t)4 << 20));
    return 0;
}
