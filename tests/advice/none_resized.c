// advise: none
/* SPDX-License-Identifier: MIT */
/* Texts that grow as they are written: their blocks are resized. */
#include "tests/advice/advice.h"

#define COUNT 100

static char *texts[COUNT];
static size_t lengths[COUNT];

SITE void append(size_t at) {
    lengths[at] += random_between(8, 100);
    texts[at] = realloc(texts[at], lengths[at]);
    filled(texts[at], lengths[at]);
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (unsigned step = 0; step < 100000 * scale; step++) {
        size_t at = random_number() % COUNT;
        append(at);
        if (lengths[at] > 4000) {
            free(texts[at]);
            texts[at] = NULL;
            lengths[at] = 0;
        }
    }
    return EXIT_SUCCESS;
}
