// expect: exit 0
// lib: keeps_blocks.c
// libc: glibc
/* SPDX-License-Identifier: MIT */
/* A dlmopen namespace has its own libc and heap beside ours; both work, neither disturbs. */
#include "claim.h"
#include "heap_use.h"

#include <dlfcn.h>

int main(void) {
    char path[4096];
    claim_library_path(path, sizeof path, "keeps_blocks");
    void *library = dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
    CLAIM(library != NULL);
    void *(*make)(size_t) = (void *(*)(size_t))dlsym(library, "keeps_blocks_make");
    void (*their_free)(void *) = (void (*)(void *))dlsym(library, "free");
    CLAIM(make != NULL && their_free != NULL);
    for (int round = 0; round < 200; round++) {
        unsigned char *theirs = make(2000);
        unsigned char *ours = malloc(2000);
        CLAIM(theirs != NULL && ours != NULL && theirs != ours);
        heap_use_write(theirs, 2000, 1);
        heap_use_write(ours, 2000, 2);
        CLAIM(heap_use());
        CLAIM(heap_use_holds(theirs, 2000, 1) && heap_use_holds(ours, 2000, 2));
        their_free(theirs);
        free(ours);
    }
    CLAIM(dlclose(library) == 0);
    CLAIM(heap_use());
    return 0;
}
