/* SPDX-License-Identifier: MIT */
/* A library that uses the heap in its constructor and destructor and has a block in between. */
#include "../heap_use.h"

#include <unistd.h>

static unsigned char *made_early;
static int early_heap_works;

__attribute__((constructor(101))) static void use_heap_early(void) {
    early_heap_works = heap_use();
    made_early = (unsigned char *)malloc(3000);
    if (made_early != NULL) {
        heap_use_write(made_early, 3000, 9);
    }
}

__attribute__((destructor)) static void use_heap_late(void) {
    if (!heap_use() || made_early == NULL || !heap_use_holds(made_early, 3000, 9)) {
        _exit(3); /* a claim of the scenario that loaded this library */
    }
    free(made_early);
}

int early_user_answer(void) {
    return early_heap_works && made_early != NULL && heap_use_holds(made_early, 3000, 9);
}
