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
#include "pools/engine/profile/profile.h"

#include <string.h>

#define NONE PS_PYTHON_NONE
#define VERSION_FIRST 9 /* 3.9 */
#define VERSION_LAST 14
#define VERSION_DESCRIBED 13 /* from here on by _Py_DebugOffsets */
#define VERSION_MAJOR 3
#define OFFSET_LIMIT 1024
#define OWNER_LOOP 3               /* frames from here on are calls of the loop */
#define OBJECT_TAG (~(uintptr_t)7) /* 3.14 stores bits in references */
#define COOKIE "xdebugpy"
#define FREE_THREADED_WORD 2
#define STEPS 4     /* for a frame: calls of the loop are frames, too */
#define CODE_UNIT 2 /* bytes */

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
    if (out->offsets[PS_PYTHON_CODE_COPIES] == 0) { /* each thread runs the same code */
        out->offsets[PS_PYTHON_CODE_COPIES] = NONE;
    }
    return true;
}

static size_t python_frames(struct ps_language_runtime *runtime, struct ps_language_frame *out,
                            size_t limit);

bool ps_python_start(const struct ps_language_object *object, struct ps_language_runtime *out) {
    struct ps_language_symbol symbol;
    out->version = version_of(object);
    if (out->version - VERSION_FIRST > VERSION_LAST - VERSION_FIRST ||
        !ps_language_object_find(object, "PyGILState_GetThisThreadState", &symbol)) {
        return false;
    }
    for (size_t i = 0; i < PS_PYTHON_FIELDS; i++) {
        out->offsets[i] = versions[i][out->version - VERSION_FIRST];
    }
    out->thread_state = symbol.address;
    out->frames = python_frames;
    return out->version < VERSION_DESCRIBED || read_description(object, out);
}

/* ---- objects ---- */

bool ps_python_field(struct ps_python *python, uintptr_t address, enum ps_python_field field,
                     void *out, size_t bytes) {
    return ps_language_read(&python->memory, address + ps_python_offset(python, field), out, bytes);
}

/* A type is recognised by its name once; its address may be that of a copy in the program. */
bool ps_python_is(struct ps_python *python, uintptr_t object, enum ps_python_type type) {
    static const char names[][8] = {"code", "str", "bytes"};
    char found[sizeof names[0]] = "";
    uintptr_t address;
    uintptr_t name;
    uintptr_t *known = &python->runtime->x_types[type];
    if (!ps_python_field(python, object, PS_PYTHON_OBJECT_TYPE, &address, sizeof address)) {
        return false;
    }
    uintptr_t is_type = ps_load_relaxed(known); /* relaxed: the word is all there is */
    if (is_type != 0) {
        return is_type == address;
    }
    size_t bytes = strlen(names[type]) + 1;
    if (!ps_python_field(python, address, PS_PYTHON_TYPE_NAME, &name, sizeof name) ||
        !ps_language_read(&python->memory, name, found, bytes) ||
        memcmp(found, names[type], bytes) != 0) {
        return false;
    }
    ps_store_relaxed(known, address); /* relaxed: as above */
    return true;
}

/* ---- frames ---- */

/* The start of the code that a frame runs. */
static bool find_start(struct ps_python *python, uintptr_t frame, uintptr_t code,
                       uintptr_t *start) {
    int32_t index;
    uintptr_t copies;
    *start = code + ps_python_offset(python, PS_PYTHON_CODE_START);
    if (!python->runtime->is_free_threaded || !ps_python_has(python, PS_PYTHON_CODE_COPIES)) {
        return true;
    }
    /* A count, then the addresses; the first is that of the code itself. */
    return ps_python_field(python, frame, PS_PYTHON_FRAME_COPY, &index, sizeof index) &&
           ps_python_field(python, code, PS_PYTHON_CODE_COPIES, &copies, sizeof copies) &&
           ps_language_read(&python->memory,
                            copies + (uintptr_t)(intptr_t)(index + 1) * sizeof *start, start,
                            sizeof *start);
}

/* The place of a frame in its code, in bytes. */
static bool find_instruction(struct ps_python *python, uintptr_t frame, uintptr_t code,
                             intptr_t *out) {
    if (!ps_python_has(python, PS_PYTHON_CODE_START)) {
        int32_t last;
        if (!ps_python_field(python, frame, PS_PYTHON_FRAME_INSTRUCTION, &last, sizeof last)) {
            return false;
        }
        *out = python->runtime->version == VERSION_FIRST ? last : (intptr_t)last * CODE_UNIT;
        return true;
    }
    uintptr_t instruction;
    uintptr_t start;
    if (!ps_python_field(python, frame, PS_PYTHON_FRAME_INSTRUCTION, &instruction,
                         sizeof instruction) ||
        !find_start(python, frame, code, &start)) {
        return false;
    }
    *out = (intptr_t)(instruction - start);
    return true;
}

/* The site of a frame; 0: it is none of the program's. */
static uintptr_t site_of(struct ps_python *python, uintptr_t frame) {
    char file[PS_PROFILE_TEXT_BYTES];
    char function[PS_PROFILE_TEXT_BYTES];
    uintptr_t code;
    uintptr_t texts[2];
    intptr_t instruction;
    if (!ps_python_field(python, frame, PS_PYTHON_FRAME_CODE, &code, sizeof code)) {
        return 0;
    }
    code &= OBJECT_TAG;
    if (!ps_python_is(python, code, PS_PYTHON_CODE) ||
        !ps_python_field(python, code, PS_PYTHON_CODE_FILE, &texts[0], sizeof texts[0]) ||
        !ps_python_field(python, code, PS_PYTHON_CODE_NAME, &texts[1], sizeof texts[1]) ||
        !find_instruction(python, frame, code, &instruction)) {
        return 0;
    }
    const struct ps_profile_line line = {
        .file = file,
        .file_bytes = ps_python_text(python, texts[0], file, sizeof file, true),
        .function = function,
        .function_bytes = ps_python_text(python, texts[1], function, sizeof function, false),
        .number = ps_python_line(python, code, instruction),
    };
    return line.file_bytes != 0 && line.function_bytes != 0 ? ps_profile_line_site(&line) : 0;
}

/* True if a frame is that of a call of the loop, without code of the program. */
static bool is_call_of_loop(struct ps_python *python, uintptr_t frame) {
    uint8_t owner = 0;
    return ps_python_has(python, PS_PYTHON_FRAME_OWNER) &&
           ps_python_field(python, frame, PS_PYTHON_FRAME_OWNER, &owner, sizeof owner) &&
           owner >= OWNER_LOOP;
}

/* True if the loop was called for a frame. From 3.12 on the next one tells. */
static bool is_entry(struct ps_python *python, uintptr_t frame) {
    uint8_t is_first = 0;
    if (!ps_python_has(python, PS_PYTHON_FRAME_IS_ENTRY)) {
        return !ps_python_has(python, PS_PYTHON_FRAME_OWNER); /* up to 3.10 for each */
    }
    return ps_python_field(python, frame, PS_PYTHON_FRAME_IS_ENTRY, &is_first, sizeof is_first) &&
           is_first != 0;
}

/* The innermost frame of the calling thread; 0: it runs no program. */
static uintptr_t first_frame(struct ps_python *python) {
    thread_state *ask;
    memcpy(&ask, &python->runtime->thread_state, sizeof ask);
    uintptr_t state = ask();
    uintptr_t frame = 0;
    if (state == 0 || !ps_python_field(python, state, PS_PYTHON_THREAD, &frame, sizeof frame)) {
        return 0;
    }
    if (ps_python_has(python, PS_PYTHON_CHAIN) &&
        !ps_python_field(python, frame, PS_PYTHON_CHAIN, &frame, sizeof frame)) {
        return 0;
    }
    return frame;
}

static size_t python_frames(struct ps_language_runtime *runtime, struct ps_language_frame *out,
                            size_t limit) {
    struct ps_python python = {.runtime = runtime};
    uintptr_t frame = first_frame(&python);
    size_t count = 0;
    for (size_t i = 0; i < STEPS * limit && frame != 0 && count < limit; i++) {
        if (is_call_of_loop(&python, frame)) {
            if (count != 0) {
                out[count - 1].is_entry = true;
            }
        } else {
            uintptr_t site = site_of(&python, frame);
            bool is_first = is_entry(&python, frame);
            if (site != 0) {
                out[count++] = (struct ps_language_frame){.site = site, .is_entry = is_first};
            } else if (is_first && count != 0) {
                out[count - 1].is_entry = true;
            }
        }
        if (!ps_python_field(&python, frame, PS_PYTHON_FRAME_PREVIOUS, &frame, sizeof frame)) {
            break;
        }
    }
    return count;
}
