// expect: exit 0
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * An IFUNC resolver of the executable uses the heap: ld.so runs it while it relocates, before any
 * constructor. The block made there lives on and is freed by main.
 */
#include "claim.h"
#include "heap_use.h"

static unsigned char *made_by_resolver;
static int resolver_heap_works;

static int answer_body(void) { return 42; }

__attribute__((used)) static int (*resolve_answer(void))(void) {
    resolver_heap_works = heap_use();
    made_by_resolver = malloc(1000);
    if (made_by_resolver != NULL) {
        heap_use_write(made_by_resolver, 1000, 7);
    }
    return answer_body;
}

int answer(void) __attribute__((ifunc("resolve_answer")));

int main(void) {
    CLAIM(answer() == 42);
    CLAIM(resolver_heap_works == 1);
    CLAIM(made_by_resolver != NULL && heap_use_holds(made_by_resolver, 1000, 7));
    made_by_resolver = realloc(made_by_resolver, 100000);
    CLAIM(made_by_resolver != NULL && made_by_resolver[0] == 7);
    free(made_by_resolver);
    CLAIM(heap_use());
    return 0;
}
