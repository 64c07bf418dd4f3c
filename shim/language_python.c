/* SPDX-License-Identifier: MIT */
/*
 * See language.h: frames of CPython 3.9 to 3.14. The frames of a thread change only while it runs
 * the interpreter's loop, which has called the allocation that is sampled; so they are the thread's
 * own to read, with and without the interpreter's lock. The interpreter is asked for one word, the
 * thread's state: PyGILState_GetThisThreadState of its stable interface, which reads a
 * thread-specific value. State: the types in the runtime.
 */
#include "shim/language_python.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/profile/profile.h"

#define NONE PS_PYTHON_NONE
#define VERSION_MAJOR 3
#define VERSION_FIRST 9 /* 3.9 */
#define VERSION_LAST 14
#define VERSION_DESCRIBED 13 /* from here on by _Py_DebugOffsets */
#define OFFSET_LIMIT 1024
#define WORD_BYTES sizeof(uintptr_t)
#define OWNER_LOOP 3              /* frames from here on are calls of the loop */
#define OBJECT_TAG ((uintptr_t)7) /* 3.14 stores bits in references */
#define COOKIE "xdebugpy"
#define FREE_THREADED_WORD 2
#define STEPS 4 /* for a frame: calls of the loop are frames, too */

typedef uintptr_t thread_state(void);

static const uint16_t versions[PS_PYTHON_FIELDS][VERSION_LAST - VERSION_FIRST + 1] = {
#define PS_PYTHON(field, v9, v10, v11, v12, v13, v14) {v9, v10, v11, v12, v13, v14},
#include "shim/language_python.def"
#undef PS_PYTHON
};
_Static_assert(PS_PYTHON_FIELDS <= PS_LANGUAGE_OFFSETS, "the fields have room");

/* ---- the version ---- */

/* The second number of the version; 0: it is not 3. Before 3.11 no variable has it, but functions
 * that are never removed tell. */
static unsigned version_of(const struct ps_language_object *object) {
    struct ps_language_symbol symbol;
    if (ps_language_object_find(object, "Py_Version", &symbol)) {
        uint32_t version = *(const uint32_t *)symbol.address;
        return version >> 24 == VERSION_MAJOR ? version >> 16 & 0xff : 0;
    }
    if (ps_language_object_find(object, "Py_NewRef", &symbol)) {
        return 10;
    }
    return ps_language_object_find(object, "PyFrame_GetCode", &symbol) ? VERSION_FIRST : 0;
}

/* Replaces words of the description by the offsets that they have. */
static bool read_description(const struct ps_language_object *object,
                             struct ps_language_runtime *out) {
    struct ps_language_symbol symbol;
    if (!ps_language_object_find(object, "_PyRuntime", &symbol) ||
        symbol.bytes < sizeof(uint64_t) * (FREE_THREADED_WORD + 1) ||
        memcmp((const void *)symbol.address, COOKIE, sizeof COOKIE - 1) != 0) {
        return false;
    }
    const uint64_t *words = (const uint64_t *)symbol.address;
    out->is_free_threaded = words[FREE_THREADED_WORD] != 0;
    for (size_t i = 0; i < PS_PYTHON_FIELDS; i++) {
        uint16_t word = out->offsets[i];
        if (word == NONE) {
            continue;
        }
        if ((word + 1) * sizeof *words > symbol.bytes || words[word] >= OFFSET_LIMIT) {
            return false;
        }
        out->offsets[i] = (uint16_t)words[word];
    }
    if (!out->is_free_threaded) { /* each thread runs the same code */
        out->offsets[PS_PYTHON_CODE_COPIES] = NONE;
    }
    return true;
}

/* The bytes of a structure up to the end of the last field of a range; words are the longest. */
static uint16_t bytes_up_to(const struct ps_language_runtime *runtime, size_t first, size_t last) {
    size_t bytes = 0;
    for (size_t i = first; i <= last; i++) {
        bool is_byte = i == PS_PYTHON_FRAME_OWNER || i == PS_PYTHON_FRAME_IS_ENTRY;
        bool is_int =
            i == PS_PYTHON_FRAME_COPY || i == PS_PYTHON_CODE_FIRST_LINE ||
            (i == PS_PYTHON_FRAME_INSTRUCTION && runtime->offsets[PS_PYTHON_CODE_START] == NONE);
        size_t length = is_byte ? 1 : is_int ? sizeof(int32_t) : WORD_BYTES;
        bytes = runtime->offsets[i] != NONE && i != PS_PYTHON_CODE_START
                    ? ps_max(bytes, runtime->offsets[i] + length)
                    : bytes;
    }
    return (uint16_t)bytes;
}

static size_t python_frames(struct ps_language_runtime *runtime,
                            const struct ps_language_stack *stack, struct ps_language_frame *out,
                            size_t limit);

enum ps_language_answer ps_python_start(const struct ps_language_object *object,
                                        struct ps_language_runtime *out) {
    struct ps_language_symbol symbol;
    out->version = version_of(object);
    if (out->version - VERSION_FIRST > VERSION_LAST - VERSION_FIRST ||
        !ps_language_object_find(object, "PyGILState_GetThisThreadState", &symbol)) {
        return PS_LANGUAGE_NONE;
    }
    for (size_t i = 0; i < PS_PYTHON_FIELDS; i++) {
        out->offsets[i] = versions[i][out->version - VERSION_FIRST];
    }
    if (out->version >= VERSION_DESCRIBED && !read_description(object, out)) {
        return PS_LANGUAGE_NONE;
    }
    out->calls[0] = symbol.address;
    out->frames = python_frames;
    out->frame_bytes = bytes_up_to(out, PS_PYTHON_FRAME_PREVIOUS, PS_PYTHON_FRAME_COPY);
    out->code_bytes = bytes_up_to(out, PS_PYTHON_CODE_FILE, PS_PYTHON_CODE_COPIES);
    size_t head_bytes = out->offsets[PS_PYTHON_OBJECT_TYPE] + WORD_BYTES;
    out->code_bytes = (uint16_t)ps_max((size_t)out->code_bytes, head_bytes);
    return PS_LANGUAGE_FOUND;
}

/* ---- objects ---- */

/* The word at an address and an offset; 0 where it cannot be read. */
static uintptr_t read_word(struct ps_python *python, uintptr_t address, uint16_t offset) {
    uintptr_t word;
    ps_language_copy(&python->memory, address + offset, &word, sizeof word);
    return word;
}

/* A type is recognised by its name; its address may be that of a copy in the program. */
static PS_COLD bool has_name(struct ps_python *python, uintptr_t type, const char *name) {
    size_t bytes = strlen(name) + 1;
    uintptr_t at = read_word(python, type, python->runtime->offsets[PS_PYTHON_TYPE_NAME]);
    const char *found = ps_language_view(&python->memory, at, bytes);
    return found != NULL && memcmp(found, name, bytes) == 0;
}

const char *ps_python_object(struct ps_python *python, uintptr_t address, size_t bytes,
                             enum ps_python_type type) {
    static const char names[][8] = {"code", "str", "bytes"};
    uintptr_t *known = &python->runtime->x_types[type];
    const char *view =
        address % WORD_BYTES == 0 ? ps_language_view(&python->memory, address, bytes) : NULL;
    if (view == NULL) {
        return NULL;
    }
    uintptr_t found = ps_python_word(python, view, PS_PYTHON_OBJECT_TYPE);
    uintptr_t wanted = ps_load_relaxed(known); /* relaxed: the word is all there is */
    if (PS_UNLIKELY(wanted == 0) && has_name(python, found, names[type])) {
        ps_store_relaxed(known, found); /* relaxed: as above */
        wanted = found;
    }
    return wanted != 0 && wanted == found ? view : NULL;
}

/* ---- frames ---- */

/* The start of the code that a frame runs. Without an interpreter's lock each thread may run a copy
 * of its own: a count, then the addresses of all, the first that of the code itself. */
static uintptr_t start_of(struct ps_python *python, const char *frame, uintptr_t address,
                          const char *code) {
    if (!ps_python_has(python, PS_PYTHON_CODE_COPIES)) {
        return address + python->runtime->offsets[PS_PYTHON_CODE_START];
    }
    uintptr_t copies = ps_python_word(python, code, PS_PYTHON_CODE_COPIES);
    uintptr_t index = (uint32_t)ps_python_int(python, frame, PS_PYTHON_FRAME_COPY);
    return read_word(python, copies + (index + 1) * WORD_BYTES, 0);
}

/* The place of a frame in its code, in bytes. */
static intptr_t instruction_of(struct ps_python *python, const char *frame, uintptr_t address,
                               const char *code) {
    if (ps_python_has(python, PS_PYTHON_CODE_START)) {
        return (intptr_t)(ps_python_word(python, frame, PS_PYTHON_FRAME_INSTRUCTION) -
                          start_of(python, frame, address, code));
    }
    intptr_t last = ps_python_int(python, frame, PS_PYTHON_FRAME_INSTRUCTION);
    return python->runtime->version == VERSION_FIRST ? last : last * PS_PYTHON_CODE_UNIT;
}

static uintptr_t make_site(struct ps_python *python, const char *frame, uintptr_t address) {
    struct ps_language_text file;
    struct ps_language_text function;
    const char *code =
        ps_python_object(python, address, python->runtime->code_bytes, PS_PYTHON_CODE);
    if (code == NULL ||
        !ps_python_text(python, ps_python_word(python, code, PS_PYTHON_CODE_FILE), &file, true) ||
        !ps_python_text(python, ps_python_word(python, code, PS_PYTHON_CODE_NAME), &function,
                        false)) {
        return 0;
    }
    intptr_t instruction = instruction_of(python, frame, address, code);
    const struct ps_profile_line line = {.file = file.bytes,
                                         .file_bytes = file.length,
                                         .function = function.bytes,
                                         .function_bytes = function.length,
                                         .number = ps_python_line(python, code, instruction)};
    return ps_profile_line_site(&line);
}

/* The site of a frame; 0: it is none of the program's. */
static uintptr_t site_of(struct ps_python *python, const char *frame) {
    uintptr_t code = ps_python_word(python, frame, PS_PYTHON_FRAME_CODE) & ~OBJECT_TAG;
    uintptr_t instruction = (uint32_t)ps_python_int(python, frame, PS_PYTHON_FRAME_INSTRUCTION);
    size_t hash = (code ^ instruction) * PS_GOLDEN_64 >> 32;
    struct ps_python_site *known = &python->sites[hash % PS_PYTHON_SITES];
    if (known->code != code || known->instruction != instruction) {
        *known = (struct ps_python_site){code, instruction, make_site(python, frame, code)};
    }
    return known->site;
}

static uint8_t byte_of(const struct ps_python *python, const char *frame,
                       enum ps_python_field field) {
    return ps_python_has(python, field) ? (uint8_t)frame[python->runtime->offsets[field]] : 0;
}

/* The innermost frame of the calling thread; 0: it runs no program. */
static uintptr_t first_frame(struct ps_python *python) {
    const uint16_t *offsets = python->runtime->offsets;
    thread_state *ask;
    memcpy(&ask, &python->runtime->calls[0], sizeof ask);
    uintptr_t state = ask();
    uintptr_t frame = state != 0 ? read_word(python, state, offsets[PS_PYTHON_THREAD]) : 0;
    bool is_chain = frame != 0 && ps_python_has(python, PS_PYTHON_CHAIN);
    return is_chain ? read_word(python, frame, offsets[PS_PYTHON_CHAIN]) : frame;
}

static size_t python_frames(struct ps_language_runtime *runtime,
                            const struct ps_language_stack *stack, struct ps_language_frame *out,
                            size_t limit) {
    (void)stack;
    struct ps_python python = {.runtime = runtime};
    bool is_each_entry = runtime->offsets[PS_PYTHON_CODE_START] == NONE; /* up to 3.10 */
    uintptr_t next = first_frame(&python);
    size_t count = 0;
    for (size_t i = 0; i < STEPS * limit && count < limit; i++) {
        const char *frame =
            next != 0 ? ps_language_view(&python.memory, next, runtime->frame_bytes) : NULL;
        if (frame == NULL) {
            break;
        }
        bool is_call = byte_of(&python, frame, PS_PYTHON_FRAME_OWNER) >= OWNER_LOOP;
        uintptr_t site = is_call ? 0 : site_of(&python, frame);
        if (site != 0) {
            out[count++] = (struct ps_language_frame){.site = site};
        }
        if (count != 0 &&
            (is_call || is_each_entry || byte_of(&python, frame, PS_PYTHON_FRAME_IS_ENTRY) != 0)) {
            out[count - 1].is_entry = true;
        }
        next = ps_python_word(&python, frame, PS_PYTHON_FRAME_PREVIOUS);
    }
    return count;
}
