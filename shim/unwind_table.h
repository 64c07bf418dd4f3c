/* SPDX-License-Identifier: MIT */
/*
 * The parts of unwind tables: numbers, which are read within bounds, so that a read beyond the end
 * gives 0 and is remembered; entries of .eh_frame (unwind_table.c); their instructions, which build
 * the rule of an address (unwind_table_ops.c; DWARF 5, 6.4.2). Memory is the caller's. No state, no
 * locks.
 */
#ifndef PS_SHIM_UNWIND_TABLE_H
#define PS_SHIM_UNWIND_TABLE_H

#include "shim/unwind.h"

struct ps_unwind_reader {
    const unsigned char *at;
    const unsigned char *end;
    bool has_failed;
};

/* Encodings of numbers: a format, and what they are relative to. */
enum ps_unwind_encoding {
    PS_ENCODING_ABSOLUTE = 0x00,
    PS_ENCODING_ULEB128 = 0x01,
    PS_ENCODING_UDATA2 = 0x02,
    PS_ENCODING_UDATA4 = 0x03,
    PS_ENCODING_UDATA8 = 0x04,
    PS_ENCODING_SLEB128 = 0x09,
    PS_ENCODING_SDATA2 = 0x0a,
    PS_ENCODING_SDATA4 = 0x0b,
    PS_ENCODING_SDATA8 = 0x0c,
    PS_ENCODING_FORMAT = 0x0f,
    PS_ENCODING_PC_RELATIVE = 0x10,
    PS_ENCODING_DATA_RELATIVE = 0x30,
    PS_ENCODING_HOW = 0x70,
    PS_ENCODING_OMITTED = 0xff,
};

/* A number of 1 to 8 bytes. */
uint64_t ps_unwind_read_fixed(struct ps_unwind_reader *reader, size_t bytes);

/* Numbers of variable length. */
uint64_t ps_unwind_read_uleb(struct ps_unwind_reader *reader);
int64_t ps_unwind_read_sleb(struct ps_unwind_reader *reader);

/* A number as stored: relative to what it may be. */
uint64_t ps_unwind_read_number(struct ps_unwind_reader *reader, uint8_t encoding);

/* A pointer, absolute or relative to its own address. */
uintptr_t ps_unwind_read_pointer(struct ps_unwind_reader *reader, uint8_t encoding);

/* A reader of the next bytes; the given one continues after them. */
struct ps_unwind_reader ps_unwind_read_part(struct ps_unwind_reader *reader, uint64_t bytes);

/* Contents of an entry and its common part. */
struct ps_unwind_entry {
    uintptr_t begin;
    uintptr_t range;
    uint64_t code_unit;
    int64_t data_unit;
    uint64_t link_register; /* of the return address */
    uint8_t encoding;       /* of begin */
    bool has_size;          /* augmentation data is preceded by its size */
    bool is_signal;         /* the handler of a signal returns here */
    struct ps_unwind_reader common_ops;
    struct ps_unwind_reader ops;
};

/* The address of an object's tables: of the index, or of the entries if other data lies between
 * them. 0: not known. */
uintptr_t ps_unwind_table_begin(const struct ps_unwind_object *object);

/* The rule at an address of the entry's code; kind NONE when it needs more than a rule can say. */
void ps_unwind_table_run(const struct ps_unwind_entry *entry, uintptr_t address,
                         struct ps_unwind_rule *out);

#endif
