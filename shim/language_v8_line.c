/* SPDX-License-Identifier: MIT */
/*
 * See language_v8.h: lines of positions in a source. V8 has a table of the ends of lines once a
 * stack has been printed; else they are counted. State: lines that were counted, by what identifies
 * the position, so that each is counted once. An entry is one word, and a wrong one is replaced by
 * the next.
 */
#include "shim/language_v8.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"

#include <string.h>

#define WORD_BYTES sizeof(uintptr_t)
#define COUNTED 1024
#define LINE_BITS 24 /* of an entry; the others are of the hash */
#define LINE_LIMIT (UINT64_C(1) << LINE_BITS)
#define LOW_BITS UINT64_C(0x7f7f7f7f7f7f7f7f)
#define EACH_BYTE UINT64_C(0x0101010101010101)
#define LINE_SEPARATOR 0x2028 /* the paragraph separator is the next one */

static PS_SPARSE uint64_t x_counted[COUNTED];

/* How many bytes of a word are equal to one. */
static unsigned count_byte(uint64_t word, unsigned char byte) {
    uint64_t other = word ^ EACH_BYTE * byte;
    uint64_t differs = ((other & LOW_BITS) + LOW_BITS) | other; /* in the highest bit of each */
    return (unsigned)__builtin_popcountll(~(differs | LOW_BITS));
}

/* The ends of lines in a view: a return, a line feed that does not follow one, and two separators.
 * previous: the character before the view, afterwards its last one. */
static uint32_t count_ends(const char *view, size_t length, size_t unit, uint16_t *previous) {
    uint32_t count = 0;
    for (size_t at = 0; at < length;) {
        uint64_t word;
        if (unit == 1 && length - at >= sizeof word && *previous != '\r') {
            memcpy(&word, view + at, sizeof word);
            if (PS_LIKELY(count_byte(word, '\r') == 0)) {
                count += count_byte(word, '\n');
                at += sizeof word;
                continue;
            }
        }
        uint16_t character = 0; /* processors here have the low byte first */
        memcpy(&character, view + at * unit, unit);
        bool is_end = character == '\r' || (character == '\n' && *previous != '\r') ||
                      (character | 1) == (LINE_SEPARATOR | 1);
        count += is_end ? 1 : 0;
        *previous = character;
        at++;
    }
    return count;
}

/* Counts up to a position. False: it cannot be read, or this walk has counted enough. */
static bool count_lines(struct ps_v8 *v8, const struct ps_language_characters *source,
                        size_t position, uint32_t *line) {
    uintptr_t at = source->start;
    uintptr_t end = at + position * source->unit;
    size_t bytes = position * source->unit;
    uint16_t previous = 0;
    *line = 1;
    if (bytes > v8->source_bytes) {
        return false;
    }
    v8->source_bytes -= bytes;
    while (at < end) { /* a page a round */
        size_t left = PS_UNWIND_PAGE_BYTES - at % PS_UNWIND_PAGE_BYTES;
        size_t part = ps_min(end - at, left);
        const char *view = ps_language_view(&v8->memory, at, part);
        if (view == NULL) {
            return false;
        }
        *line += count_ends(view, part / source->unit, source->unit, &previous);
        at += part;
    }
    return true;
}

/* By the source. The number of its script differs from that of an earlier one at the address. */
static uint32_t line_in_source(struct ps_v8 *v8, uintptr_t script, size_t position) {
    struct ps_language_characters source;
    uint32_t line;
    if (!ps_v8_characters(v8, ps_v8_field(v8, script, PS_V8_SCRIPT_SOURCE), &source) ||
        position > source.length) {
        return 0;
    }
    uint64_t hash = ps_mix_64(source.start ^ (uint64_t)source.length << 40);
    hash = ps_mix_64(hash + ps_v8_field(v8, script, PS_V8_SCRIPT_ID) + position);
    uint64_t *known = &x_counted[hash % COUNTED];
    uint64_t tag = hash / LINE_LIMIT * LINE_LIMIT;
    uint64_t entry = ps_load_relaxed(known); /* relaxed: the word is all there is */
    if (entry - tag - 1 < LINE_LIMIT - 1) {
        return (uint32_t)(entry - tag);
    }
    if (!count_lines(v8, &source, position, &line) || line >= LINE_LIMIT) {
        return 0;
    }
    ps_store_relaxed(known, tag + line); /* relaxed: as above */
    return line;
}

/* By the table, whose entries are the positions of the ends of lines. False: there is none. */
static bool line_in_table(struct ps_v8 *v8, uintptr_t script, int32_t position, uint32_t *line) {
    uintptr_t word = ps_v8_field(v8, script, PS_V8_SCRIPT_LINE_ENDS);
    uintptr_t table = ps_v8_object(v8, word, PS_V8_TYPE_ARRAY);
    uintptr_t length = table != 0 ? ps_v8_field(v8, table, PS_V8_ARRAY_LENGTH) : 0;
    int32_t first = 0; /* the answer is from here */
    int32_t last = ps_v8_is_number(length) ? ps_v8_number(length) : 0;
    if (last <= 0) {
        return false;
    }
    while (first < last) { /* half of the table a round */
        int32_t middle = first + (last - first) / 2;
        uintptr_t at = table + ps_v8_offset(v8, PS_V8_ARRAY_DATA) + (uintptr_t)middle * WORD_BYTES;
        if (ps_v8_number(ps_v8_word(v8, at)) < position) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    *line = (uint32_t)first + 1;
    return true;
}

uint32_t ps_v8_line(struct ps_v8 *v8, uintptr_t script, int32_t position) {
    uint32_t line;
    if (position < 0) {
        return 0;
    }
    if (!line_in_table(v8, script, position, &line)) {
        line = line_in_source(v8, script, (size_t)position);
    }
    uintptr_t before = ps_v8_field(v8, script, PS_V8_SCRIPT_FIRST_LINE);
    bool has_before = ps_v8_is_number(before) && ps_v8_number(before) > 0;
    return line != 0 && has_before ? line + (uint32_t)ps_v8_number(before) : line;
}
