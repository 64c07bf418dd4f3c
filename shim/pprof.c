/* SPDX-License-Identifier: MIT */
/*
 * See pprof.h. No locks.
 */
#include "shim/pprof.h"

#include <string.h>

enum {
    TYPE_TYPE = 1,
    TYPE_UNIT = 2,
    MAPPING_ID = 1,
    MAPPING_START = 2,
    MAPPING_LIMIT = 3,
    MAPPING_OFFSET = 4,
    MAPPING_FILE = 5,
    MAPPING_BUILD_ID = 6,
    LOCATION_ID = 1,
    LOCATION_MAPPING = 2,
    LOCATION_ADDRESS = 3,
    LOCATION_LINE = 4,
    LINE_FUNCTION = 1,
    LINE_NUMBER = 2,
    FUNCTION_ID = 1,
    FUNCTION_NAME = 2,
    FUNCTION_FILE = 4,
    LABEL_KEY = 1,
    LABEL_TEXT = 2,
};

/* ---- the wire format ---- */

size_t ps_pprof_put_varint(unsigned char *at, uint64_t value) {
    size_t length = 0;
    for (; value >= 0x80; value >>= 7) {
        at[length++] = (unsigned char)(value | 0x80);
    }
    at[length++] = (unsigned char)value;
    return length;
}

void ps_pprof_add_varint(struct ps_pprof_message *message, uint64_t value) {
    if (message->length + PS_PPROF_VARINT_BYTES <= sizeof message->bytes) {
        message->length += ps_pprof_put_varint(message->bytes + message->length, value);
    }
}

void ps_pprof_add_number(struct ps_pprof_message *message, unsigned field, uint64_t value) {
    ps_pprof_add_varint(message, field << 3);
    ps_pprof_add_varint(message, value);
}

void ps_pprof_add_head(struct ps_pprof_message *message, unsigned field, size_t bytes) {
    ps_pprof_add_varint(message, field << 3 | 2);
    ps_pprof_add_varint(message, bytes);
}

void ps_pprof_add_inner(struct ps_pprof_message *message, unsigned field,
                        const struct ps_pprof_message *inner) {
    ps_pprof_add_head(message, field, inner->length);
    if (sizeof message->bytes - message->length >= inner->length) {
        memcpy(message->bytes + message->length, inner->bytes, inner->length);
        message->length += inner->length;
    }
}

/* ---- whole messages ---- */

static void add_any(struct ps_pprof_message *message, unsigned field, uint64_t value) {
    if (value != 0) {
        ps_pprof_add_number(message, field, value);
    }
}

void ps_pprof_set_type(struct ps_pprof_message *message, uint64_t type, uint64_t unit) {
    message->length = 0;
    ps_pprof_add_number(message, TYPE_TYPE, type);
    ps_pprof_add_number(message, TYPE_UNIT, unit);
}

void ps_pprof_set_mapping(struct ps_pprof_message *message, uint64_t id,
                          const struct ps_mapping *mapping, uint64_t name, uint64_t build_id) {
    message->length = 0;
    ps_pprof_add_number(message, MAPPING_ID, id);
    ps_pprof_add_number(message, MAPPING_START, mapping->start);
    ps_pprof_add_number(message, MAPPING_LIMIT, mapping->limit);
    ps_pprof_add_number(message, MAPPING_OFFSET, mapping->file_offset);
    ps_pprof_add_number(message, MAPPING_FILE, name);
    ps_pprof_add_number(message, MAPPING_BUILD_ID, build_id);
}

void ps_pprof_set_function(struct ps_pprof_message *message, uint64_t id, uint64_t name,
                           uint64_t file) {
    message->length = 0;
    ps_pprof_add_number(message, FUNCTION_ID, id);
    ps_pprof_add_number(message, FUNCTION_NAME, name);
    add_any(message, FUNCTION_FILE, file);
}

void ps_pprof_set_address(struct ps_pprof_message *message, uint64_t id, uint64_t mapping,
                          uintptr_t address) {
    message->length = 0;
    ps_pprof_add_number(message, LOCATION_ID, id);
    add_any(message, LOCATION_MAPPING, mapping);
    ps_pprof_add_number(message, LOCATION_ADDRESS, address);
}

void ps_pprof_set_line(struct ps_pprof_message *message, uint64_t id, uint64_t line) {
    struct ps_pprof_message inner = {.length = 0};
    ps_pprof_add_number(&inner, LINE_FUNCTION, id);
    add_any(&inner, LINE_NUMBER, line);
    message->length = 0;
    ps_pprof_add_number(message, LOCATION_ID, id);
    ps_pprof_add_inner(message, LOCATION_LINE, &inner);
}

void ps_pprof_add_label(struct ps_pprof_message *sample, uint64_t key, uint64_t text) {
    struct ps_pprof_message label = {.length = 0};
    ps_pprof_add_number(&label, LABEL_KEY, key);
    ps_pprof_add_number(&label, LABEL_TEXT, text);
    ps_pprof_add_inner(sample, PS_PPROF_SAMPLE_LABEL, &label);
}

void ps_pprof_build_id(char out[PS_PPROF_BUILD_ID_BYTES], const struct ps_mapping *mapping) {
    for (size_t i = 0; i < mapping->build_id_bytes; i++) {
        *out++ = "0123456789abcdef"[mapping->build_id[i] >> 4];
        *out++ = "0123456789abcdef"[mapping->build_id[i] & 15];
    }
    *out = '\0';
}
