/* SPDX-License-Identifier: MIT */
/*
 * See language_v8.h: lines of positions in a source. V8 has a table of the ends of lines once a
 * stack has been printed; else they are counted. State: the lines of positions that were counted,
 * and of every GRID characters of a source, from which others are counted. An entry is one word,
 * with a part of a hash of what identifies the position; a newer one replaces it.
 */
#include "shim/language_v8.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"

#include <string.h>

#define WORD_BYTES sizeof(uintptr_t)
#define COUNTED 2048
#define LINE_BITS 24 /* of an entry; the others are of the hash */
#define LINE_LIMIT (UINT64_C(1) << LINE_BITS)
#define GRID ((size_t)64 << 10)
#define LINE_SEPARATOR 0x2028 /* the paragraph separator is the next one */

static PS_SPARSE uint64_t x_counted[COUNTED];

/* ---- ends of lines ---- */

/* How many characters of a word are equal to one; `other` bits may be either. */
static unsigned count_equal(uint64_t word, uint16_t character, uint16_t other, size_t unit) {
    uint64_t each = unit == 1 ? UINT64_C(0x0101010101010101) : UINT64_C(0x0001000100010001);
    uint64_t low = unit == 1 ? each * 0x7f : each * 0x7fff;
    uint64_t unequal = (word ^ each * character) & ~(each * other);
    uint64_t differs = ((unequal & low) + low) | unequal; /* in the highest bit of each */
    return (unsigned)__builtin_popcountll(~(differs | low));
}

/* True if a word has no ends but line feeds. */
static bool is_simple(uint64_t word, size_t unit) {
    return count_equal(word, '\r', 0, unit) == 0 &&
           (unit == 1 || count_equal(word, LINE_SEPARATOR, 1, unit) == 0);
}

/* The ends of lines in a view: a return, a line feed that does not follow one, and two separators.
 * previous: the character before the view, afterwards its last one. */
static uint32_t count_ends(const char *view, size_t length, size_t unit, uint16_t *previous) {
    uint32_t count = 0;
    for (size_t at = 0; at < length;) {
        uint64_t word;
        if ((length - at) * unit >= sizeof word && *previous != '\r') {
            memcpy(&word, view + at * unit, sizeof word);
            if (PS_LIKELY(is_simple(word, unit))) {
                count += count_equal(word, '\n', 0, unit);
                at += sizeof word / unit;
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

/* ---- sources ---- */

struct source {
    struct ps_language_characters characters;
    uint64_t hash; /* with the number of the script, which differs from that of an earlier one */
};

static uint64_t *place_of(const struct source *source, size_t position, uint64_t *tag) {
    uint64_t hash = ps_mix_64(source->hash + position);
    *tag = hash / LINE_LIMIT * LINE_LIMIT;
    return &x_counted[hash % COUNTED];
}

/* The line of a position that was counted; 0: it was not, or the entry was replaced. */
static uint32_t find_counted(const struct source *source, size_t position) {
    uint64_t tag;
    const uint64_t *place = place_of(source, position, &tag);
    uint64_t line = ps_load_relaxed(place) - tag; /* relaxed: the word is all there is */
    return line < LINE_LIMIT ? (uint32_t)line : 0;
}

static void add_counted(const struct source *source, size_t position, uint32_t line) {
    uint64_t tag;
    uint64_t *place = place_of(source, position, &tag);
    if (line < LINE_LIMIT) {
        ps_store_relaxed(place, tag + line); /* relaxed: as above */
    }
}

/* Adds the ends from one position to another. False: they cannot be read, or this walk has read
 * enough. */
static bool count_lines(struct ps_v8 *v8, const struct source *source, size_t from, size_t to,
                        uint32_t *line) {
    size_t unit = source->characters.unit;
    uintptr_t at = source->characters.start + from * unit;
    uintptr_t end = source->characters.start + to * unit;
    uint16_t previous = 0;
    if (end - at > v8->source_bytes) {
        return false;
    }
    v8->source_bytes -= end - at;
    const char *before = from != 0 ? ps_language_view(&v8->memory, at - unit, unit) : NULL;
    if (before != NULL) {
        memcpy(&previous, before, unit);
    }
    while (at < end) { /* a page a round */
        size_t part = ps_min(end - at, PS_UNWIND_PAGE_BYTES - at % PS_UNWIND_PAGE_BYTES);
        const char *view = ps_language_view(&v8->memory, at, part);
        if (view == NULL) {
            return false;
        }
        *line += count_ends(view, part / unit, unit, &previous);
        at += part;
    }
    return true;
}

static bool open_source(struct ps_v8 *v8, uintptr_t script, struct source *out) {
    uintptr_t word = ps_v8_field(v8, script, PS_V8_SCRIPT_SOURCE);
    if (!ps_v8_characters(v8, word, &out->characters)) {
        return false;
    }
    uint64_t hash = ps_mix_64(out->characters.start ^ (uint64_t)out->characters.length << 40);
    out->hash = ps_mix_64(hash + ps_v8_field(v8, script, PS_V8_SCRIPT_ID));
    return true;
}

static uint32_t line_in_source(struct ps_v8 *v8, uintptr_t script, size_t position) {
    struct source source;
    if (!open_source(v8, script, &source) || position > source.characters.length) {
        return 0;
    }
    uint32_t line = find_counted(&source, position);
    size_t reached = position;
    while (line == 0) { /* down the grid, to the start */
        reached = reached == 0 ? 0 : (reached - 1) / GRID * GRID;
        line = reached == 0 ? 1 : find_counted(&source, reached);
    }
    while (reached < position) { /* up again */
        size_t next = ps_min(reached / GRID * GRID + GRID, position);
        if (!count_lines(v8, &source, reached, next, &line)) {
            return 0;
        }
        reached = next;
        add_counted(&source, reached, line);
    }
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
