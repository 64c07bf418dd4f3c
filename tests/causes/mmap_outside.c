// verdict: mappings
/* SPDX-License-Identifier: MIT */
/* Memory that malloc knows nothing of. */
#include "tests/causes/cause.h"

#include <sys/mman.h>

#define PIECES 48

SITE void map_piece(void) {
    void *piece = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED) {
        abort();
    }
    filled(piece, MIB);
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (unsigned i = 0; i < PIECES; i++) {
        map_piece();
    }
    work_on(180);
    return 0;
}
