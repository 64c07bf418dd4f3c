// expect: exit 0
// lib: cxx_plugin.cpp
/* SPDX-License-Identifier: MIT */
/*
 * A C program loads a C++ plug-in with RTLD_LOCAL: libstdc++ is not in the global scope, yet new
 * throws bad_alloc and runs the new_handler as in any C++ program; loaded again, it does so again.
 */
#include "claim.h"

#include <dlfcn.h>

static void check_plugin(const char *path) {
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CLAIM(plugin != NULL);
    int (*uses_containers)(int) = (int (*)(int))dlsym(plugin, "plugin_uses_containers");
    int (*catches)(size_t) = (int (*)(size_t))dlsym(plugin, "plugin_catches_bad_alloc");
    int (*handler)(size_t) = (int (*)(size_t))dlsym(plugin, "plugin_counts_handler_calls");
    int (*nothrow)(size_t) = (int (*)(size_t))dlsym(plugin, "plugin_nothrow_is_null");
    int (*throws)(void) = (int (*)(void))dlsym(plugin, "plugin_throws_and_catches");
    CLAIM(uses_containers != NULL && catches != NULL && handler != NULL);
    CLAIM(nothrow != NULL && throws != NULL);
    CLAIM(uses_containers(10000) == 10000);
    CLAIM(throws() == 1);
    CLAIM(catches(PTRDIFF_MAX) == 1);
    CLAIM(catches(SIZE_MAX - 100) == 1);
    CLAIM(handler(PTRDIFF_MAX) == 2);
    CLAIM(nothrow(SIZE_MAX - 100) == 1);
    CLAIM(dlclose(plugin) == 0);
}

int main(void) {
    char path[4096];
    claim_library_path(path, sizeof path, "cxx_plugin");
    CLAIM(dlsym(RTLD_DEFAULT, "__cxa_throw") == NULL);
    check_plugin(path);
    check_plugin(path);
    return 0;
}
