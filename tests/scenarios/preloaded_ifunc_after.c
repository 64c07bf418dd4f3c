// expect: exit 0
// lib: ifunc_user.c
// libc: glibc
/* SPDX-License-Identifier: MIT */
/* A library named after the allocator in LD_PRELOAD uses the heap in its IFUNC resolver. */
#include "ifunc_user.h"

int main(int count, char **arguments) {
    (void)count;
    return ifunc_user_served(arguments, PRELOAD_ORDER_AFTER);
}
