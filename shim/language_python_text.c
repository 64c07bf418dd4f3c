/* SPDX-License-Identifier: MIT */
/*
 * See language_python.h: strings, and the tables by which code has lines. The part of a table that
 * is read is bounded, so that a sample remains cheap.
 */
#include "shim/language_python.h"

#include "pools/engine/base/bits.h"

#define LINES_BYTES_LIMIT ((size_t)64 << 10)
#define VERSION_THREE_LENGTHS 12 /* before it a string that is not ASCII has one more field */
#define VERSION_PAIRS 10         /* 3.10: pairs of a length and a difference */
#define VERSION_LOCATIONS 11     /* from 3.11 on: locations */

/* ---- strings ---- */

static bool open_text(struct ps_python *python, uintptr_t object,
                      struct ps_language_characters *out) {
    const struct ps_language_runtime *runtime = python->runtime;
    unsigned shift = runtime->is_free_threaded ? 8 : 2;
    const char *view =
        ps_python_object(python, object, runtime->offsets[PS_PYTHON_TEXT_ASCII], PS_PYTHON_TEXT);
    if (view == NULL) {
        return false;
    }
    uint32_t state = (uint32_t)ps_python_int(python, view, PS_PYTHON_TEXT_STATE) >> shift;
    bool is_compact = (state >> 3 & 1) != 0; /* the characters follow the head */
    out->length = ps_python_word(python, view, PS_PYTHON_TEXT_LENGTH);
    out->unit = state & 7;
    out->is_ascii = (state >> 4 & 1) != 0;
    out->start = object + runtime->offsets[PS_PYTHON_TEXT_ASCII];
    if (!out->is_ascii) {
        out->start += (runtime->version < VERSION_THREE_LENGTHS ? 3 : 2) * sizeof(uintptr_t);
    }
    return is_compact && (out->unit == 1 || out->unit == 2 || out->unit == 4) && out->length != 0 &&
           out->length < PTRDIFF_MAX / 4;
}

bool ps_python_text(struct ps_python *python, uintptr_t object, struct ps_language_text *out,
                    bool is_last_part) {
    struct ps_language_characters characters;
    return open_text(python, object, &characters) &&
           ps_language_text_read(&python->memory, &characters, is_last_part, out);
}

/* ---- lines ---- */

/* A table that can be read. */
struct table {
    const unsigned char *at;
    const unsigned char *end;
};

static bool open_table(struct ps_python *python, const char *code, struct table *out) {
    const uint16_t *offsets = python->runtime->offsets;
    uintptr_t object = ps_python_word(python, code, PS_PYTHON_CODE_LINES);
    const char *view =
        ps_python_object(python, object, offsets[PS_PYTHON_BYTES_START], PS_PYTHON_BYTES);
    if (view == NULL) {
        return false;
    }
    uintptr_t at = object + offsets[PS_PYTHON_BYTES_START];
    size_t length = ps_python_word(python, view, PS_PYTHON_BYTES_LENGTH);
    out->at = out->end = (const unsigned char *)at;
    for (size_t left = ps_min(length, LINES_BYTES_LIMIT); left != 0;) { /* ends: a part a round */
        size_t part = ps_min(left, PS_UNWIND_PAGE_BYTES - at % PS_UNWIND_PAGE_BYTES);
        if (ps_language_view(&python->memory, at, part) == NULL) {
            break;
        }
        out->end += part;
        at += part;
        left -= part;
    }
    return true;
}

/* 3.9: how many bytes until the line changes, and by how much. */
static int64_t line_of_changes(struct table table, intptr_t instruction, int64_t line) {
    intptr_t reached = 0;
    for (; table.end - table.at >= 2; table.at += 2) {
        reached += table.at[0];
        if (reached > instruction) {
            break;
        }
        line += (int8_t)table.at[1];
    }
    return line;
}

/* 3.10: how many bytes have a line, and by how much it differs; -128: they have none. */
static int64_t line_of_pairs(struct table table, intptr_t instruction, int64_t line) {
    intptr_t reached = 0;
    for (; table.end - table.at >= 2 && reached <= instruction; table.at += 2) {
        reached += table.at[0];
        line += table.at[1] == 0x80 ? 0 : (int8_t)table.at[1];
    }
    return line;
}

/* A number of six bits a byte, the lowest first; its lowest bit is the sign. */
static int64_t signed_at(const struct table *table) {
    const unsigned char *at = table->at;
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 36 && at < table->end; shift += 6) {
        value |= (uint64_t)(*at & 0x3f) << shift;
        if ((*at++ & 0x40) == 0) {
            break;
        }
    }
    return (value & 1) != 0 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* From 3.11 on: entries whose first byte, and no other, has the highest bit; it has a kind, and
 * how many instructions. Kinds 13 and 14 have the change of the line, 10 to 12 are it. */
static int64_t line_of_locations(struct table table, intptr_t instruction, int64_t line) {
    intptr_t reached = 0;
    while (table.at < table.end && reached <= instruction) {
        unsigned head = *table.at++;
        unsigned kind = head >> 3 & 15;
        reached += (intptr_t)((head & 7) + 1) * PS_PYTHON_CODE_UNIT;
        if (kind == 13 || kind == 14) {
            line += signed_at(&table);
        } else if (kind >= 10 && kind <= 12) {
            line += kind - 10;
        }
        while (table.at < table.end && (*table.at & 0x80) == 0) {
            table.at++;
        }
    }
    return line;
}

uint32_t ps_python_line(struct ps_python *python, const char *code, intptr_t instruction) {
    int32_t first = ps_python_int(python, code, PS_PYTHON_CODE_FIRST_LINE);
    struct table table;
    if (first < 0) {
        return 0;
    }
    if (instruction < 0 || !open_table(python, code, &table)) {
        return (uint32_t)first;
    }
    unsigned version = python->runtime->version;
    int64_t line = version >= VERSION_LOCATIONS ? line_of_locations(table, instruction, first)
                   : version == VERSION_PAIRS   ? line_of_pairs(table, instruction, first)
                                                : line_of_changes(table, instruction, first);
    return line > 0 && line <= INT32_MAX ? (uint32_t)line : (uint32_t)first;
}
