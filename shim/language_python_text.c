/* SPDX-License-Identifier: MIT */
/*
 * See language_python.h: strings, and the tables by which code has lines. Each is read in parts,
 * and at most so much of it that a sample remains cheap.
 */
#include "shim/language_python.h"

#include "pools/engine/base/bits.h"

#include <string.h>

#define LINES_BYTES_LIMIT ((size_t)64 << 10) /* of a table that are read */
#define PART_BYTES 64
#define ENTRY_BYTES_LIMIT 32
#define CODE_UNIT 2
#define VERSION_PAIRS 10     /* 3.10: pairs of a length and a difference */
#define VERSION_LOCATIONS 11 /* from 3.11 on: locations */

/* ---- strings ---- */

static const char dots[] = "\xe2\x80\xa6"; /* an ellipsis in UTF-8 */

/* A string's state: size of a character, and whether its characters follow its head. */
struct text {
    uintptr_t start;
    size_t length; /* characters */
    size_t unit;   /* bytes of one */
    bool is_ascii;
};

static bool open_text(struct ps_python *python, uintptr_t object, struct text *out) {
    uint32_t state;
    unsigned shift = python->runtime->is_free_threaded ? 8 : 2;
    if (!ps_python_is(python, object, PS_PYTHON_TEXT) ||
        !ps_python_field(python, object, PS_PYTHON_TEXT_STATE, &state, sizeof state) ||
        !ps_python_field(python, object, PS_PYTHON_TEXT_LENGTH, &out->length, sizeof out->length)) {
        return false;
    }
    bool is_compact = (state >> (shift + 3) & 1) != 0;
    out->unit = state >> shift & 7;
    out->is_ascii = (state >> (shift + 4) & 1) != 0;
    out->start = object + ps_python_offset(python, PS_PYTHON_TEXT_ASCII);
    if (!out->is_ascii) { /* its UTF-8, which may be absent; before 3.12 a third length */
        bool has_third = python->runtime->version < 12;
        out->start += (has_third ? 3 : 2) * sizeof(uintptr_t);
    }
    return is_compact && (out->unit == 1 || out->unit == 2 || out->unit == 4) &&
           out->length < PTRDIFF_MAX / 4;
}

/* UTF-8 so far. */
struct output {
    char *bytes;
    size_t length;
    size_t limit;
};

/* Appends a character. False when it has no room. */
static bool append_character(struct output *out, uint32_t character) {
    bool is_none = character > 0x10ffff || (character >= 0xd800 && character < 0xe000);
    character = is_none ? '?' : character;
    size_t bytes = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    if (out->limit - out->length < bytes) {
        return false;
    }
    static const unsigned char heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = bytes - 1; i > 0; i--) {
        out->bytes[out->length + i] = (char)(0x80 | (character & 0x3f));
        character >>= 6;
    }
    out->bytes[out->length] = (char)(heads[bytes] | character);
    out->length += bytes;
    return true;
}

/* Appends the text. False when it cannot be read. */
static bool append(struct ps_python *python, const struct text *text, struct output *out) {
    uintptr_t at = text->start;
    if (text->is_ascii) {
        char *to = out->bytes + out->length;
        out->length += text->length;
        return text->length == 0 || ps_language_read(&python->memory, at, to, text->length);
    }
    for (size_t i = 0; i < text->length; i++, at += text->unit) {
        uint32_t character = 0; /* processors here have the low byte first */
        if (!ps_language_read(&python->memory, at, &character, text->unit)) {
            return false;
        }
        if (!append_character(out, character)) {
            break;
        }
    }
    return true;
}

static void append_dots(struct output *out) {
    memcpy(out->bytes + out->length, dots, sizeof dots - 1);
    out->length += sizeof dots - 1;
}

size_t ps_python_text(struct ps_python *python, uintptr_t object, char *out, size_t limit,
                      bool is_last_part) {
    struct text text;
    struct output output = {.bytes = out, .limit = limit};
    if (!open_text(python, object, &text)) {
        return 0;
    }
    size_t per_character = text.is_ascii ? 1 : text.unit == 1 ? 2 : text.unit == 2 ? 3 : 4;
    size_t most = limit / per_character;
    bool is_cut = text.length > most;
    if (is_cut) {
        most -= sizeof dots - 1;
        text.start += is_last_part ? (text.length - most) * text.unit : 0;
        text.length = most;
    }
    if (is_cut && is_last_part) {
        append_dots(&output);
    }
    if (!append(python, &text, &output)) {
        return 0;
    }
    if (is_cut && !is_last_part) {
        append_dots(&output);
    }
    return output.length;
}

/* ---- lines ---- */

/* A table, read in parts. */
struct table {
    struct ps_python *python;
    uintptr_t next; /* to read, up to `end` */
    uintptr_t end;
    size_t used; /* bytes of the part, of `count` */
    size_t count;
    unsigned char part[PART_BYTES];
};

/* The next byte; -1 after the last. */
static int next_byte(struct table *table) {
    if (table->used == table->count) {
        size_t bytes = ps_min(sizeof table->part, table->end - table->next);
        if (bytes == 0 ||
            !ps_language_read(&table->python->memory, table->next, table->part, bytes)) {
            return -1;
        }
        table->next += bytes;
        table->used = 0;
        table->count = bytes;
    }
    return table->part[table->used++];
}

static bool open_table(struct ps_python *python, uintptr_t code, struct table *out) {
    uintptr_t object;
    size_t length;
    if (!ps_python_field(python, code, PS_PYTHON_CODE_LINES, &object, sizeof object) ||
        !ps_python_is(python, object, PS_PYTHON_BYTES) ||
        !ps_python_field(python, object, PS_PYTHON_BYTES_LENGTH, &length, sizeof length) ||
        length > PTRDIFF_MAX) {
        return false;
    }
    out->python = python;
    out->next = object + ps_python_offset(python, PS_PYTHON_BYTES_START);
    out->end = out->next + ps_min(length, LINES_BYTES_LIMIT);
    out->used = out->count = 0;
    return true;
}

/* 3.9: how many bytes until the line changes, and by how much. */
static int64_t line_of_changes(struct table *table, intptr_t instruction, int64_t line) {
    for (intptr_t at = 0;;) { /* ends with the table */
        int bytes = next_byte(table);
        int change = next_byte(table);
        at += bytes;
        if (bytes < 0 || change < 0 || at > instruction) {
            return line;
        }
        line += (int8_t)change;
    }
}

/* 3.10: how many bytes have a line, and by how much it differs; -128: they have none. */
static int64_t line_of_pairs(struct table *table, intptr_t instruction, int64_t line) {
    for (intptr_t at = 0;;) { /* ends with the table */
        int bytes = next_byte(table);
        int change = next_byte(table);
        at += bytes;
        if (bytes < 0 || change < 0) {
            return line;
        }
        line += change == 0x80 ? 0 : (int8_t)change;
        if (at > instruction) {
            return line;
        }
    }
}

/* A number of six bits a byte, the lowest first; its lowest bit is the sign. */
static int64_t next_signed(struct table *table) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 36; shift += 6) {
        int byte = next_byte(table);
        value |= (uint64_t)(byte & 0x3f) << shift;
        if (byte < 0 || (byte & 0x40) == 0) {
            break;
        }
    }
    return (value & 1) != 0 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* The difference of an entry's line to the one before, by the kind in its first byte. */
static int64_t change_of(struct table *table, int head) {
    int kind = head >> 3 & 15;
    if (kind == 13 || kind == 14) {
        return next_signed(table);
    }
    return kind >= 10 && kind <= 12 ? kind - 10 : 0;
}

/* From 3.11 on: entries whose first byte, and no other, has the highest bit. */
static int64_t line_of_locations(struct table *table, intptr_t instruction, int64_t line) {
    int head = next_byte(table);
    for (intptr_t at = 0; head >= 0;) { /* ends with the table */
        at += ((head & 7) + 1) * CODE_UNIT;
        line += change_of(table, head);
        if (at > instruction) {
            return line;
        }
        do {
            head = next_byte(table);
        } while (head >= 0 && (head & 0x80) == 0);
    }
    return line;
}

uint32_t ps_python_line(struct ps_python *python, uintptr_t code, intptr_t instruction) {
    int32_t first;
    struct table table;
    if (!ps_python_field(python, code, PS_PYTHON_CODE_FIRST_LINE, &first, sizeof first) ||
        first < 0) {
        return 0;
    }
    if (instruction < 0 || !open_table(python, code, &table)) {
        return (uint32_t)first;
    }
    unsigned version = python->runtime->version;
    int64_t line = version >= VERSION_LOCATIONS ? line_of_locations(&table, instruction, first)
                   : version == VERSION_PAIRS   ? line_of_pairs(&table, instruction, first)
                                                : line_of_changes(&table, instruction, first);
    return line > 0 && line <= INT32_MAX ? (uint32_t)line : (uint32_t)first;
}
