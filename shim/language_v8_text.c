/* SPDX-License-Identifier: MIT */
/*
 * See language_v8.h: strings of V8, and names of functions. A string has its characters in one
 * piece, or is made of others: two that follow each other (cons), a part of one (sliced), or one
 * that is equal (thin). How many are visited is bounded. No state.
 */
#include "shim/language_v8.h"

#include "pools/engine/base/bits.h"

#define STRING_LIMIT 128 /* types from here on are no strings */
#define FORM_MASK 7
#define IS_ONE_BYTE 8
#define IS_UNCACHED 16 /* the characters of an external string have no fixed address */
#define VISITED_LIMIT 64
#define NESTED_LIMIT 16

enum form { IN_PLACE = 0, CONS = 1, EXTERNAL = 2, SLICED = 3, THIN = 5 };

static bool is_empty(struct ps_v8 *v8, uintptr_t word) {
    uint16_t type;
    uintptr_t object = ps_v8_open(v8, word, &type);
    uintptr_t length = object + ps_v8_offset(v8, PS_V8_TEXT_LENGTH);
    return object != 0 && type < STRING_LIMIT && ps_v8_int(v8, length) == 0;
}

/* The string that one is made of; 0: of none, or of two. */
static uintptr_t string_below(struct ps_v8 *v8, uintptr_t object, enum form form) {
    switch (form) {
    case THIN:
        return ps_v8_field(v8, object, PS_V8_TEXT_ACTUAL);
    case SLICED:
        return ps_v8_field(v8, object, PS_V8_TEXT_PARENT);
    case CONS:
        return is_empty(v8, ps_v8_field(v8, object, PS_V8_TEXT_SECOND))
                   ? ps_v8_field(v8, object, PS_V8_TEXT_FIRST)
                   : 0;
    default:
        return 0;
    }
}

bool ps_v8_characters(struct ps_v8 *v8, uintptr_t word, struct ps_language_characters *out) {
    size_t skipped = 0;
    *out = (struct ps_language_characters){.length = SIZE_MAX};
    for (size_t i = 0; i < NESTED_LIMIT; i++) {
        uint16_t type;
        uintptr_t object = ps_v8_open(v8, word, &type);
        if (object == 0 || type >= STRING_LIMIT) {
            return false;
        }
        size_t length = ps_v8_int(v8, object + ps_v8_offset(v8, PS_V8_TEXT_LENGTH));
        enum form form = (enum form)(type & FORM_MASK);
        out->length = ps_min(out->length, length);
        out->unit = (type & IS_ONE_BYTE) != 0 ? 1 : 2;
        if (form == IN_PLACE || (form == EXTERNAL && (type & IS_UNCACHED) == 0)) {
            out->start = form == IN_PLACE ? object + ps_v8_offset(v8, PS_V8_TEXT_CHARACTERS)
                                          : ps_v8_field(v8, object, PS_V8_TEXT_EXTERNAL);
            out->start += skipped * out->unit;
            return out->length != 0 && skipped < length && out->length <= length - skipped;
        }
        if (form == SLICED) {
            uintptr_t offset = ps_v8_field(v8, object, PS_V8_TEXT_OFFSET);
            skipped += ps_v8_is_number(offset) ? (uint32_t)ps_v8_number(offset) : length;
        }
        word = string_below(v8, object, form);
    }
    return false;
}

/* Appends a string that has its characters in one piece. False: there is no more room. */
static bool append(struct ps_v8 *v8, const struct ps_language_characters *from,
                   struct ps_language_text *out) {
    size_t length = ps_min(from->length, sizeof out->buffer + 1); /* one more than there is room */
    const char *view = ps_language_view(&v8->memory, from->start, length * from->unit);
    return view != NULL && ps_language_text_append(out, view, length, from->unit);
}

/* Reads a string that is made of several, whose first parts are enough. */
static void append_parts(struct ps_v8 *v8, uintptr_t word, struct ps_language_text *out) {
    uintptr_t next[NESTED_LIMIT] = {word};
    size_t count = 1;
    ps_language_text_begin(out);
    for (size_t i = 0; i < VISITED_LIMIT && count != 0; i++) {
        struct ps_language_characters part;
        word = next[--count];
        if (ps_v8_characters(v8, word, &part)) {
            if (!append(v8, &part, out)) {
                return;
            }
            continue;
        }
        uint16_t type;
        uintptr_t object = ps_v8_open(v8, word, &type);
        if (object != 0 && type < STRING_LIMIT && (type & FORM_MASK) == CONS &&
            count + 2 <= NESTED_LIMIT) {
            next[count++] = ps_v8_field(v8, object, PS_V8_TEXT_SECOND);
            next[count++] = ps_v8_field(v8, object, PS_V8_TEXT_FIRST);
        } else if (!is_empty(v8, word)) {
            out->length = 0;
            return;
        }
    }
}

bool ps_v8_text(struct ps_v8 *v8, uintptr_t word, struct ps_language_text *out, bool is_last_part) {
    struct ps_language_characters characters;
    if (ps_v8_characters(v8, word, &characters)) {
        return ps_language_text_read(&v8->memory, &characters, is_last_part, out);
    }
    append_parts(v8, word, out);
    return out->length != 0;
}

/* ---- names of functions ---- */

#define WORD_BYTES sizeof(uintptr_t)
#define LOCALS_INLINE 75 /* from here on their names are in a table, of one word */
#define HAS_CLASS_SHIFT 10
#define NAME_SHIFT 12 /* of two bits: 0: it has none */
#define HAS_INFERRED_SHIFT 14

/* A number in a word; 0: it is none. */
static uint32_t number_at(struct ps_v8 *v8, uintptr_t address) {
    uintptr_t word = ps_v8_word(v8, address);
    return ps_v8_is_number(word) ? (uint32_t)ps_v8_number(word) : 0;
}

/* The first word after those of the local variables. */
static uintptr_t end_of_locals(struct ps_v8 *v8, uintptr_t first) {
    size_t count = number_at(v8, first + ps_v8_offset(v8, PS_V8_SCOPE_COUNT) * WORD_BYTES);
    size_t names = count < LOCALS_INLINE ? count : 1;
    return first + (ps_v8_offset(v8, PS_V8_SCOPE_LOCALS) + names + count) * WORD_BYTES;
}

/* Reads a name, unless there is one. */
static void read_name(struct ps_v8 *v8, uintptr_t word, struct ps_v8_function *out) {
    if (out->name.length == 0 && !ps_v8_text(v8, word, &out->name, false)) {
        out->name.length = 0;
    }
}

/*
 * The words of a ScopeInfo are some numbers, first of all flags; the local variables; and, as the
 * flags say: the variable of a class, the function's name and a number, the name that is inferred
 * from where the function is assigned to. Up to 12.4 the positions in the source are after them.
 */
static void read_scope(struct ps_v8 *v8, uintptr_t scope, struct ps_v8_function *out) {
    uintptr_t first = scope + WORD_BYTES;
    uintptr_t word = ps_v8_word(v8, first);
    uint32_t flags = ps_v8_is_number(word) ? (uint32_t)ps_v8_number(word) : (uint32_t)word;
    uintptr_t at = end_of_locals(v8, first);
    at += (flags >> HAS_CLASS_SHIFT & 1) * WORD_BYTES;
    if ((flags >> NAME_SHIFT & 3) != 0) {
        read_name(v8, ps_v8_word(v8, at), out);
        at += 2 * WORD_BYTES;
    }
    if ((flags >> HAS_INFERRED_SHIFT & 1) != 0) {
        read_name(v8, ps_v8_word(v8, at), out);
        at += WORD_BYTES;
    }
    uint16_t place = ps_v8_offset(v8, PS_V8_SCOPE_POSITIONS);
    uintptr_t positions = place == PS_V8_NONE ? at : first + place * WORD_BYTES;
    uint32_t start = number_at(v8, positions);
    if (start < number_at(v8, positions + WORD_BYTES)) {
        out->position = (int32_t)start;
    }
}

void ps_v8_function_read(struct ps_v8 *v8, uintptr_t shared, struct ps_v8_function *out) {
    static const char nameless[] = "<anonymous>";
    uintptr_t word = ps_v8_field(v8, shared, PS_V8_SHARED_NAME);
    uintptr_t scope = ps_v8_object(v8, word, PS_V8_TYPE_SCOPE);
    out->position = PS_V8_NO_POSITION;
    out->name.length = 0;
    if (scope != 0) {
        read_scope(v8, scope, out);
    } else {
        read_name(v8, word, out);
    }
    if (out->name.length == 0) {
        out->name.bytes = nameless;
        out->name.length = sizeof nameless - 1;
    }
}
