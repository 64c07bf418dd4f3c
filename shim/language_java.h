/* SPDX-License-Identifier: MIT */
/*
 * Reading the structures of HotSpot: fields, generated code, methods. Each read is checked, and
 * each loop is bounded: what another version has elsewhere, or damaged memory, ends in a 0. No
 * state, no locks.
 *
 * language_java.c reads the tables that describe the structures, and walks the frames;
 * language_java_code.c finds the code of an address, and the methods that it runs;
 * language_java_method.c finds the name and the line of a method.
 */
#ifndef PS_SHIM_LANGUAGE_JAVA_H
#define PS_SHIM_LANGUAGE_JAVA_H

#include "shim/language.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum ps_java_field {
#define PS_JAVA(name, type, field) PS_JAVA_##name,
#define PS_JAVA_MAYBE(name, type, field) PS_JAVA_##name,
#define PS_JAVA_ALSO(name, type, field)
#define PS_JAVA_VARIABLE(name, type, field)
#include "shim/language_java.def"
#undef PS_JAVA
#undef PS_JAVA_MAYBE
#undef PS_JAVA_VARIABLE
    PS_JAVA_CALL_PLACE, /* below the frame pointer of a call from native code, words */
    PS_JAVA_FIELDS
};

enum ps_java_variable {
#define PS_JAVA(name, type, field)
#define PS_JAVA_MAYBE(name, type, field)
#define PS_JAVA_VARIABLE(name, type, field) PS_JAVA_##name,
#include "shim/language_java.def"
#undef PS_JAVA
#undef PS_JAVA_MAYBE
#undef PS_JAVA_ALSO
#undef PS_JAVA_VARIABLE
    PS_JAVA_VARIABLES
};

_Static_assert(PS_JAVA_FIELDS <= PS_LANGUAGE_OFFSETS, "the fields have room");
_Static_assert(PS_JAVA_VARIABLES <= PS_LANGUAGE_VARIABLES, "the variables have room");

#define PS_JAVA_NONE UINT16_MAX
#define PS_JAVA_NO_PLACE INT32_MIN /* in a method's code: not known */
#define PS_JAVA_SITES 16
#define PS_JAVA_BLOBS 16

/* A site that was found in this walk: a recursion has many frames of few. */
struct ps_java_site {
    uintptr_t method;
    uintptr_t at; /* in its code: an address, or a place */
    uintptr_t site;
};

enum ps_java_kind { PS_JAVA_UNKNOWN, PS_JAVA_INTERPRETER, PS_JAVA_METHOD, PS_JAVA_STUB };

/* A piece of generated code, of an address in it. */
struct ps_java_blob {
    uintptr_t pc;
    uintptr_t address; /* of its description */
    enum ps_java_kind kind;
    uint32_t frame_bytes; /* of a frame, with the return address */
};

/* A walk over the frames of a thread. */
struct ps_java {
    const struct ps_language_runtime *runtime;
    unsigned version;
    struct ps_language_memory memory;
    struct ps_java_site sites[PS_JAVA_SITES]; /* hashed, as the next */
    struct ps_java_blob blobs[PS_JAVA_BLOBS];
    struct ps_language_frame *out;
    size_t count;
    size_t limit;
};

/* ---- fields: 0 where they cannot be read ---- */

static inline bool ps_java_has(const struct ps_java *java, enum ps_java_field field) {
    return java->runtime->offsets[field] != PS_JAVA_NONE;
}

uintptr_t ps_java_word_at(struct ps_java *java, uintptr_t address);
int32_t ps_java_int_at(struct ps_java *java, uintptr_t address);
uint16_t ps_java_short_at(struct ps_java *java, uintptr_t address);

static inline uintptr_t ps_java_address(const struct ps_java *java, uintptr_t object,
                                        enum ps_java_field field) {
    return object + java->runtime->offsets[field];
}

static inline uintptr_t ps_java_word(struct ps_java *java, uintptr_t object,
                                     enum ps_java_field field) {
    return ps_java_word_at(java, ps_java_address(java, object, field));
}

static inline int32_t ps_java_int(struct ps_java *java, uintptr_t object,
                                  enum ps_java_field field) {
    return ps_java_int_at(java, ps_java_address(java, object, field));
}

static inline uint16_t ps_java_short(struct ps_java *java, uintptr_t object,
                                     enum ps_java_field field) {
    return ps_java_short_at(java, ps_java_address(java, object, field));
}

/* ---- compressed tables ---- */

/* A table of bytes, which ends where it can no longer be read. */
struct ps_java_bytes {
    struct ps_java *java;
    uintptr_t at;
    uintptr_t readable; /* up to here it can be read */
    uintptr_t end;
};

/* The next byte; 0 after the last. */
uint8_t ps_java_byte(struct ps_java_bytes *bytes);

/* The next number, of up to five bytes. */
uint32_t ps_java_number(struct ps_java_bytes *bytes);

/* ---- generated code: language_java_code.c ---- */

/* The piece in which an address lies. Kind UNKNOWN: there is none, or one without frames. */
const struct ps_java_blob *ps_java_blob_of(struct ps_java *java, uintptr_t pc);

/* Adds the frames of a compiled method that returns to `pc`, with those that were inlined; `sp` is
 * its stack pointer. */
void ps_java_add_compiled(struct ps_java *java, uintptr_t code, uintptr_t pc, uintptr_t sp);

/* ---- methods: language_java_method.c ---- */

/* Adds a frame of a method, at a byte of its code or PS_JAVA_NO_PLACE. Native methods, and those of
 * classes that have been made for lambdas, have none. */
void ps_java_add(struct ps_java *java, uintptr_t method, int32_t place);

/* The same, by the address of an instruction, which may be outside of the code. */
void ps_java_add_at(struct ps_java *java, uintptr_t method, uintptr_t instruction);

#endif
