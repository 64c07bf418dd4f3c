/* SPDX-License-Identifier: MIT */
/*
 * See language_java.h: generated code. It lies in a few heaps, each with a map of segments: a byte
 * of the map tells how many segments back a block began, up to a limit, and so on. A block begins
 * with a description of its code. That of a compiled method has a table of places, sorted by
 * address, and of each the scope: the method with its place and, by the next scope, the one into
 * which it was inlined. The outermost has to be the compiled method itself; a table that was not
 * understood therefore adds no frame.
 */
#include "shim/language_java.h"

#include "pools/engine/base/bits.h"

#define WORD_BYTES sizeof(uintptr_t)
#define HEAPS_LIMIT 8
#define SEGMENT_FREE 0xff
#define SEGMENT_SHIFT_LIMIT 16
#define BACK_LIMIT 8192 /* of segments, steps: 254 of 64 bytes each, or more */
#define FRAME_WORDS_LIMIT 65536
#define PLACES_LIMIT ((size_t)1 << 24) /* bytes */
#define SCOPES_BYTES_LIMIT 4096
#define SCOPES_LIMIT 32

#define NAME_INTERPRETER "Interpreter"
#define NAME_METHOD "nmethod"
#define NAME_NATIVE "native nmethod"

/* ---- the code of an address ---- */

/* The block of a heap in which an address lies; 0: it is free. */
static uintptr_t block_of(struct ps_java *java, uintptr_t heap, uintptr_t low, uintptr_t pc) {
    uintptr_t space = ps_java_address(java, heap, PS_JAVA_HEAP_SEGMENTS);
    uintptr_t map = ps_java_word(java, space, PS_JAVA_SPACE_LOW);
    unsigned shift = (unsigned)ps_java_int(java, heap, PS_JAVA_HEAP_SHIFT);
    if (shift > SEGMENT_SHIFT_LIMIT) {
        return 0;
    }
    uintptr_t segment = (pc - low) >> shift;
    for (size_t i = 0; i < BACK_LIMIT; i++) {
        const char *view = ps_language_view(&java->memory, map + segment, 1);
        uint8_t back = view != NULL ? (uint8_t)*view : SEGMENT_FREE;
        if (back == SEGMENT_FREE || back > segment) {
            return 0;
        }
        if (back == 0) {
            return low + (segment << shift);
        }
        segment -= back;
    }
    return 0;
}

static uintptr_t find_block(struct ps_java *java, uintptr_t pc) {
    uintptr_t list = ps_java_word_at(java, java->runtime->variables[PS_JAVA_HEAPS]);
    uintptr_t heaps = ps_java_word(java, list, PS_JAVA_LIST_DATA);
    size_t count = (size_t)ps_java_int(java, list, PS_JAVA_LIST_LENGTH);
    for (size_t i = 0; i < ps_min(count, HEAPS_LIMIT); i++) {
        uintptr_t heap = ps_java_word_at(java, heaps + i * WORD_BYTES);
        uintptr_t space = ps_java_address(java, heap, PS_JAVA_HEAP_MEMORY);
        uintptr_t low = ps_java_word(java, space, PS_JAVA_SPACE_LOW);
        if (pc - low < ps_java_word(java, space, PS_JAVA_SPACE_HIGH) - low) {
            return block_of(java, heap, low, pc);
        }
    }
    return 0;
}

static bool has_name(struct ps_java *java, uintptr_t name, const char *wanted, size_t bytes) {
    const char *view = ps_language_view(&java->memory, name, bytes);
    return view != NULL && memcmp(view, wanted, bytes) == 0;
}

static enum ps_java_kind kind_of(struct ps_java *java, uintptr_t name) {
    return has_name(java, name, NAME_INTERPRETER, sizeof NAME_INTERPRETER) ? PS_JAVA_INTERPRETER
           : has_name(java, name, NAME_METHOD, sizeof NAME_METHOD) ||
                   has_name(java, name, NAME_NATIVE, sizeof NAME_NATIVE)
               ? PS_JAVA_METHOD
               : PS_JAVA_STUB;
}

static void find_blob(struct ps_java *java, struct ps_java_blob *blob) {
    uintptr_t low = ps_java_word_at(java, java->runtime->variables[PS_JAVA_CODE_LOW]);
    uintptr_t high = ps_java_word_at(java, java->runtime->variables[PS_JAVA_CODE_HIGH]);
    uintptr_t block = blob->pc - low < high - low ? find_block(java, blob->pc) : 0;
    uintptr_t mark = ps_java_address(java, block, PS_JAVA_BLOCK_IS_USED);
    const char *is_used = block != 0 ? ps_language_view(&java->memory, mark, 1) : NULL;
    if (is_used == NULL || *is_used == 0) {
        return;
    }
    blob->address = ps_java_address(java, block, PS_JAVA_BLOCK_BYTES);
    enum ps_java_kind kind = kind_of(java, ps_java_word(java, blob->address, PS_JAVA_BLOB_NAME));
    uint32_t words = (uint32_t)ps_java_int(java, blob->address, PS_JAVA_BLOB_FRAME);
    if (kind == PS_JAVA_INTERPRETER || (words >= 2 && words <= FRAME_WORDS_LIMIT)) {
        blob->kind = kind;
        blob->frame_bytes = words * (uint32_t)WORD_BYTES;
    }
}

const struct ps_java_blob *ps_java_blob_of(struct ps_java *java, uintptr_t pc) {
    struct ps_java_blob *known = &java->blobs[(pc * PS_GOLDEN_64 >> 32) % PS_JAVA_BLOBS];
    if (known->pc != pc) {
        *known = (struct ps_java_blob){.pc = pc, .kind = PS_JAVA_UNKNOWN};
        find_blob(java, known);
    }
    return known;
}

/* ---- compiled methods ---- */

/* The parts of a compiled method. */
struct code {
    uintptr_t start; /* of its instructions */
    uintptr_t left;  /* where frames return to whose method is no longer compiled */
    uintptr_t places;
    uintptr_t places_end;
    uintptr_t scopes;
    uintptr_t metadata;
};

static void open_old(struct ps_java *java, uintptr_t code, struct code *out) {
    *out = (struct code){
        .start = ps_java_word(java, code, PS_JAVA_BLOB_START),
        .left = ps_java_word(java, code, PS_JAVA_CODE_LEFT),
        .places = code + (uint32_t)ps_java_int(java, code, PS_JAVA_CODE_PLACES),
        .places_end = code + (uint32_t)ps_java_int(java, code, PS_JAVA_CODE_PLACES_END),
        .scopes = ps_java_word(java, code, PS_JAVA_CODE_SCOPES),
        .metadata = code + (uint32_t)ps_java_int(java, code, PS_JAVA_CODE_METADATA)};
}

static void open_new(struct ps_java *java, uintptr_t code, struct code *out) {
    uintptr_t constant = ps_java_word(java, code, PS_JAVA_CODE_IMMUTABLE);
    uintptr_t scopes = (uint32_t)ps_java_int(java, code, PS_JAVA_CODE_SCOPES_OFFSET);
    *out =
        (struct code){.start = code + (uint32_t)ps_java_int(java, code, PS_JAVA_BLOB_START_OFFSET),
                      .left = code + (uint32_t)ps_java_int(java, code, PS_JAVA_CODE_LEFT_OFFSET),
                      .places = constant + (uint32_t)ps_java_int(java, code, PS_JAVA_CODE_PLACES),
                      .places_end = constant + scopes,
                      .scopes = constant + scopes,
                      .metadata = ps_java_word(java, code, PS_JAVA_BLOB_MUTABLE) +
                                  (uint32_t)ps_java_int(java, code, PS_JAVA_BLOB_RELOCATIONS)};
}

/* The scope of a place, an offset in the scopes; 0: there is none. */
static uint32_t scope_of(struct ps_java *java, const struct code *code, int32_t place) {
    size_t one_bytes = java->runtime->offsets[PS_JAVA_PLACE_BYTES];
    size_t bytes = code->places_end - code->places;
    size_t first = 0;
    size_t last = one_bytes != 0 && bytes < PLACES_LIMIT ? bytes / one_bytes : 0;
    while (first < last) { /* ends: each round halves the range */
        size_t middle = first + (last - first) / 2;
        uintptr_t at = code->places + middle * one_bytes;
        int32_t found = ps_java_int(java, at, PS_JAVA_PLACE_OFFSET);
        if (found == place) {
            return (uint32_t)ps_java_int(java, at, PS_JAVA_PLACE_SCOPE);
        }
        first = found < place ? middle + 1 : first;
        last = found < place ? last : middle;
    }
    return 0;
}

struct scope {
    uintptr_t method;
    int32_t place;
};

/* Reads the scopes from the innermost one on; returns how many. */
static size_t read_scopes(struct ps_java *java, const struct code *code, uint32_t offset,
                          struct scope *out) {
    size_t count = 0;
    while (offset != 0 && count < SCOPES_LIMIT) {
        uintptr_t at = code->scopes + offset;
        struct ps_java_bytes bytes = {
            .java = java, .at = at, .readable = at, .end = at + SCOPES_BYTES_LIMIT};
        uint32_t next = ps_java_number(&bytes);
        uint32_t index = ps_java_number(&bytes);
        int32_t place = (int32_t)ps_java_number(&bytes) - 1; /* -1: before the first */
        if (index == 0) {
            return 0;
        }
        out[count++] =
            (struct scope){ps_java_word_at(java, code->metadata + (index - 1) * WORD_BYTES),
                           place < 0 ? 0 : place};
        offset = next;
    }
    return offset == 0 ? count : 0;
}

void ps_java_add_compiled(struct ps_java *java, uintptr_t address, uintptr_t pc, uintptr_t sp) {
    struct code code;
    struct scope scopes[SCOPES_LIMIT];
    uintptr_t method = ps_java_word(java, address, PS_JAVA_CODE_METHOD);
    if (ps_java_has(java, PS_JAVA_CODE_IMMUTABLE)) {
        open_new(java, address, &code);
    } else {
        open_old(java, address, &code);
    }
    if (pc == code.left) {
        uint32_t place = (uint32_t)ps_java_int(java, address, PS_JAVA_CODE_ORIGINAL);
        pc = ps_java_word_at(java, sp + place);
    }
    uint32_t scope = scope_of(java, &code, (int32_t)(pc - code.start));
    size_t count = read_scopes(java, &code, scope, scopes);
    if (count == 0 || scopes[count - 1].method != method) {
        ps_java_add(java, method, PS_JAVA_NO_PLACE);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        ps_java_add(java, scopes[i].method, scopes[i].place);
    }
}
