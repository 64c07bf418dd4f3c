/* SPDX-License-Identifier: MIT */
/* A library that makes blocks for its caller and has a thread-local pointer of its own. */
#include <stdlib.h>

static __thread void *last_made;

void *keeps_blocks_make(size_t size) {
    last_made = malloc(size);
    return last_made;
}
