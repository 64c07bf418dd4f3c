/* SPDX-License-Identifier: MIT */
/*
 * Copies and formatted texts in a region. Callers: users. Formatting is the compiler's builtin,
 * which is libc's vsnprintf, so that this file needs no stdio and prints nothing.
 */
#include "pools/region/region.h"

PS_MALLOC static char *copy_text(struct ps_region *region, const char *text, size_t length) {
    char *copy = ps_region_alloc_unaligned(region, length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

char *ps_region_strdup(struct ps_region *region, const char *text) {
    return copy_text(region, text, strlen(text));
}

char *ps_region_strndup(struct ps_region *region, const char *text, size_t length_max) {
    return copy_text(region, text, strnlen(text, length_max));
}

void *ps_region_memdup(struct ps_region *region, const void *bytes, size_t count) {
    void *copy = ps_region_alloc(region, count);
    if (copy != NULL && count != 0) {
        memcpy(copy, bytes, count);
    }
    return copy;
}

/* Their lengths are read again for the copy: to remember them takes a bound on their number. */
char *ps_region_strcat(struct ps_region *region, const char *first, ...) {
    va_list arguments;
    size_t length = 0;
    va_start(arguments, first);
    for (const char *text = first; text != NULL; text = va_arg(arguments, const char *)) {
        length += strlen(text);
    }
    va_end(arguments);
    char *all = ps_region_alloc_unaligned(region, length + 1);
    if (all == NULL) {
        return NULL;
    }
    char *at = all;
    va_start(arguments, first);
    for (const char *text = first; text != NULL; text = va_arg(arguments, const char *)) {
        size_t bytes = strlen(text);
        memcpy(at, text, bytes);
        at += bytes;
    }
    va_end(arguments);
    *at = '\0';
    return all;
}

/* The tail of the current chunk, which has no owner. Nothing of it in watched regions, where a
 * block does not begin there. */
static size_t tail_bytes(const struct ps_region_state *region) {
    return region->is_watched ? 0 : (size_t)(region->chunk->end - region->hot.at);
}

char *ps_region_vprintf(struct ps_region *public, const char *format, va_list arguments) {
    struct ps_region_state *region = ps_region_state(public);
    ps_region_check_thread(region);
    char *tail = region->hot.at;
    size_t room = tail_bytes(region);
    va_list again;
    va_copy(again, arguments);
    int length = __builtin_vsnprintf(tail, room, format, again);
    va_end(again);
    if (length < 0) {
        return NULL;
    }
    /* When it fits into the tail, this is the tail, and the text is there. */
    size_t bytes = (size_t)length + 1;
    char *text = ps_region_alloc_unaligned(public, bytes);
    if (text != NULL && bytes > room) {
        __builtin_vsnprintf(text, bytes, format, arguments);
    }
    return text;
}

char *ps_region_printf(struct ps_region *region, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = ps_region_vprintf(region, format, arguments);
    va_end(arguments);
    return text;
}
