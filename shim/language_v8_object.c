/* SPDX-License-Identifier: MIT */
/*
 * See language_v8.h: objects of V8. Bit 0 of a word is set where the rest is the address of an
 * object, and bit 1 besides where that is weak. The first word of an object is such an address, of
 * its map, which has its type; while a collection moves it, it has another address there. No state.
 */
#include "shim/language_v8.h"

#include "pools/engine/base/bits.h"

#include <string.h>

#define OBJECT_TAG ((uintptr_t)1)
#define TAG_MASK ((uintptr_t)3)
#define WORD_BYTES sizeof(uintptr_t)
#define BYTES_LIMIT ((int32_t)64 << 10) /* of a table */

uintptr_t ps_v8_word(struct ps_v8 *v8, uintptr_t address) {
    uintptr_t word;
    ps_language_copy(&v8->memory, address, &word, sizeof word);
    return word;
}

uint32_t ps_v8_int(struct ps_v8 *v8, uintptr_t address) {
    uint32_t number;
    ps_language_copy(&v8->memory, address, &number, sizeof number);
    return number;
}

uintptr_t ps_v8_field(struct ps_v8 *v8, uintptr_t object, enum ps_v8_field field) {
    return ps_v8_word(v8, object + ps_v8_offset(v8, field));
}

uintptr_t ps_v8_open(struct ps_v8 *v8, uintptr_t word, uint16_t *type) {
    uintptr_t object = word & ~TAG_MASK;
    if ((word & OBJECT_TAG) == 0 || object % sizeof word != 0) {
        return 0;
    }
    uintptr_t map = ps_v8_word(v8, object);
    const char *view = NULL;
    if ((map & TAG_MASK) == OBJECT_TAG) {
        uintptr_t at = map - OBJECT_TAG + ps_v8_offset(v8, PS_V8_MAP_TYPE);
        view = ps_language_view(&v8->memory, at, sizeof *type);
    }
    if (view == NULL) {
        return 0;
    }
    memcpy(type, view, sizeof *type);
    return object;
}

uintptr_t ps_v8_object(struct ps_v8 *v8, uintptr_t word, enum ps_v8_field type) {
    uint16_t found;
    uintptr_t object = ps_v8_open(v8, word, &found);
    return object != 0 && found == ps_v8_offset(v8, type) ? object : 0;
}

bool ps_v8_bytes_open(struct ps_v8 *v8, uintptr_t word, struct ps_v8_bytes *out) {
    uint16_t type;
    uintptr_t object = ps_v8_open(v8, word, &type);
    if (object == 0 || (type != ps_v8_offset(v8, PS_V8_TYPE_BYTES) &&
                        type != ps_v8_offset(v8, PS_V8_TYPE_TRUSTED))) {
        return false;
    }
    uintptr_t length = ps_v8_field(v8, object, PS_V8_ARRAY_LENGTH);
    int32_t bytes = ps_v8_is_number(length) ? ps_v8_number(length) : 0;
    out->at = out->readable = object + ps_v8_offset(v8, PS_V8_ARRAY_DATA);
    out->end = out->at + (uintptr_t)(bytes < BYTES_LIMIT ? bytes : BYTES_LIMIT);
    return bytes > 0;
}

bool ps_v8_bytes_next(struct ps_v8 *v8, struct ps_v8_bytes *bytes, uint8_t *out) {
    if (PS_UNLIKELY(bytes->at >= bytes->readable)) {
        uintptr_t page_end = ps_round_down(bytes->at, PS_UNWIND_PAGE_BYTES) + PS_UNWIND_PAGE_BYTES;
        uintptr_t readable = ps_min(bytes->end, page_end);
        if (bytes->at >= bytes->end ||
            ps_language_view(&v8->memory, bytes->at, readable - bytes->at) == NULL) {
            return false;
        }
        bytes->readable = readable;
    }
    *out = *(const uint8_t *)bytes->at++;
    return true;
}

bool ps_v8_bytes_number_slow(struct ps_v8 *v8, struct ps_v8_bytes *bytes, uint64_t *out) {
    uint8_t byte = 0x80;
    *out = 0;
    for (unsigned shift = 0; shift < 64 && (byte & 0x80) != 0; shift += 7) {
        if (!ps_v8_bytes_next(v8, bytes, &byte)) {
            return false;
        }
        *out |= (uint64_t)(byte & 0x7f) << shift;
    }
    return true;
}

uintptr_t ps_v8_shared_at(struct ps_v8 *v8, uintptr_t address) {
    uintptr_t word = ps_v8_word(v8, address);
    uintptr_t wrapper = ps_v8_object(v8, word, PS_V8_TYPE_WRAPPER);
    if (wrapper != 0) {
        word = ps_v8_field(v8, wrapper, PS_V8_WRAPPER_SHARED);
    }
    return ps_v8_object(v8, word, PS_V8_TYPE_SHARED);
}

uintptr_t ps_v8_element(struct ps_v8 *v8, uintptr_t word, size_t index) {
    uint16_t type;
    uintptr_t array = ps_v8_open(v8, word, &type);
    uintptr_t length = array != 0 ? ps_v8_field(v8, array, PS_V8_ARRAY_LENGTH) : 0;
    bool has = ps_v8_is_number(length) && (int64_t)index < ps_v8_number(length);
    return has ? array + ps_v8_offset(v8, PS_V8_ARRAY_DATA) + index * WORD_BYTES : 0;
}

uintptr_t ps_v8_indexed(struct ps_v8 *v8, uintptr_t array, enum ps_v8_field index) {
    uintptr_t at = ps_v8_element(v8, array, ps_v8_offset(v8, index));
    return at != 0 ? ps_v8_word(v8, at) : 0;
}
