/* SPDX-License-Identifier: MIT */
/*
 * See language.h: frames of node 18, 20, 22 and 24, which run V8 10.2, 11.3, 12.4 and 13.6. V8's
 * code is generated and has no unwind tables, but frame pointers, by which the walk over the native
 * stack passes it; each such frame leads to a function, a place in it, and so to file and line.
 * The frames belong to the calling thread, and their objects live; but a collection may have
 * called malloc. State: that of language_v8_code.c and language_v8_line.c.
 */
#include "shim/language_v8.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/profile/profile.h"

#include <string.h>

#define VERSIONS 4
#define NAME_BYTES 72
#define WORD_BYTES sizeof(uintptr_t)
#define NUMBER_SHIFT 31                       /* with one for the tag: the upper half of a word */
#define SOURCE_BYTES_LIMIT ((size_t)16 << 20) /* in which a walk counts lines */
#define SCHEME "file://"

static const uint8_t versions[VERSIONS][2] = {{10, 2}, {11, 3}, {12, 4}, {13, 6}};

/* Without pointers, which the loader would have to relocate. */
static const struct {
    uint16_t offsets[VERSIONS];
    char name[NAME_BYTES];
} fields[PS_V8_FIELDS] = {
#define PS_V8(field, v10, v11, v12, v13, symbol) {{v10, v11, v12, v13}, symbol},
#define NONE PS_V8_NONE
#define PADDED(bytes) ((bytes) + (-(bytes) & (PS_V8_CODE_ALIGNMENT - 1)))
#include "shim/language_v8.def"
#undef PADDED
#undef NONE
#undef PS_V8
};
_Static_assert(PS_V8_FIELDS <= PS_LANGUAGE_OFFSETS, "the fields have room");

/* ---- the version ---- */

/* A number that the object exports; -1: it does not. */
static int32_t number_of(const struct ps_language_object *object, const char *name) {
    struct ps_language_symbol symbol;
    return ps_language_object_find(object, name, &symbol) && symbol.bytes == sizeof(int32_t)
               ? *(const int32_t *)symbol.address
               : -1;
}

/* The place of the version in the tables; VERSIONS: it is another, or its words are not ours. */
static unsigned version_of(const struct ps_language_object *object) {
    int32_t major = number_of(object, "_ZN2v88internal7Version6major_E");
    int32_t minor = number_of(object, "_ZN2v88internal7Version6minor_E");
    if (number_of(object, "v8dbg_TaggedSize") != (int32_t)WORD_BYTES ||
        number_of(object, "v8dbg_SmiShiftSize") != NUMBER_SHIFT) {
        return VERSIONS;
    }
    for (unsigned i = 0; i < VERSIONS; i++) {
        if (versions[i][0] == major && versions[i][1] == minor) {
            return i;
        }
    }
    return VERSIONS;
}

static size_t v8_frames(struct ps_language_runtime *runtime, const struct ps_language_stack *stack,
                        struct ps_language_frame *out, size_t limit);

enum ps_language_answer ps_v8_start(const struct ps_language_object *object,
                                    struct ps_language_runtime *out) {
    out->version = version_of(object);
    if (out->version == VERSIONS) {
        return PS_LANGUAGE_NONE;
    }
    for (size_t i = 0; i < PS_V8_FIELDS; i++) {
        char name[sizeof "v8dbg_" + NAME_BYTES] = "v8dbg_";
        memcpy(name + strlen(name), fields[i].name, NAME_BYTES);
        int32_t found = fields[i].name[0] != '\0' ? number_of(object, name) : -1;
        bool is_offset = found >= 0 && found < PS_V8_NONE;
        out->offsets[i] = is_offset ? (uint16_t)found : fields[i].offsets[out->version];
    }
    struct ps_language_symbol sizes;
    if (ps_language_object_find(object, "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE",
                                &sizes)) {
        out->calls[PS_V8_SIZES] = sizes.address;
        out->calls[PS_V8_SIZES_COUNT] = sizes.bytes / 3;
    }
    out->is_generated = true;
    out->frames = v8_frames;
    return PS_LANGUAGE_FOUND;
}

/* ---- frames ---- */

/* The value of a hexadecimal digit; 16: it is none. */
static unsigned digit_of(char character) {
    char lower = (char)(character | 0x20);
    return character >= '0' && character <= '9' ? (unsigned)(character - '0')
           : lower >= 'a' && lower <= 'f'       ? (unsigned)(lower - 'a') + 10
                                                : 16;
}

/* Replaces the name of a module by its path, without the scheme and the escapes of a URL. */
static void make_path(struct ps_language_text *file) {
    const size_t skipped = sizeof SCHEME - 1;
    if (file->length <= skipped || memcmp(file->bytes, SCHEME, skipped) != 0) {
        return;
    }
    const char *from = file->bytes + skipped;
    const char *end = file->bytes + file->length;
    file->length = 0;
    for (; from < end; from++) { /* bytes are written below those that are read */
        unsigned high = *from == '%' && end - from > 2 ? digit_of(from[1]) : 16;
        unsigned low = high < 16 ? digit_of(from[2]) : 16;
        bool is_escape = low < 16 && high >= 2; /* and no control character */
        file->buffer[file->length++] = is_escape ? (char)(high << 4 | low) : *from;
        from += is_escape ? 2 : 0;
    }
    file->bytes = file->buffer;
}

static uintptr_t make_site(struct ps_v8 *v8, const struct ps_v8_place *place) {
    struct ps_v8_function function;
    struct ps_language_text file;
    uintptr_t word = ps_v8_field(v8, place->shared, PS_V8_SHARED_SCRIPT);
    uintptr_t script = ps_v8_object(v8, word, PS_V8_TYPE_SCRIPT);
    word = script != 0 ? ps_v8_field(v8, script, PS_V8_SCRIPT_NAME) : 0;
    if (script == 0 || !ps_v8_text(v8, word, &file, true)) {
        return 0; /* code that was made by eval has no name */
    }
    make_path(&file);
    ps_v8_function_read(v8, place->shared, &function);
    int32_t position = place->position < 0 ? function.position : place->position;
    const struct ps_profile_line line = {.file = file.bytes,
                                         .file_bytes = file.length,
                                         .function = function.name.bytes,
                                         .function_bytes = function.name.length,
                                         .number = ps_v8_line(v8, script, position)};
    return ps_profile_line_site(&line);
}

/* The site of a place; 0: it has none. */
static uintptr_t site_of(struct ps_v8 *v8, const struct ps_v8_place *place) {
    size_t hash = (place->shared ^ (uintptr_t)(uint32_t)place->position << 3) * PS_GOLDEN_64 >> 32;
    struct ps_v8_site *known = &v8->sites[hash % PS_V8_SITES];
    if (known->place.shared != place->shared || known->place.position != place->position) {
        *known = (struct ps_v8_site){*place, make_site(v8, place)};
    }
    return known->site;
}

static size_t v8_frames(struct ps_language_runtime *runtime, const struct ps_language_stack *stack,
                        struct ps_language_frame *out, size_t limit) {
    struct ps_v8 v8 = {.runtime = runtime, .source_bytes = SOURCE_BYTES_LIMIT};
    size_t count = 0;
    for (size_t i = 0; i < stack->count; i++) {
        struct ps_v8_place places[PS_V8_INLINED];
        uintptr_t pointer = stack->pointers[i];
        size_t found = pointer != 0 ? ps_v8_places(&v8, stack->sites[i], pointer, places) : 0;
        size_t before = count;
        for (size_t j = 0; j < found && count < limit; j++) {
            uintptr_t site = site_of(&v8, &places[j]);
            if (site != 0) {
                out[count++] = (struct ps_language_frame){.site = site};
            }
        }
        if (count == before) {
            stack->pointers[i] = 0;
        } else {
            out[count - 1].is_entry = true;
        }
    }
    return count;
}
