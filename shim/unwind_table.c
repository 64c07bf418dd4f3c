/* SPDX-License-Identifier: MIT */
/*
 * See unwind.h: finds the rule of an address in .eh_frame, which .eh_frame_hdr indexes (Linux
 * Standard Base, "Exception Frames"). Reads what these name: they are the linker's. No state, no
 * locks.
 */
#include "shim/unwind_table.h"

#include <string.h>

#define ENTRY_BYTES_LIMIT ((size_t)1 << 20)
#define INDEX_HEAD_LIMIT 20  /* 4 encodings and 2 numbers */
#define ENTRIES_GAP_LIMIT 16 /* bytes after the index, by the alignment of .eh_frame */
#define ROWS_LIMIT ((uint64_t)1 << 28)

/* ---- reading ---- */

uint64_t ps_unwind_read_fixed(struct ps_unwind_reader *reader, size_t bytes) {
    uint64_t value = 0;
    if (reader->has_failed || (size_t)(reader->end - reader->at) < bytes) {
        reader->has_failed = true;
        return 0;
    }
    memcpy(&value, reader->at, bytes); /* both processors are little-endian */
    reader->at += bytes;
    return value;
}

static int64_t read_signed(struct ps_unwind_reader *reader, size_t bytes) {
    unsigned unused = 64 - 8 * (unsigned)bytes;
    return (int64_t)(ps_unwind_read_fixed(reader, bytes) << unused) >> unused;
}

/* Bits of a number, and how many. */
static uint64_t read_leb128(struct ps_unwind_reader *reader, unsigned *bits) {
    uint64_t value = 0;
    uint64_t byte;
    *bits = 0;
    do { /* ends with the reader */
        byte = ps_unwind_read_fixed(reader, 1);
        value |= *bits < 64 ? (byte & 0x7f) << *bits : 0;
        *bits += 7;
    } while ((byte & 0x80) != 0);
    return value;
}

uint64_t ps_unwind_read_uleb(struct ps_unwind_reader *reader) {
    unsigned bits;
    return read_leb128(reader, &bits);
}

int64_t ps_unwind_read_sleb(struct ps_unwind_reader *reader) {
    unsigned bits;
    uint64_t value = read_leb128(reader, &bits);
    bool is_negative = bits < 64 && (value >> (bits - 1) & 1) != 0;
    return (int64_t)(is_negative ? value | ~(uint64_t)0 << bits : value);
}

uint64_t ps_unwind_read_number(struct ps_unwind_reader *reader, uint8_t encoding) {
    switch (encoding & PS_ENCODING_FORMAT) {
    case PS_ENCODING_ULEB128:
        return ps_unwind_read_uleb(reader);
    case PS_ENCODING_SLEB128:
        return (uint64_t)ps_unwind_read_sleb(reader);
    case PS_ENCODING_UDATA2:
        return ps_unwind_read_fixed(reader, 2);
    case PS_ENCODING_UDATA4:
        return ps_unwind_read_fixed(reader, 4);
    case PS_ENCODING_SDATA2:
        return (uint64_t)read_signed(reader, 2);
    case PS_ENCODING_SDATA4:
        return (uint64_t)read_signed(reader, 4);
    case PS_ENCODING_ABSOLUTE:
    case PS_ENCODING_UDATA8:
    case PS_ENCODING_SDATA8:
        return ps_unwind_read_fixed(reader, 8);
    default:
        reader->has_failed = true;
        return 0;
    }
}

uintptr_t ps_unwind_read_pointer(struct ps_unwind_reader *reader, uint8_t encoding) {
    uintptr_t here = (uintptr_t)reader->at;
    uintptr_t value = ps_unwind_read_number(reader, encoding);
    if ((encoding & PS_ENCODING_HOW) == PS_ENCODING_PC_RELATIVE) {
        return value + here;
    }
    reader->has_failed |= (encoding & ~PS_ENCODING_FORMAT) != 0;
    return value;
}

struct ps_unwind_reader ps_unwind_read_part(struct ps_unwind_reader *reader, uint64_t bytes) {
    struct ps_unwind_reader part = *reader;
    if (reader->has_failed || bytes > (uint64_t)(reader->end - reader->at)) {
        reader->has_failed = part.has_failed = true;
        return part;
    }
    reader->at += bytes;
    part.end = reader->at;
    return part;
}

/* ---- entries ---- */

/* The reader of an entry's contents, which are preceded by their length. */
static struct ps_unwind_reader open_entry(uintptr_t address) {
    struct ps_unwind_reader reader = {.at = (const unsigned char *)address};
    reader.end = reader.at + ENTRY_BYTES_LIMIT;
    return ps_unwind_read_part(&reader, ps_unwind_read_fixed(&reader, 4));
}

static bool read_augmentation(struct ps_unwind_reader *reader, const char *letters,
                              struct ps_unwind_entry *out) {
    if (letters[0] == '\0') {
        return true;
    }
    if (letters[0] != 'z') {
        return false;
    }
    out->has_size = true;
    struct ps_unwind_reader data = ps_unwind_read_part(reader, ps_unwind_read_uleb(reader));
    for (const char *letter = letters + 1; *letter != '\0'; letter++) {
        uint8_t encoding;
        switch (*letter) {
        case 'L':
            (void)ps_unwind_read_fixed(&data, 1);
            break;
        case 'P':
            encoding = (uint8_t)ps_unwind_read_fixed(&data, 1);
            (void)ps_unwind_read_number(&data, encoding);
            break;
        case 'R':
            out->encoding = (uint8_t)ps_unwind_read_fixed(&data, 1);
            break;
        case 'S':
            out->is_signal = true;
            break;
        case 'B': /* return addresses are signed by the other key */
            break;
        default:
            return false;
        }
    }
    return !data.has_failed;
}

static bool read_common(uintptr_t address, struct ps_unwind_entry *out) {
    struct ps_unwind_reader reader = open_entry(address);
    uint64_t id = ps_unwind_read_fixed(&reader, 4);
    uint64_t version = ps_unwind_read_fixed(&reader, 1);
    const char *letters = (const char *)reader.at;
    while (ps_unwind_read_fixed(&reader, 1) != 0 && !reader.has_failed) { /* ends with the reader */
    }
    if (reader.has_failed || id != 0 || (version != 1 && version != 3)) {
        return false;
    }
    out->code_unit = ps_unwind_read_uleb(&reader);
    out->data_unit = ps_unwind_read_sleb(&reader);
    out->link_register =
        version == 1 ? ps_unwind_read_fixed(&reader, 1) : ps_unwind_read_uleb(&reader);
    if (!read_augmentation(&reader, letters, out)) {
        return false;
    }
    out->common_ops = reader;
    return !reader.has_failed;
}

static bool read_entry(uintptr_t address, struct ps_unwind_entry *out) {
    struct ps_unwind_reader reader = open_entry(address);
    uintptr_t here = (uintptr_t)reader.at;
    uint64_t distance = ps_unwind_read_fixed(&reader, 4);
    *out = (struct ps_unwind_entry){.encoding = PS_ENCODING_ABSOLUTE};
    if (reader.has_failed || distance == 0 || !read_common(here - distance, out)) {
        return false;
    }
    out->begin = ps_unwind_read_pointer(&reader, out->encoding);
    out->range = ps_unwind_read_number(&reader, out->encoding);
    if (out->has_size) {
        (void)ps_unwind_read_part(&reader, ps_unwind_read_uleb(&reader));
    }
    out->ops = reader;
    return !reader.has_failed;
}

/* An index: rows of code and entry, from its own address. */
struct index {
    const int32_t *rows;
    size_t count;
    uintptr_t entries; /* .eh_frame; 0: not told */
};

static bool open_index(const unsigned char *index, struct index *out) {
    struct ps_unwind_reader reader = {.at = index, .end = index + INDEX_HEAD_LIMIT};
    bool is_known = ps_unwind_read_fixed(&reader, 1) == 1;
    uint8_t table_encoding = (uint8_t)ps_unwind_read_fixed(&reader, 1);
    uint8_t count_encoding = (uint8_t)ps_unwind_read_fixed(&reader, 1);
    is_known &=
        ps_unwind_read_fixed(&reader, 1) == (PS_ENCODING_DATA_RELATIVE | PS_ENCODING_SDATA4);
    if (reader.has_failed || !is_known || count_encoding == PS_ENCODING_OMITTED) {
        return false;
    }
    bool is_told = (table_encoding & PS_ENCODING_HOW) == PS_ENCODING_PC_RELATIVE;
    uintptr_t here = (uintptr_t)reader.at;
    uintptr_t distance = ps_unwind_read_number(&reader, table_encoding);
    out->entries = is_told ? here + distance : 0;
    uint64_t count = ps_unwind_read_number(&reader, count_encoding);
    out->rows = (const int32_t *)reader.at;
    out->count = count;
    return !reader.has_failed && count != 0 && count <= ROWS_LIMIT;
}

uintptr_t ps_unwind_table_begin(const struct ps_unwind_object *object) {
    struct index index;
    if (object->index == NULL || !open_index(object->index, &index)) {
        return 0;
    }
    uintptr_t end = (uintptr_t)(index.rows + 2 * index.count);
    bool is_next = index.entries - end < ENTRIES_GAP_LIMIT;
    return is_next ? (uintptr_t)object->index : index.entries;
}

/* The address of the entry that may cover a code address; 0: there is none. */
static uintptr_t search_index(const unsigned char *index, uintptr_t address) {
    struct index found;
    if (!open_index(index, &found)) {
        return 0;
    }
    const int32_t *rows = found.rows;
    int64_t wanted = (int64_t)(address - (uintptr_t)index);
    size_t low = 0;
    size_t high = found.count;
    while (high - low > 1) { /* halves */
        size_t middle = low + (high - low) / 2;
        if (rows[2 * middle] <= wanted) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return rows[2 * low] <= wanted ? (uintptr_t)index + (uintptr_t)(intptr_t)rows[2 * low + 1] : 0;
}

void ps_unwind_table_find(const struct ps_unwind_object *object, uintptr_t address,
                          struct ps_unwind_rule *out) {
    struct ps_unwind_entry entry;
    *out = (struct ps_unwind_rule){.kind = PS_UNWIND_NONE};
    if (object->index == NULL) {
        return;
    }
    uintptr_t found = search_index(object->index, address);
    if (found != 0 && read_entry(found, &entry) && address - entry.begin < entry.range) {
        ps_unwind_table_run(&entry, address, out);
    }
}
