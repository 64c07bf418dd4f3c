// advise: pool
/* SPDX-License-Identifier: MIT */
/* Objects of one size, made and freed in no order. */
#include "tests/advice/advice.h"

#define COUNT 5000

struct object {
    uint64_t fields[6];
};

static struct object *objects[COUNT];

SITE struct object *make(void) {
    return filled(malloc(sizeof(struct object)), sizeof(struct object));
}

SITE void drop(struct object *object) { free(object); }

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (unsigned step = 0; step < 300000 * scale; step++) {
        size_t at = random_number() % COUNT;
        if (objects[at] != NULL) {
            drop(objects[at]);
            objects[at] = NULL;
        } else {
            objects[at] = make();
        }
    }
    return EXIT_SUCCESS;
}
