// expect: exit 0
// env: POOLSHIM_FOREIGN=ignore
// marks: fork
// libc: glibc
/* SPDX-License-Identifier: MIT */
/* With POOLSHIM_FOREIGN=ignore foreign pointers are passed over without a word or a fault. */
#include "foreign_origins.h"

int main(void) {
    char room[256];
    collect_origins(room);
    misuse_all(0, 0);
    return 0;
}
