/* SPDX-License-Identifier: MIT */
/*
 * See canary.h.
 */
#include "pools/common/canary.h"

#include "pools/common/poison.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No terminating zero, no small number, no text. */
#define FILL 0xb5
#define FRONT_LIVE 0xb5b5b5b5b5b5b5b5u
#define FRONT_FREED 0xbfbfbfbfbfbfbfbfu

static struct ps_canary *canary_of(const void *block) {
    return (struct ps_canary *)(uintptr_t)block - 1;
}

static uint64_t sum_of(const struct ps_canary *canary) {
    uint64_t sum = (uintptr_t)canary * PS_GOLDEN_64;
    sum = (sum ^ canary->lead) * PS_GOLDEN_64;
    sum = (sum ^ canary->bytes) * PS_GOLDEN_64;
    return (sum ^ canary->span) * PS_GOLDEN_64;
}

/* Between these two the library may read the record, without its block. */
static void open_record(const struct ps_canary *canary) {
    ps_unpoison_defined(canary, sizeof *canary);
}

static void close_record(const struct ps_canary *canary) { ps_poison(canary, sizeof *canary); }

bool ps_canary_need(size_t bytes, size_t align, size_t *need) {
    size_t more = PS_CANARY_COST + 15 + (align > 16 ? align : 0);
    if (__builtin_add_overflow(bytes, more, need) || *need > PTRDIFF_MAX || align > PTRDIFF_MAX) {
        return false;
    }
    *need = ps_round_down(*need, 16);
    return true;
}

char *ps_canary_end_for(char *block, size_t bytes) {
    uintptr_t end = ps_round_up((uintptr_t)block + bytes + PS_CANARY_TAIL, 16);
    return block + (end - (uintptr_t)block);
}

void *ps_canary_cut(char **top, const char *end, size_t bytes, size_t align) {
    uintptr_t start = ps_round_up((uintptr_t)*top, 16);
    uintptr_t block = ps_round_up(start + PS_CANARY_HEAD, ps_max(align, 16));
    uintptr_t last = block + PS_CANARY_TAIL;
    if (start > (uintptr_t)end || block < start || last < block || last > (uintptr_t)end ||
        bytes > (uintptr_t)end - last) {
        return NULL;
    }
    char *record = *top + (start - (uintptr_t)*top);
    char *result = record + (block - start);
    *top = ps_canary_end_for(result, bytes);
    ps_canary_write(record, result, bytes, *top);
    return result;
}

static void write_canary(struct ps_canary *canary, size_t lead, size_t bytes, size_t span) {
    canary->lead = lead;
    canary->bytes = bytes;
    canary->span = span;
    canary->sum = sum_of(canary);
}

void ps_canary_write(char *start, char *block, size_t bytes, char *end) {
    struct ps_canary *canary = canary_of(block);
    size_t lead = (size_t)(block - start);
    ps_unpoison(start, (size_t)(end - start));
    memcpy(start, &lead, sizeof lead);
    write_canary(canary, lead, bytes, (size_t)(end - start));
    canary->front[0] = FRONT_LIVE;
    canary->front[1] = FRONT_LIVE;
    ps_poison(start, lead);
    ps_canary_fill(block, bytes, end);
}

void ps_canary_fill(char *block, size_t bytes, const char *end) {
    size_t length = (size_t)(end - block) - bytes;
    ps_unpoison(block + bytes, length);
    memset(block + bytes, FILL, length);
    ps_poison(block + bytes, length);
}

void ps_canary_resize(void *block, size_t bytes, char *end) {
    struct ps_canary *canary = canary_of(block);
    open_record(canary);
    if (bytes > canary->bytes) {
        ps_unpoison((char *)block + canary->bytes, bytes - canary->bytes);
    }
    write_canary(canary, canary->lead, bytes, canary->lead + (size_t)(end - (char *)block));
    close_record(canary);
    ps_canary_fill(block, bytes, end);
}

bool ps_canary_is_block(const void *block) {
    if ((uintptr_t)block % 16 != 0) {
        return false;
    }
    const struct ps_canary *canary = canary_of(block);
    open_record(canary);
    bool is_block = canary->sum == sum_of(canary);
    close_record(canary);
    return is_block;
}

/* The record of a block, whose sum was right. */
static struct ps_canary read_record(const void *block) {
    const struct ps_canary *canary = canary_of(block);
    open_record(canary);
    struct ps_canary copy = *canary;
    close_record(canary);
    return copy;
}

size_t ps_canary_bytes(const void *block) { return read_record(block).bytes; }

char *ps_canary_start(void *block) { return (char *)block - read_record(block).lead; }

char *ps_canary_end(void *block) {
    struct ps_canary canary = read_record(block);
    return (char *)block - canary.lead + canary.span;
}

static void set_front(void *block, uint64_t front) {
    struct ps_canary *canary = canary_of(block);
    open_record(canary);
    canary->front[0] = front;
    canary->front[1] = front;
    close_record(canary);
}

void ps_canary_free(void *block) { set_front(block, FRONT_FREED); }

bool ps_canary_is_freed(const void *block) { return read_record(block).front[1] == FRONT_FREED; }

PS_NORETURN PS_COLD static void report(const char *what, const void *block, const char *bytes,
                                       struct ps_canary_pool pool) {
    char line[320];
    bool is_named = strcmp(pool.family, pool.name) != 0;
    int length = snprintf(line, sizeof line, "poolshim: write %s block %p%s, in %s%s%s%s\n", what,
                          block, bytes, pool.family, is_named ? " \"" : "",
                          is_named ? pool.name : "", is_named ? "\"" : "");
    ps_os_write(2, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
    abort();
}

/* first, last: of the bytes that have changed, from the block's start. */
PS_NORETURN PS_COLD static void report_bytes(const char *what, const void *block, size_t bytes,
                                             ptrdiff_t first, ptrdiff_t last,
                                             struct ps_canary_pool pool) {
    char text[96];
    if (first == last) {
        snprintf(text, sizeof text, " of %zu bytes, at byte %td", bytes, first);
    } else {
        snprintf(text, sizeof text, " of %zu bytes, from byte %td to byte %td", bytes, first, last);
    }
    report(what, block, text, pool);
}

void ps_canary_verify_tail(const char *block, size_t bytes, const char *end,
                           struct ps_canary_pool pool) {
    size_t length = (size_t)(end - block);
    size_t first = length;
    size_t last = 0;
    ps_unpoison_defined(block + bytes, length - bytes);
    for (size_t i = bytes; i < length; i++) {
        if ((unsigned char)block[i] != FILL) {
            first = ps_min(first, i);
            last = i;
        }
    }
    ps_poison(block + bytes, length - bytes);
    if (first < length) {
        report_bytes("behind the end of", block, bytes, (ptrdiff_t)first, (ptrdiff_t)last, pool);
    }
}

/* The bytes in front, from the nearest one on: of the canary, else of the record. */
static void verify_front(const struct ps_canary *copy, const char *block,
                         struct ps_canary_pool pool) {
    uint64_t front = copy->front[1] == FRONT_FREED ? FRONT_FREED : FRONT_LIVE;
    uint64_t right[2] = {front, front};
    ptrdiff_t nearest = 0;
    ptrdiff_t farthest = 0;
    for (ptrdiff_t i = 1; i <= (ptrdiff_t)sizeof right; i++) {
        size_t place = sizeof right - (size_t)i;
        if (((const unsigned char *)copy->front)[place] != ((const unsigned char *)right)[place]) {
            nearest = nearest == 0 ? -i : nearest;
            farthest = -i;
        }
    }
    if (nearest != 0) {
        report_bytes("in front of", block, copy->bytes, farthest, nearest, pool);
    }
}

/* copy: of a record whose sum is right. */
static void verify_whole(const struct ps_canary *copy, const char *block,
                         struct ps_canary_pool pool) {
    verify_front(copy, block, pool);
    ps_canary_verify_tail(block, copy->bytes, block - copy->lead + copy->span, pool);
}

void ps_canary_verify(const void *block, struct ps_canary_pool pool) {
    struct ps_canary copy = read_record(block);
    verify_whole(&copy, block, pool);
}

/* The block of the record that starts here. False: the record is overwritten, and the block is
 * where it usually is. */
static bool find_block(const char *start, const char *to, const char **block) {
    size_t lead;
    ps_unpoison_defined(start, sizeof lead);
    memcpy(&lead, start, sizeof lead);
    ps_poison(start, sizeof lead);
    bool is_inside = lead >= PS_CANARY_HEAD && lead % 16 == 0 && lead <= (size_t)(to - start);
    *block = start + (is_inside ? lead : PS_CANARY_HEAD);
    return is_inside && ps_canary_is_block(*block);
}

static const char *first_record(const char *from) {
    return from + (ps_round_up((uintptr_t)from, 16) - (uintptr_t)from);
}

const char *ps_canary_verify_at(const char *start, const char *to, struct ps_canary_pool pool) {
    const char *block;
    if (!find_block(start, to, &block)) {
        report("in front of", block, ", over its record", pool);
    }
    struct ps_canary copy = read_record(block);
    verify_whole(&copy, block, pool);
    return start + copy.span;
}

void ps_canary_verify_range(const char *from, const char *to, struct ps_canary_pool pool) {
    const char *start = first_record(from);
    while (start < to) { /* ends: each record is longer than nothing */
        start = ps_canary_verify_at(start, to, pool);
    }
}

bool ps_canary_is_between(const char *from, const char *place) {
    const char *start = first_record(from);
    const char *block;
    while (start < place && find_block(start, place, &block)) { /* ends: as above */
        start += read_record(block).span;
    }
    return start == place;
}
