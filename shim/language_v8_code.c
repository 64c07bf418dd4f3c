/* SPDX-License-Identifier: MIT */
/*
 * See language_v8.h: which functions a frame of generated code runs, and where. Code comes in
 * kinds, which the frame's address tells:
 *
 *   interpreted   V8's interpreter, of builtin code; the place is in the frame
 *   baseline      made of one function's instructions, in their order: their lengths in the code
 *                 are listed
 *   Maglev        see language_v8_maglev.c
 *   optimized     has a table of places, and those of functions that were compiled into it
 *
 * Code that was generated is found by going down from the address to its head, which leads to the
 * description and this back to the code. State: addresses of the interpreter in the runtime, where
 * V8 has copied its builtin code.
 */
#include "shim/language_v8.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"

#include <string.h>

#define WORD_BYTES sizeof(uintptr_t)
#define CODE_ALIGNMENT 32
#define HEAD_WORDS 2
#define CODE_LIMIT ((size_t)256 << 10) /* of a function: further its head is not searched */
#define KIND_MASK 15
#define INTERPRETERS 3
#define POSITION_BITS 30 /* of a place, after a bit for code of no script */
#define INLINED_MASK 0xffff
#define INLINED_BYTES 16 /* of an entry: the place of the call, and the number of the function */
#define PREFIXES 4       /* the first instructions, which make the next one longer */

static const uint8_t sizes_13[] = {
#include "shim/language_v8_bytecodes.def"
};

/* A frame of generated code. */
struct frame {
    uintptr_t site;
    uintptr_t shared;
    uintptr_t bytecode; /* the object; 0: it has none */
    uintptr_t instruction;
};

/* ---- tables ---- */

/* Its lowest bit is the sign. */
static bool next_difference(struct ps_v8 *v8, struct ps_v8_bytes *bytes, int64_t *out) {
    uint64_t number;
    bool is_there = ps_v8_bytes_number(v8, bytes, &number);
    *out = (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
    return is_there;
}

/* The last entry of a table up to an offset: each has the distance to the one before, and the
 * difference of the places; a negative distance is less by one. 0: there is none. */
static uint64_t place_in_table(struct ps_v8 *v8, uintptr_t table, int64_t offset) {
    struct ps_v8_bytes bytes;
    int64_t reached = -1;
    uint64_t place = 0;
    int64_t distance;
    int64_t difference;
    if (!ps_v8_bytes_open(v8, table, &bytes)) {
        return 0;
    }
    while (next_difference(v8, &bytes, &distance)) {
        reached += distance >= 0 ? distance : -(distance + 1);
        if (reached > offset || !next_difference(v8, &bytes, &difference)) {
            break;
        }
        place += (uint64_t)difference;
    }
    return place;
}

static int32_t position_of(uint64_t place) {
    bool is_of_script = (place & 1) == 0;
    int32_t position = (int32_t)(place >> 1 & ((1u << POSITION_BITS) - 1));
    return is_of_script ? position - 1 : PS_V8_NO_POSITION; /* 0: none */
}

/* ---- interpreted ---- */

static uint32_t bytecode_bytes(struct ps_v8 *v8, uintptr_t bytecode) {
    uintptr_t length = ps_v8_field(v8, bytecode, PS_V8_ARRAY_LENGTH);
    return ps_v8_is_number(length) && ps_v8_number(length) > 0 ? (uint32_t)ps_v8_number(length) : 0;
}

/* The frame's instruction, in bytes from the first; -1: it is not interpreted. */
static int64_t instruction_of(struct ps_v8 *v8, const struct frame *frame) {
    if (frame->bytecode == 0 || !ps_v8_is_number(frame->instruction)) {
        return -1;
    }
    int64_t first = ps_v8_offset(v8, PS_V8_BYTECODE_START) - 1; /* from the tagged address */
    int64_t offset = ps_v8_number(frame->instruction) - first;
    return offset >= 0 && offset < bytecode_bytes(v8, frame->bytecode) ? offset : -1;
}

int32_t ps_v8_position(struct ps_v8 *v8, uintptr_t bytecode, int64_t offset) {
    uintptr_t table = ps_v8_field(v8, bytecode, PS_V8_BYTECODE_LINES);
    return position_of(place_in_table(v8, table, offset));
}

static bool is_builtin(const struct ps_v8 *v8, uintptr_t site) {
    const struct ps_language_runtime *runtime = v8->runtime;
    if (site - runtime->start < runtime->end - runtime->start) {
        return true;
    }
    for (size_t i = 0; i < INTERPRETERS; i++) {
        if (ps_load_relaxed(&runtime->x_types[i]) == site) { /* relaxed: the word is all there is */
            return true;
        }
    }
    return false;
}

/* An address at which interpreted functions are called, and no code is described. */
static void add_interpreter(struct ps_v8 *v8, uintptr_t site) {
    for (size_t i = 0; i < INTERPRETERS; i++) {
        uintptr_t *place = &v8->runtime->x_types[i];
        if (ps_load_relaxed(place) == 0) { /* relaxed: as above; two threads may enter it twice */
            ps_store_relaxed(place, site); /* relaxed: as above */
            return;
        }
    }
}

/* ---- generated ---- */

/* The description of code that has an address and starts at another, before which the head is. 0:
 * there is none. */
static uintptr_t code_from(struct ps_v8 *v8, uintptr_t start, uintptr_t site, const char *view) {
    bool is_own = ps_v8_offset(v8, PS_V8_CODE_START) == PS_V8_NONE;
    uintptr_t head = start - ps_v8_offset(v8, PS_V8_CODE_HEAD);
    uintptr_t words[HEAD_WORDS];
    memcpy(words, view, sizeof words);
    if ((words[0] & 3) != 1 || (words[1] & 3) != 1) { /* both have the tag of an object */
        return 0;
    }
    uintptr_t code = ps_v8_object(v8, is_own ? head + 1 : words[1], PS_V8_TYPE_CODE);
    if (code == 0 || (!is_own && ps_v8_field(v8, code, PS_V8_CODE_START) != start)) {
        return 0;
    }
    uint32_t bytes = ps_v8_int(v8, code + ps_v8_offset(v8, PS_V8_CODE_BYTES));
    return site - start < bytes ? code : 0;
}

static uintptr_t find_code(struct ps_v8 *v8, uintptr_t site, uintptr_t *start) {
    uintptr_t at = ps_round_down(site, CODE_ALIGNMENT);
    for (size_t i = 0; i < CODE_LIMIT / CODE_ALIGNMENT && at > CODE_LIMIT; i++) {
        uintptr_t head = at - ps_v8_offset(v8, PS_V8_CODE_HEAD);
        const char *view = ps_language_view(&v8->memory, head, HEAD_WORDS * WORD_BYTES);
        uintptr_t code = view != NULL ? code_from(v8, at, site, view) : 0;
        if (code != 0) {
            *start = at;
            return code;
        }
        if (view == NULL) {
            break; /* the memory of code has no holes */
        }
        at -= CODE_ALIGNMENT;
    }
    return 0;
}

/* The length of the instruction at an offset, with its prefix; 0: it is not known. */
static uint32_t instruction_bytes(struct ps_v8 *v8, struct ps_v8_bytes *bytes) {
    const uint8_t *sizes = (const uint8_t *)v8->runtime->calls[PS_V8_SIZES];
    size_t count = sizes != NULL ? v8->runtime->calls[PS_V8_SIZES_COUNT] : sizeof sizes_13;
    uint8_t first;
    uint32_t prefix = 0;
    unsigned form = 0; /* operands of 1, 2, or 4 bytes */
    if (!ps_v8_bytes_next(v8, bytes, &first)) {
        return 0;
    }
    if (first < PREFIXES) {
        form = (first & 1) + 1u;
        prefix = 1;
        if (!ps_v8_bytes_next(v8, bytes, &first)) {
            return 0;
        }
    }
    if (first >= count) {
        return 0;
    }
    uint32_t length = sizes != NULL
                          ? sizes[form * count + first]
                          : (sizes_13[first] >> 4) + (sizes_13[first] & 15u) * ((1u << form) - 1);
    bytes->at += length - 1;
    return length == 0 ? 0 : prefix + length;
}

/* The first length is that of the code before the first instruction. */
static int32_t position_in_baseline(struct ps_v8 *v8, const struct frame *frame, uintptr_t table,
                                    uintptr_t offset) {
    struct ps_v8_bytes lengths;
    struct ps_v8_bytes bytes = {.at = frame->bytecode + ps_v8_offset(v8, PS_V8_BYTECODE_START)};
    uint64_t length;
    uint64_t reached = 0;
    int64_t instruction = 0;
    uint32_t now = 0;
    if (frame->bytecode == 0 || !ps_v8_bytes_open(v8, table, &lengths)) {
        return PS_V8_NO_POSITION;
    }
    bytes.readable = bytes.at;
    bytes.end = bytes.at + bytecode_bytes(v8, frame->bytecode);
    while (ps_v8_bytes_number(v8, &lengths, &length)) {
        reached += length;
        if (reached > offset) {
            return ps_v8_position(v8, frame->bytecode, instruction);
        }
        instruction += now;
        now = instruction_bytes(v8, &bytes);
        if (now == 0) {
            break;
        }
    }
    return PS_V8_NO_POSITION;
}

/* The functions of optimized code, from the place in the innermost. */
static size_t places_of(struct ps_v8 *v8, uintptr_t code, uint64_t place, uintptr_t own,
                        struct ps_v8_place *out) {
    uintptr_t inlined = ps_v8_field(v8, code, PS_V8_CODE_INLINED);
    uintptr_t literals = ps_v8_indexed(v8, inlined, PS_V8_INDEX_LITERALS);
    struct ps_v8_bytes calls;
    bool has_calls =
        ps_v8_bytes_open(v8, ps_v8_indexed(v8, inlined, PS_V8_INDEX_POSITIONS), &calls);
    size_t count = 0;
    uint64_t number = place >> (POSITION_BITS + 1) & INLINED_MASK; /* from 1 on; 0: own */
    while (number != 0 && has_calls && count < PS_V8_INLINED - 1) {
        uintptr_t call = calls.at + (number - 1) * INLINED_BYTES;
        if (call + INLINED_BYTES > calls.end) {
            return 0;
        }
        uint32_t index = ps_v8_int(v8, call + WORD_BYTES);
        uintptr_t at = ps_v8_element(v8, literals, index);
        uintptr_t shared = at != 0 ? ps_v8_shared_at(v8, at) : 0;
        if (shared != 0) {
            out[count++] = (struct ps_v8_place){shared, position_of(place)};
        }
        place = ps_v8_word(v8, call);
        uint64_t next = place >> (POSITION_BITS + 1) & INLINED_MASK;
        if (next >= number) {
            break;
        }
        number = next;
    }
    if (number == 0) {
        out[count++] = (struct ps_v8_place){own, position_of(place)};
    }
    return count;
}

/* The kinds are in the order of the comment above. */
static uint32_t kind_of(struct ps_v8 *v8, uintptr_t code) {
    return ps_v8_int(v8, code + ps_v8_offset(v8, PS_V8_CODE_FLAGS)) & KIND_MASK;
}

static size_t places_in_code(struct ps_v8 *v8, const struct frame *frame, uintptr_t code,
                             uintptr_t start, struct ps_v8_place *out) {
    uintptr_t offset = frame->site - start;
    uintptr_t table = ps_v8_field(v8, code, PS_V8_CODE_LINES);
    uint32_t kind = kind_of(v8, code) - ps_v8_offset(v8, PS_V8_KIND_BASELINE);
    if (kind == 0) {
        int32_t position = position_in_baseline(v8, frame, table, offset);
        out[0] = (struct ps_v8_place){frame->shared, position};
        return 1;
    }
    if (kind == 1) {
        uintptr_t end = start + ps_v8_int(v8, code + ps_v8_offset(v8, PS_V8_CODE_BYTES));
        uintptr_t data = ps_v8_field(v8, code, PS_V8_CODE_INLINED);
        size_t count = ps_v8_maglev_places(v8, data, end, (uint32_t)offset + 1, out);
        out[0] = count != 0 ? out[0] : (struct ps_v8_place){frame->shared, PS_V8_NO_POSITION};
        return count != 0 ? count : 1;
    }
    return places_of(v8, code, place_in_table(v8, table, (int64_t)offset), frame->shared, out);
}

/* ---- frames ---- */

/* The function that a frame of generated code has in its place for one. False: it has none. */
static bool read_frame(struct ps_v8 *v8, uintptr_t pointer, struct frame *out) {
    uintptr_t context = ps_v8_word(v8, pointer - ps_v8_offset(v8, PS_V8_FRAME_CONTEXT));
    uintptr_t word = ps_v8_word(v8, pointer - ps_v8_offset(v8, PS_V8_FRAME_FUNCTION));
    uint16_t type;
    uintptr_t function = (context & 1) != 0 ? ps_v8_open(v8, word, &type) : 0;
    uint16_t first = ps_v8_offset(v8, PS_V8_TYPE_FUNCTION);
    if (function == 0 || type < first || type > ps_v8_offset(v8, PS_V8_TYPE_FUNCTIONS)) {
        return false;
    }
    word = ps_v8_field(v8, function, PS_V8_FUNCTION_SHARED);
    out->shared = ps_v8_object(v8, word, PS_V8_TYPE_SHARED);
    word = ps_v8_word(v8, pointer - ps_v8_offset(v8, PS_V8_FRAME_BYTECODE));
    out->bytecode = ps_v8_object(v8, word, PS_V8_TYPE_BYTECODE);
    out->instruction = ps_v8_word(v8, pointer - ps_v8_offset(v8, PS_V8_FRAME_OFFSET));
    return out->shared != 0;
}

size_t ps_v8_places(struct ps_v8 *v8, uintptr_t site, uintptr_t pointer, struct ps_v8_place *out) {
    struct frame frame = {.site = site};
    uintptr_t start;
    if (!read_frame(v8, pointer, &frame)) {
        return 0;
    }
    uintptr_t script = ps_v8_field(v8, frame.shared, PS_V8_SHARED_SCRIPT);
    if (ps_v8_object(v8, script, PS_V8_TYPE_SCRIPT) == 0) {
        return 0; /* a function of V8's own */
    }
    int64_t instruction = instruction_of(v8, &frame);
    bool is_known = instruction >= 0 && is_builtin(v8, site);
    uintptr_t code = is_known ? 0 : find_code(v8, site, &start);
    if (code != 0 && kind_of(v8, code) >= ps_v8_offset(v8, PS_V8_KIND_BASELINE)) {
        return places_in_code(v8, &frame, code, start, out);
    }
    if (instruction >= 0 && !is_known && code == 0) { /* else a function's own copy of it */
        add_interpreter(v8, site);
    }
    int32_t position =
        instruction >= 0 ? ps_v8_position(v8, frame.bytecode, instruction) : PS_V8_NO_POSITION;
    out[0] = (struct ps_v8_place){frame.shared, position};
    return 1;
}
