/* SPDX-License-Identifier: MIT */
/*
 * memcpy and its relatives under libc's names, for this library alone. The compiler adds calls of
 * some of them, and a program may interpose libc's by a function that allocates, also in the middle
 * of an operation, under a lock. Blocks of the program are copied by libc: pools/engine/os/bytes.h.
 * No locks, no state.
 *
 * Assembler directives give the functions their names: in a function named memcpy, the compiler
 * would replace the loop by a call of memcpy. PS_OPAQUE prevents that, too.
 */
#include "pools/engine/os/bytes.h"

#include <stdbool.h>

#define NAMED(own, name) __asm__(".globl " #name "\n.hidden " #name "\n.set " #name ", " #own)
#define CALLED __attribute__((used, noinline))

NAMED(move, memcpy);
NAMED(move, memmove);
NAMED(fill, memset);
NAMED(compare, memcmp);
NAMED(compare, bcmp); /* of clang, where the order does not matter */
NAMED(find, memchr);
NAMED(length_of, strlen);
NAMED(length_within, strnlen);
NAMED(compare_text, strcmp);
NAMED(compare_start, strncmp);
NAMED(find_first, strchr);
NAMED(find_last, strrchr);
NAMED(find_text, strstr);
NAMED(length_without, strcspn);

static CALLED void *move(void *to, const void *from, size_t bytes) {
    return ps_bytes_move(to, from, bytes);
}

static CALLED void *fill(void *to, int byte, size_t bytes) {
    return ps_bytes_fill(to, byte, bytes);
}

static CALLED int compare(const void *a, const void *b, size_t bytes) {
    const unsigned char *left = a;
    const unsigned char *right = b;
    for (size_t i = 0; i < bytes; i++) {
        PS_OPAQUE(i);
        if (left[i] != right[i]) {
            return left[i] - right[i];
        }
    }
    return 0;
}

static CALLED void *find(const void *text, int byte, size_t bytes) {
    const unsigned char *at = text;
    for (; bytes != 0; bytes--, at++) {
        PS_OPAQUE(at);
        if (*at == (unsigned char)byte) {
            return (void *)at;
        }
    }
    return NULL;
}

static CALLED size_t length_of(const char *text) {
    const char *at = text;
    while (*at != '\0') { /* ends with the text, as those below */
        at++;
        PS_OPAQUE(at);
    }
    return (size_t)(at - text);
}

static CALLED size_t length_within(const char *text, size_t limit) {
    const char *end = find(text, '\0', limit);
    return end != NULL ? (size_t)(end - text) : limit;
}

static CALLED int compare_start(const char *a, const char *b, size_t limit) {
    for (size_t i = 0; i < limit; i++) {
        PS_OPAQUE(i);
        if (a[i] != b[i] || a[i] == '\0') {
            return (unsigned char)a[i] - (unsigned char)b[i];
        }
    }
    return 0;
}

static CALLED int compare_text(const char *a, const char *b) {
    return compare_start(a, b, SIZE_MAX);
}

static CALLED char *find_first(const char *text, int c) {
    for (;; text++) {
        PS_OPAQUE(text);
        if (*text == (char)c || *text == '\0') {
            return *text == (char)c ? (char *)text : NULL;
        }
    }
}

static CALLED char *find_last(const char *text, int c) {
    const char *found = NULL;
    for (;; text++) {
        PS_OPAQUE(text);
        found = *text == (char)c ? text : found;
        if (*text == '\0') {
            return (char *)found;
        }
    }
}

static CALLED char *find_text(const char *text, const char *searched) {
    size_t length = length_of(searched);
    for (;; text++) {
        if (compare_start(text, searched, length) == 0) {
            return (char *)text;
        }
        if (*text == '\0') {
            return NULL;
        }
    }
}

static CALLED size_t length_without(const char *text, const char *excluded) {
    size_t length = 0;
    while (text[length] != '\0' && find_first(excluded, text[length]) == NULL) {
        length++;
    }
    return length;
}
