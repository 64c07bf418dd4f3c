/* SPDX-License-Identifier: MIT */
/*
 * See language_v8.h: places in code of Maglev, of V8 13.6. Such code has no table of places.
 * For each call it describes the frames by which the interpreter would continue. A table of calls,
 * behind the code, has the numbers of the descriptions. A description is a list of operations; the
 * reader takes those of frames, outermost first. A description omits an operation that is equal to
 * that of an earlier one at the same index: the reader takes both together. No state.
 *
 *   head     4 words of 4 bytes: slots, how many calls, the lengths of fields, slots
 *   call     return address, number + 1, an address, a byte, registers
 *   entry    of the number: instruction, place of the description, an address
 */
#include "shim/language_v8.h"

#include "pools/engine/base/bits.h"

#include <string.h>

#define WORD_BYTES sizeof(uintptr_t)
#define HEAD_BYTES 16
#define COUNT_AT 4
#define LENGTHS_AT 8
#define CALL_LIMIT 65536
#define ENTRY_WORDS 3
#define ENTRY_FRAMES 1 /* the word that has the place of the description */
#define OPERATION_LIMIT 4096

/* How many operands an operation has, of all that there are; a greater number leaves out
 * as many as it is greater. */
static const char operands[] = "643321343321003311101111111111111111101111121";
#define OPERATIONS (sizeof operands - 1)
#define FRAME_WITH_RETURN 0
#define FRAME_WITHOUT_RETURN 1
#define LAST_FRAME 3 /* of functions; 2 and 3 are V8's own */
#define BEGIN_WITHOUT_FEEDBACK 14
#define BEGIN_WITH_FEEDBACK 15
#define MATCH (OPERATIONS - 1)

/* ---- the table of calls ---- */

struct calls {
    uintptr_t at;
    size_t count;
    size_t address_bytes;
    size_t number_bytes;
    size_t bytes; /* of an entry */
};

static bool open_calls(struct ps_v8 *v8, uintptr_t at, struct calls *out) {
    uint32_t lengths = ps_v8_int(v8, at + LENGTHS_AT);
    size_t registers_bytes = lengths >> 1 & 7;
    *out = (struct calls){
        .at = at + HEAD_BYTES,
        .count = ps_v8_int(v8, at + COUNT_AT),
        .address_bytes = lengths >> 4 & 7,
        .number_bytes = lengths >> 7 & 7,
    };
    out->bytes = 2 * out->address_bytes + out->number_bytes + 1 + registers_bytes;
    bool has_numbers = (lengths & 1) != 0;
    return has_numbers && out->count <= CALL_LIMIT && out->address_bytes <= sizeof(uint32_t) &&
           out->number_bytes <= sizeof(uint32_t);
}

static uint32_t short_number(const char *view, size_t bytes) {
    uint32_t number = 0; /* processors here have the low byte first */
    memcpy(&number, view, bytes);
    return number;
}

/* The number of the description of a call that returns to an offset; -1: it has none. */
static int32_t number_of(struct ps_v8 *v8, const struct calls *calls, uint32_t offset) {
    for (size_t i = 0; i < calls->count; i++) {
        const char *view =
            ps_language_view(&v8->memory, calls->at + i * calls->bytes, calls->bytes);
        if (view == NULL) {
            break;
        }
        if (short_number(view, calls->address_bytes) == offset) {
            return (int32_t)short_number(view + calls->address_bytes, calls->number_bytes) - 1;
        }
    }
    return -1;
}

/* ---- descriptions ---- */

/* Operands that are read: the sign is the lowest bit. */
struct operation {
    unsigned kind;
    int32_t instruction;
    int32_t function; /* its number in the literals */
};

static bool next_operand(struct ps_v8 *v8, struct ps_v8_bytes *bytes, int32_t *out) {
    uint64_t number;
    bool is_there = ps_v8_bytes_number(v8, bytes, &number);
    int32_t value = (int32_t)(number >> 1);
    *out = (number & 1) != 0 ? -value : value;
    return is_there;
}

static bool read_operands(struct ps_v8 *v8, struct ps_v8_bytes *bytes, struct operation *out) {
    for (int i = 0; i < operands[out->kind] - '0'; i++) {
        int32_t value;
        if (!next_operand(v8, bytes, &value)) {
            return false;
        }
        out->instruction = i == 0 ? value : out->instruction;
        out->function = i == 1 ? value : out->function;
    }
    return true;
}

/* A description, and that which has what it leaves out. */
struct description {
    struct ps_v8_bytes own;
    struct ps_v8_bytes earlier;
    bool has_earlier;
    uint64_t left_out; /* operations, from here on */
    int32_t functions;
};

/* Begins with three operands: how far before it the earlier one is, and how many frames it has, all
 * and those of functions. */
static bool begin(struct ps_v8 *v8, struct ps_v8_bytes *bytes, uint64_t *distance,
                  int32_t *functions) {
    uint8_t kind;
    int32_t frames;
    return ps_v8_bytes_next(v8, bytes, &kind) &&
           (kind == BEGIN_WITHOUT_FEEDBACK || kind == BEGIN_WITH_FEEDBACK) &&
           ps_v8_bytes_number(v8, bytes, distance) && next_operand(v8, bytes, &frames) &&
           next_operand(v8, bytes, functions);
}

static bool open_description(struct ps_v8 *v8, uintptr_t table, int32_t place,
                             struct description *out) {
    uint64_t distance;
    uint64_t ignored;
    int32_t functions;
    if (place < 0 || !ps_v8_bytes_open(v8, table, &out->own)) {
        return false;
    }
    out->earlier = out->own;
    out->own.at += (uint32_t)place;
    out->own.readable = out->own.at;
    out->left_out = 0;
    if (!begin(v8, &out->own, &distance, &out->functions)) {
        return false;
    }
    out->has_earlier = distance != 0;
    if (distance > (uint32_t)place) {
        return false;
    }
    out->earlier.at += (uint32_t)place - distance;
    out->earlier.readable = out->earlier.at;
    return !out->has_earlier || begin(v8, &out->earlier, &ignored, &functions);
}

/* An operation of the earlier description, which leaves none out. */
static bool next_earlier(struct ps_v8 *v8, struct description *from, struct operation *out) {
    uint8_t kind;
    if (!ps_v8_bytes_next(v8, &from->earlier, &kind) || kind >= MATCH) {
        return false;
    }
    out->kind = kind;
    return read_operands(v8, &from->earlier, out);
}

static bool next_operation(struct ps_v8 *v8, struct description *from, struct operation *out) {
    uint8_t kind;
    if (from->left_out == 0) {
        if (!ps_v8_bytes_next(v8, &from->own, &kind)) {
            return false;
        }
        if (kind < MATCH) {
            struct operation ignored;
            out->kind = kind;
            /* The earlier one may have fewer, and may end there. */
            from->has_earlier = from->has_earlier && next_earlier(v8, from, &ignored);
            return read_operands(v8, &from->own, out);
        }
        from->left_out = kind - OPERATIONS;
        if (kind == MATCH && !ps_v8_bytes_number(v8, &from->own, &from->left_out)) {
            return false;
        }
    }
    from->left_out--;
    return from->has_earlier && next_earlier(v8, from, out);
}

/* ---- places ---- */

/* The instructions of a function; of one that has other code, by that. 0: there are none. */
static uintptr_t bytecode_of(struct ps_v8 *v8, uintptr_t shared) {
    uintptr_t word = ps_v8_field(v8, shared, PS_V8_SHARED_CODE);
    uintptr_t code = ps_v8_object(v8, word, PS_V8_TYPE_CODE);
    return ps_v8_object(v8, code != 0 ? ps_v8_field(v8, code, PS_V8_CODE_INLINED) : word,
                        PS_V8_TYPE_BYTECODE);
}

static bool add_place(struct ps_v8 *v8, uintptr_t literals, const struct operation *frame,
                      struct ps_v8_place *out) {
    uintptr_t at = frame->function >= 0 ? ps_v8_element(v8, literals, (size_t)frame->function) : 0;
    uintptr_t shared = at != 0 ? ps_v8_shared_at(v8, at) : 0;
    uintptr_t bytecode = shared != 0 ? bytecode_of(v8, shared) : 0;
    *out = (struct ps_v8_place){shared, PS_V8_NO_POSITION};
    if (bytecode != 0) {
        out->position = ps_v8_position(v8, bytecode, frame->instruction);
    }
    return shared != 0;
}

/* Puts the innermost first. */
static void reverse(struct ps_v8_place *places, size_t count) {
    for (size_t i = 0; i < count / 2; i++) {
        struct ps_v8_place place = places[i];
        places[i] = places[count - 1 - i];
        places[count - 1 - i] = place;
    }
}

size_t ps_v8_maglev_places(struct ps_v8 *v8, uintptr_t data, uintptr_t calls_at, uint32_t offset,
                           struct ps_v8_place *out) {
    struct calls calls;
    struct description description;
    struct operation operation = {.kind = 0};
    if (ps_v8_offset(v8, PS_V8_INDEX_ENTRIES) == PS_V8_NONE || !open_calls(v8, calls_at, &calls)) {
        return 0;
    }
    int32_t number = number_of(v8, &calls, offset);
    size_t entry = ps_v8_offset(v8, PS_V8_INDEX_ENTRIES) + (uint32_t)number * (size_t)ENTRY_WORDS;
    uintptr_t at = number >= 0 ? ps_v8_element(v8, data, entry + ENTRY_FRAMES) : 0;
    uintptr_t place = at != 0 ? ps_v8_word(v8, at) : 1;
    uintptr_t table = ps_v8_indexed(v8, data, PS_V8_INDEX_FRAMES);
    uintptr_t literals = ps_v8_indexed(v8, data, PS_V8_INDEX_LITERALS);
    if (!ps_v8_is_number(place) ||
        !open_description(v8, table, ps_v8_number(place), &description)) {
        return 0;
    }
    size_t count = 0;
    for (size_t i = 0; i < OPERATION_LIMIT && description.functions > 0; i++) {
        if (!next_operation(v8, &description, &operation) || count == PS_V8_INLINED) {
            return 0;
        }
        description.functions -= operation.kind <= LAST_FRAME ? 1 : 0;
        if (operation.kind <= FRAME_WITHOUT_RETURN) {
            count += add_place(v8, literals, &operation, &out[count]) ? 1 : 0;
        }
    }
    reverse(out, description.functions > 0 ? 0 : count);
    return description.functions > 0 ? 0 : count;
}
