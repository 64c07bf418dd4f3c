/* SPDX-License-Identifier: MIT */
/*
 * A library whose IFUNC resolver uses the heap. Preloaded after an allocator it is relocated
 * before that allocator: the resolver then calls into a library that ld.so has not relocated yet.
 */
#include "../heap_use.h"

static unsigned char *made_by_resolver;
static int resolver_heap_works;

static int answer_body(void) {
    return resolver_heap_works && made_by_resolver != NULL &&
           heap_use_holds(made_by_resolver, 1000, 7);
}

__attribute__((used)) static int (*resolve_answer(void))(void) {
    resolver_heap_works = heap_use();
    made_by_resolver = (unsigned char *)malloc(1000);
    if (made_by_resolver != NULL) {
        heap_use_write(made_by_resolver, 1000, 7);
    }
    return answer_body;
}

/* Local, so that ld.so resolves it after all other relocations of this library, and eagerly. */
static int answer(void) __attribute__((ifunc("resolve_answer")));

int ifunc_user_answer(void) { return answer(); }

void *ifunc_user_take_block(void) { return made_by_resolver; }
