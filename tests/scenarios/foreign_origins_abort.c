// expect: exit 0
// env: POOLSHIM_FOREIGN=abort
// marks: fork
// libc: glibc
/* SPDX-License-Identifier: MIT */
/* Whatever pointer is not ours, whatever call gets it: the exact line, then SIGABRT, no fault. */
#include "foreign_origins.h"

int main(void) {
    char room[256];
    collect_origins(room);
    misuse_all(SIGABRT, 1);
    return 0;
}
