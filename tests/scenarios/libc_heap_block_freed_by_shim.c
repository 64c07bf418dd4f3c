// expect: SIGABRT "poolshim: free of foreign pointer"
/* SPDX-License-Identifier: MIT */
/* A block of libc's own heap, taken past the shim, is foreign to the shim's free. */
#include "claim.h"

#include <dlfcn.h>

int main(void) {
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    CLAIM(libc != NULL);
    void *(*libc_malloc)(size_t) = (void *(*)(size_t))dlsym(libc, "malloc");
    CLAIM(libc_malloc != NULL);
    if (libc_malloc == malloc) {
        claim_skip("nothing is preloaded");
    }
    free(claim_hide(libc_malloc(100)));
    return 0;
}
