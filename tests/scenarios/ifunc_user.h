/* SPDX-License-Identifier: MIT */
/*
 * The claim of preloaded_ifunc_*.c: what lib/ifunc_user.c allocated in its IFUNC resolver is the
 * heap's, and the heap works.
 */
#ifndef PS_TESTS_SCENARIOS_IFUNC_USER_H
#define PS_TESTS_SCENARIOS_IFUNC_USER_H

#include "heap_use.h"
#include "preload_order.h"

#include <dlfcn.h>

/* Main's result. */
static int ifunc_user_served(char **arguments, int place) {
    preload_order_restart(arguments, "ifunc_user", place);
    int (*answer)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "ifunc_user_answer");
    void *(*take_block)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "ifunc_user_take_block");
    CLAIM(answer != NULL && take_block != NULL);
    CLAIM(answer() == 1);
    unsigned char *block = realloc(take_block(), 50000);
    CLAIM(block != NULL && block[0] == 7);
    free(block);
    CLAIM(heap_use());
    return 0;
}

#endif
