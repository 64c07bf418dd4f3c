// expect: exit 0
// lib: ifunc_user.c
/* SPDX-License-Identifier: MIT */
/* A library named before the allocator in LD_PRELOAD uses the heap in its IFUNC resolver. */
#include "heap_use.h"
#include "preload_order.h"

#include <dlfcn.h>

int main(int count, char **arguments) {
    (void)count;
    preload_order_restart(arguments, "ifunc_user", PRELOAD_ORDER_BEFORE);
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
