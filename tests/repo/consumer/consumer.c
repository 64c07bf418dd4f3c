/* SPDX-License-Identifier: MIT */
/* Linked with poolshim instead of preloading it: says which library malloc and free come from. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poolshim/poolshim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *library_of(const char *symbol) {
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, symbol);
    return address != NULL && dladdr(address, &info) != 0 ? info.dli_fname : "nothing";
}

int main(void) {
    char *block = malloc(100);
    if (block == NULL || !poolshim_is_active()) {
        return 1;
    }
    memset(block, 1, 100);
    printf("%s\n%s\n%s\n", library_of("malloc"), library_of("free"), poolshim_version());
    free(block);
    return strcmp(poolshim_version(), POOLSHIM_VERSION) == 0 ? 0 : 2;
}
