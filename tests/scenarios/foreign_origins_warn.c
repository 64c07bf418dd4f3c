// expect: exit 0
// env: POOLSHIM_FOREIGN=warn
// marks: fork
// libc: glibc
/* SPDX-License-Identifier: MIT */
/* With POOLSHIM_FOREIGN=warn every foreign pointer costs one exact line, and the heap works on. */
#include "foreign_origins.h"

int main(void) {
    char room[256];
    collect_origins(room);
    misuse_all(0, 1);
    return 0;
}
