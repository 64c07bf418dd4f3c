/* SPDX-License-Identifier: MIT */
/*
 * Reading CPython's objects: fields, texts and lines. Callers: shim/language_python.c. No state, no
 * locks.
 */
#ifndef PS_SHIM_LANGUAGE_PYTHON_H
#define PS_SHIM_LANGUAGE_PYTHON_H

#include "shim/language.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ps_python_field {
#define PS_PYTHON(field, v9, v10, v11, v12, v13, v14) PS_PYTHON_##field,
#include "shim/language_python.def"
#undef PS_PYTHON
    PS_PYTHON_FIELDS
};

#define PS_PYTHON_NONE UINT16_MAX

/* Types of objects; their places in ps_language_runtime.x_types. */
enum ps_python_type { PS_PYTHON_CODE, PS_PYTHON_TEXT, PS_PYTHON_BYTES };

/* A walk over the frames of a thread. */
struct ps_python {
    struct ps_language_runtime *runtime;
    struct ps_language_memory memory;
};

static inline uint16_t ps_python_offset(const struct ps_python *python,
                                        enum ps_python_field field) {
    return python->runtime->offsets[field];
}

static inline bool ps_python_has(const struct ps_python *python, enum ps_python_field field) {
    return ps_python_offset(python, field) != PS_PYTHON_NONE;
}

/* Reads `bytes` of a field at an address. False when it cannot be read. */
bool ps_python_field(struct ps_python *python, uintptr_t address, enum ps_python_field field,
                     void *out, size_t bytes);

/* True if there is an object of a type at an address. */
bool ps_python_is(struct ps_python *python, uintptr_t object, enum ps_python_type type);

/* Stores the UTF-8 of a string, without a terminator, in at most `limit` bytes; of a longer one the
 * last or the first part, with dots. Returns the length; 0: it cannot be read. */
size_t ps_python_text(struct ps_python *python, uintptr_t object, char *out, size_t limit,
                      bool is_last_part);

/* The line of an instruction: its offset in the code in bytes, negative before the first one. */
uint32_t ps_python_line(struct ps_python *python, uintptr_t code, intptr_t instruction);

#endif
