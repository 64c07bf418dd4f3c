/* SPDX-License-Identifier: MIT */
/*
 * See language.h: strings of an interpreter as texts in UTF-8, as long as a line record takes.
 * No state, no locks.
 */
#include "shim/language.h"

#include "pools/engine/base/bits.h"

#include <string.h>

static const char dots[] = "\xe2\x80\xa6"; /* an ellipsis in UTF-8 */
#define DOTS_BYTES (sizeof dots - 1)
#define UNIT_UTF16 2

void ps_language_text_begin(struct ps_language_text *out) {
    out->bytes = out->buffer;
    out->length = 0;
    out->is_cut = false;
}

/* Appends a character. False when it, or the dots after it, would have no room. */
static bool append_character(struct ps_language_text *out, uint32_t character, size_t reserved) {
    static const unsigned char heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    bool is_none = character > 0x10ffff || (character >= 0xd800 && character < 0xe000);
    character = is_none ? '?' : character;
    size_t bytes = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    if (sizeof out->buffer - out->length < bytes + reserved) {
        return false;
    }
    for (size_t i = bytes - 1; i > 0; i--) {
        out->buffer[out->length + i] = (char)(0x80 | (character & 0x3f));
        character >>= 6;
    }
    out->buffer[out->length] = (char)(heads[bytes] | character);
    out->length += bytes;
    return true;
}

static void append_dots(struct ps_language_text *out) {
    memcpy(out->buffer + out->length, dots, DOTS_BYTES);
    out->length += DOTS_BYTES;
}

/* A unit of a view. */
static uint32_t unit_at(const char *view, size_t unit) {
    uint32_t value = 0; /* processors here have the low byte first */
    memcpy(&value, view, unit);
    return value;
}

/* Appends the characters of a view; two units of UTF-16 may be one. False: not all have room. */
static bool append_units(struct ps_language_text *out, const char *view, size_t length, size_t unit,
                         size_t reserved) {
    for (size_t i = 0; i < length; i++) {
        uint32_t character = unit_at(view + i * unit, unit);
        if (unit == UNIT_UTF16 && (character & 0xfc00) == 0xd800 && i + 1 < length) {
            uint32_t low = unit_at(view + (i + 1) * unit, unit);
            bool is_pair = (low & 0xfc00) == 0xdc00;
            character = is_pair ? 0x10000 + ((character & 0x3ff) << 10) + (low & 0x3ff) : character;
            i += is_pair ? 1 : 0;
        }
        if (!append_character(out, character, reserved)) {
            return false;
        }
    }
    return true;
}

bool ps_language_text_append(struct ps_language_text *out, const char *view, size_t length,
                             size_t unit) {
    if (!out->is_cut && !append_units(out, view, length, unit, DOTS_BYTES)) {
        append_dots(out);
        out->is_cut = true;
    }
    return !out->is_cut;
}

static bool is_ascii(const char *view, size_t length) {
    unsigned char all = 0;
    for (size_t i = 0; i < length; i++) {
        all |= (unsigned char)view[i];
    }
    return all < 0x80;
}

/* Views the part that has room when each character takes so many bytes; NULL: it cannot be read. */
static const char *view_part(struct ps_language_memory *memory,
                             const struct ps_language_characters *from, size_t per_character,
                             bool is_last_part, size_t *length) {
    size_t most = sizeof((struct ps_language_text *)0)->buffer / per_character;
    *length = from->length > most ? most - DOTS_BYTES : from->length;
    size_t skipped = is_last_part ? from->length - *length : 0;
    return ps_language_view(memory, from->start + skipped * from->unit, *length * from->unit);
}

bool ps_language_text_read(struct ps_language_memory *memory,
                           const struct ps_language_characters *from, bool is_last_part,
                           struct ps_language_text *out) {
    size_t length;
    size_t per_character = from->unit == 1 ? 1 : from->unit == UNIT_UTF16 ? 3 : 4;
    const char *view = view_part(memory, from, per_character, is_last_part, &length);
    bool is_plain = from->is_ascii || (view != NULL && from->unit == 1 && is_ascii(view, length));
    if (view != NULL && from->unit == 1 && !is_plain) {
        view = view_part(memory, from, 2, is_last_part, &length);
    }
    if (view == NULL) {
        return false;
    }
    ps_language_text_begin(out);
    out->is_cut = length < from->length;
    if (PS_LIKELY(is_plain && !out->is_cut)) {
        out->bytes = view;
        out->length = length;
        return true;
    }
    if (out->is_cut && is_last_part) {
        append_dots(out);
    }
    /* Characters that are said to be ASCII, and are not, may have no room. */
    bool has_end = out->is_cut && !is_last_part;
    (void)append_units(out, view, length, from->unit, has_end ? DOTS_BYTES : 0);
    if (has_end) {
        append_dots(out);
    }
    return true;
}
