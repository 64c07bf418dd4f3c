// expect: exit 0
// lib: early_user.c
/* SPDX-License-Identifier: MIT */
/*
 * A library named before the allocator in LD_PRELOAD uses the heap in a constructor of priority
 * 101 and again in its destructor, where it frees what it made first.
 */
#include "heap_use.h"
#include "preload_order.h"

#include <dlfcn.h>

int main(int count, char **arguments) {
    (void)count;
    preload_order_restart(arguments, "early_user", PRELOAD_ORDER_BEFORE);
    int (*answer)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "early_user_answer");
    CLAIM(answer != NULL && answer() == 1);
    CLAIM(heap_use());
    return 0;
}
