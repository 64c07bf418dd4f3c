// verdict: fragmentation, load_record
/* SPDX-License-Identifier: MIT */
/* Blocks of one size are nearly all freed, in random order: the rest lies everywhere, and what lies
 * between is of no use to the sizes that the program has now. */
#include "tests/causes/cause.h"

#define RECORDS 60000
#define KEPT_OF 100

static void *records[RECORDS];

SITE void *load_record(void) {
    void *block = filled(malloc(1000), 1000);
    __asm__ volatile("");
    return block;
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (size_t i = 0; i < RECORDS; i++) {
        records[i] = load_record();
    }
    work_on(20);
    for (size_t i = 0; i < RECORDS; i++) {
        if (random_number() % KEPT_OF >= 4) {
            free(records[i]);
            records[i] = NULL;
        }
    }
    work_on(180);
    return 0;
}
