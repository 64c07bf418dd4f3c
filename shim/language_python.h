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
#include <string.h>

enum ps_python_field {
#define PS_PYTHON(field, v9, v10, v11, v12, v13, v14) PS_PYTHON_##field,
#include "shim/language_python.def"
#undef PS_PYTHON
    PS_PYTHON_FIELDS
};

#define PS_PYTHON_NONE UINT16_MAX
#define PS_PYTHON_CODE_UNIT 2 /* bytes of an instruction */

/* Types of objects; their places in ps_language_runtime.x_types. */
enum ps_python_type { PS_PYTHON_CODE, PS_PYTHON_TEXT, PS_PYTHON_BYTES };

#define PS_PYTHON_SITES 16

/* A site that was found in this walk: a recursion has many frames of few. */
struct ps_python_site {
    uintptr_t code;
    uintptr_t instruction; /* the field of the frame */
    uintptr_t site;
};

/* A walk over the frames of a thread. */
struct ps_python {
    struct ps_language_runtime *runtime;
    struct ps_language_memory memory;
    struct ps_python_site sites[PS_PYTHON_SITES]; /* hashed */
};

static inline bool ps_python_has(const struct ps_python *python, enum ps_python_field field) {
    return python->runtime->offsets[field] != PS_PYTHON_NONE;
}

/* A field of a view; of 4 bytes with the next function. */
static inline uintptr_t ps_python_word(const struct ps_python *python, const char *view,
                                       enum ps_python_field field) {
    uintptr_t word;
    memcpy(&word, view + python->runtime->offsets[field], sizeof word);
    return word;
}

static inline int32_t ps_python_int(const struct ps_python *python, const char *view,
                                    enum ps_python_field field) {
    int32_t number;
    memcpy(&number, view + python->runtime->offsets[field], sizeof number);
    return number;
}

/* The object of a type at an address, so many bytes of it; NULL: there is none. */
const char *ps_python_object(struct ps_python *python, uintptr_t address, size_t bytes,
                             enum ps_python_type type);

/* Reads a string; of a longer one than a text the last or the first part, with dots. False when
 * it cannot be read, or is empty. */
bool ps_python_text(struct ps_python *python, uintptr_t object, struct ps_language_text *out,
                    bool is_last_part);

/* The line of an instruction of code whose view is given: its offset in bytes, negative before the
 * first one. */
uint32_t ps_python_line(struct ps_python *python, const char *code, intptr_t instruction);

#endif
