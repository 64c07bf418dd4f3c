/* SPDX-License-Identifier: MIT */
/*
 * Reading V8's objects in a process of node: fields, texts, and the functions that a frame of
 * generated code runs. An object is read after its type was compared, since a collection that
 * calls malloc may be moving it. Callers: shim/language_v8*.c. No locks.
 */
#ifndef PS_SHIM_LANGUAGE_V8_H
#define PS_SHIM_LANGUAGE_V8_H

#include "shim/language.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ps_v8_field {
#define PS_V8(field, v10, v11, v12, v13, symbol) PS_V8_##field,
#include "shim/language_v8.def"
#undef PS_V8
    PS_V8_FIELDS
};

#define PS_V8_NONE UINT16_MAX
#define PS_V8_NO_POSITION (-1)
#define PS_V8_SITES 16
#define PS_V8_INLINED 16 /* functions in one frame */

/* In ps_language_runtime.calls: V8's table of the lengths of instructions, NULL where it is not
 * exported, and of how many; for each of three lengths of operands. */
enum ps_v8_call { PS_V8_SIZES, PS_V8_SIZES_COUNT };

/* A place in a function. */
struct ps_v8_place {
    uintptr_t shared; /* the SharedFunctionInfo, what all closures of a function have in common */
    int32_t position; /* in the source, in characters; or PS_V8_NO_POSITION */
};

/* A site that was found in this walk: a recursion has many frames of few. */
struct ps_v8_site {
    struct ps_v8_place place;
    uintptr_t site;
};

/* A walk over the frames of a thread. */
struct ps_v8 {
    struct ps_language_runtime *runtime;
    struct ps_language_memory memory;
    size_t source_bytes;                  /* that may still be searched for lines */
    struct ps_v8_site sites[PS_V8_SITES]; /* hashed */
};

static inline uint16_t ps_v8_offset(const struct ps_v8 *v8, enum ps_v8_field field) {
    return v8->runtime->offsets[field];
}

/* ---- objects: language_v8_object.c ---- */

/* The word at an address, or 4 bytes of it; 0 where it cannot be read. */
uintptr_t ps_v8_word(struct ps_v8 *v8, uintptr_t address);
uint32_t ps_v8_int(struct ps_v8 *v8, uintptr_t address);

/* A field of an object. */
uintptr_t ps_v8_field(struct ps_v8 *v8, uintptr_t object, enum ps_v8_field field);

/* The address of the object that a tagged word has, and its type; 0: it has none. */
uintptr_t ps_v8_open(struct ps_v8 *v8, uintptr_t word, uint16_t *type);

/* The address of an object of a type; 0: it is none. */
uintptr_t ps_v8_object(struct ps_v8 *v8, uintptr_t word, enum ps_v8_field type);

/* A small integer is in the upper half of a word. */
static inline bool ps_v8_is_number(uintptr_t word) { return (uint32_t)word == 0; }
static inline int32_t ps_v8_number(uintptr_t word) { return (int32_t)(word >> 32); }

/* Bytes that are read one by one; a page is asked for when they reach it. */
struct ps_v8_bytes {
    uintptr_t at;
    uintptr_t end;
    uintptr_t readable; /* up to here */
};

/* The bytes of a ByteArray. False: it is none, or empty. */
bool ps_v8_bytes_open(struct ps_v8 *v8, uintptr_t word, struct ps_v8_bytes *out);

/* False at the end. */
bool ps_v8_bytes_next(struct ps_v8 *v8, struct ps_v8_bytes *bytes, uint8_t *out);

/* A number of seven bits a byte, the lowest first. False at the end. Most have one byte. */
bool ps_v8_bytes_number_slow(struct ps_v8 *v8, struct ps_v8_bytes *bytes, uint64_t *out);

static inline bool ps_v8_bytes_number(struct ps_v8 *v8, struct ps_v8_bytes *bytes, uint64_t *out) {
    if (PS_LIKELY(bytes->at < bytes->readable && *(const uint8_t *)bytes->at < 0x80)) {
        *out = *(const uint8_t *)bytes->at++;
        return true;
    }
    return ps_v8_bytes_number_slow(v8, bytes, out);
}

/* The address of an element of an array of words; 0: it has none. */
uintptr_t ps_v8_element(struct ps_v8 *v8, uintptr_t word, size_t index);

/* The element whose index is a field; 0: there is none. */
uintptr_t ps_v8_indexed(struct ps_v8 *v8, uintptr_t word, enum ps_v8_field index);

/* The SharedFunctionInfo that a word leads to, by a wrapper in some versions; 0: it leads to none.
 */
uintptr_t ps_v8_shared_at(struct ps_v8 *v8, uintptr_t address);

/* ---- texts: language_v8_text.c ---- */

/* Characters of a string that has them in one piece, as sources of scripts have. */
bool ps_v8_characters(struct ps_v8 *v8, uintptr_t word, struct ps_language_characters *out);

/* Reads a string, as ps_language_text_read. False when it cannot be read, or is empty. */
bool ps_v8_text(struct ps_v8 *v8, uintptr_t word, struct ps_language_text *out, bool is_last_part);

/* The name of a function, or that which V8 has inferred; and where it starts in the source. */
struct ps_v8_function {
    struct ps_language_text name;
    int32_t position; /* or PS_V8_NO_POSITION */
};

void ps_v8_function_read(struct ps_v8 *v8, uintptr_t shared, struct ps_v8_function *out);

/* ---- lines: language_v8_line.c ---- */

/* The line of a position in the source of a script, 1 for the first; 0: it is not known. */
uint32_t ps_v8_line(struct ps_v8 *v8, uintptr_t script, int32_t position);

/* ---- code: language_v8_code.c ---- */

/* The functions that a frame runs, innermost first: those that were compiled into its code, and its
 * own. Returns how many; 0: it runs none of the program. */
size_t ps_v8_places(struct ps_v8 *v8, uintptr_t site, uintptr_t pointer, struct ps_v8_place *out);

/* The position of an instruction, in bytes from the first. */
int32_t ps_v8_position(struct ps_v8 *v8, uintptr_t bytecode, int64_t offset);

/* ---- language_v8_maglev.c ---- */

/* As ps_v8_places, of code whose data for the interpreter, table of calls, and offset at which the
 * frame continues are given. */
size_t ps_v8_maglev_places(struct ps_v8 *v8, uintptr_t data, uintptr_t calls, uint32_t offset,
                           struct ps_v8_place *out);

#endif
