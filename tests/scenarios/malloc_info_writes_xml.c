// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * malloc_info writes one well-formed <malloc> element to the stream, returns 0, and its totals
 * grow with the heap; any option but 0 is EINVAL.
 */
#include "claim.h"

#include <malloc.h>

/* Checks that every tag that opens is closed in order; enough XML for this. */
static void check_well_formed(const char *text) {
    const char *open[32];
    size_t depth = 0;
    size_t elements = 0;
    for (const char *at = strchr(text, '<'); at != NULL; at = strchr(at + 1, '<')) {
        const char *end = strchr(at, '>');
        CLAIM(end != NULL);
        if (at[1] == '?' || at[1] == '!') {
            continue;
        }
        if (at[1] == '/') {
            CLAIM(depth > 0);
            depth--;
            size_t length = (size_t)(end - at) - 2;
            CLAIM(strncmp(open[depth], at + 2, length) == 0);
        } else if (end[-1] != '/') {
            CLAIM(depth < 32);
            open[depth++] = at + 1;
        }
        elements++;
    }
    CLAIM(depth == 0 && elements >= 2);
}

/* The largest size="…" of the document: the heap's total in every known layout. */
static unsigned long long largest_size(const char *text) {
    unsigned long long largest = 0;
    for (const char *at = strstr(text, "size=\""); at != NULL; at = strstr(at + 1, "size=\"")) {
        unsigned long long size = strtoull(at + 6, NULL, 10);
        largest = size > largest ? size : largest;
    }
    return largest;
}

static unsigned long long take(void) {
    static char text[1 << 20];
    FILE *stream = fmemopen(text, sizeof text - 1, "w");
    CLAIM(stream != NULL);
    CLAIM(malloc_info(0, stream) == 0);
    CLAIM(fclose(stream) == 0);
    CLAIM(strncmp(text, "<malloc version=\"", 17) == 0);
    CLAIM(strstr(text, "</malloc>") != NULL);
    check_well_formed(text);
    return largest_size(text);
}

int main(void) {
    unsigned long long before = take();
    static void *blocks[2000];
    for (int i = 0; i < 2000; i++) {
        blocks[i] = malloc(40000);
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 1, 40000);
    }
    unsigned long long after = take();
    CLAIM(after >= before + 2000ull * 40000 / 2);
    for (int i = 0; i < 2000; i++) {
        free(blocks[i]);
    }
    CLAIM(malloc_info(1, stdout) == EINVAL);
    return 0;
}
