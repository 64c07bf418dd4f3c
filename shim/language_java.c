/* SPDX-License-Identifier: MIT */
/*
 * See language.h: frames of Java, of HotSpot 11, 17, 21 and 25. The virtual machine describes its
 * structures to debuggers by tables that it exports (gHotSpotVMStructs); they are read once. A
 * thread that has called native code, or the machine itself, has an anchor: the stack pointer, the
 * frame pointer and the return address of the innermost frame of Java. From there on the frames
 * are followed as the machine does for its own stack traces: an interpreted frame by its frame
 * pointer, a compiled one by the length of its frame, and the calls from native code in between by
 * the anchors that they have saved.
 *
 * The thread is a thread-specific value: the one that leads to the thread's number. No function of
 * the machine is called. State: the key of that value, in the runtime; how often it was searched.
 */
#include "shim/language_java.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"

#include <limits.h>
#include <pthread.h>

#define WORD_BYTES sizeof(uintptr_t)
#define STEPS 4  /* for a frame: stubs are frames, too */
#define TRIES 64 /* to find the machine by a thread */
/* Words from the frame pointer of an interpreted frame. */
#define FRAME_SENDER (-1) /* the caller's stack pointer */
#define FRAME_METHOD (-3)
#define FRAME_PLACE (-8)     /* the instruction in the method's code */
#define FRAME_PLACE_ARM (-9) /* on 64-bit ARM, from this version on */
#define VERSION_PLACE_ARM 20
#define CALL_PLACE_ARM 8 /* on 64-bit ARM, which has it in no table */

/* A frame whose code is continued at pc. */
struct frame {
    uintptr_t sp;
    uintptr_t fp;
    uintptr_t pc;
};

/* ---- the tables ---- */

/* The symbols of a table: its address, the bytes of an entry, and the offsets in one. */
struct entry_layout {
    const char *table, *stride;
    const char *type, *field, *is_variable, *value, *address;
};

static const struct entry_layout structs = {
    "gHotSpotVMStructs",
    "gHotSpotVMStructEntryArrayStride",
    "gHotSpotVMStructEntryTypeNameOffset",
    "gHotSpotVMStructEntryFieldNameOffset",
    "gHotSpotVMStructEntryIsStaticOffset",
    "gHotSpotVMStructEntryOffsetOffset",
    "gHotSpotVMStructEntryAddressOffset",
};
static const struct entry_layout types = {
    .table = "gHotSpotVMTypes",
    .stride = "gHotSpotVMTypeEntryArrayStride",
    .type = "gHotSpotVMTypeEntryTypeNameOffset",
    .value = "gHotSpotVMTypeEntrySizeOffset",
};
static const struct entry_layout constants = {
    .table = "gHotSpotVMIntConstants",
    .stride = "gHotSpotVMIntConstantEntryArrayStride",
    .type = "gHotSpotVMIntConstantEntryNameOffset",
    .value = "gHotSpotVMIntConstantEntryValueOffset",
};

#define ENTRIES_LIMIT 16384
#define ENTRY_BYTES_LIMIT 256

struct wanted {
    const char *type, *field;
    uint8_t index;
    bool is_variable;
};

static const struct wanted wanted[] = {
#define PS_JAVA(name, type, field) {type, field, PS_JAVA_##name, false},
#define PS_JAVA_MAYBE PS_JAVA
#define PS_JAVA_ALSO PS_JAVA
#define PS_JAVA_VARIABLE(name, type, field) {type, field, PS_JAVA_##name, true},
#include "shim/language_java.def"
#undef PS_JAVA
#undef PS_JAVA_MAYBE
#undef PS_JAVA_ALSO
#undef PS_JAVA_VARIABLE
};

/* Fields that each version has. */
static const uint8_t required[] = {
#define PS_JAVA(name, type, field) PS_JAVA_##name,
#define PS_JAVA_MAYBE(name, type, field)
#define PS_JAVA_ALSO(name, type, field)
#define PS_JAVA_VARIABLE(name, type, field)
#include "shim/language_java.def"
#undef PS_JAVA
#undef PS_JAVA_MAYBE
#undef PS_JAVA_ALSO
#undef PS_JAVA_VARIABLE
    PS_JAVA_CALL_PLACE,
};

/* Either all of the first, or all of the second, which came with Java 24. */
static const uint8_t code_old[] = {PS_JAVA_BLOB_START, PS_JAVA_CODE_PLACES_END,
                                   PS_JAVA_CODE_METADATA, PS_JAVA_CODE_SCOPES, PS_JAVA_CODE_LEFT};
static const uint8_t code_new[] = {PS_JAVA_BLOB_START_OFFSET, PS_JAVA_BLOB_MUTABLE,
                                   PS_JAVA_BLOB_RELOCATIONS,  PS_JAVA_CODE_SCOPES_OFFSET,
                                   PS_JAVA_CODE_LEFT_OFFSET,  PS_JAVA_CODE_IMMUTABLE};

static bool has_all(const struct ps_language_runtime *runtime, const uint8_t *fields,
                    size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (runtime->offsets[fields[i]] == PS_JAVA_NONE) {
            return false;
        }
    }
    return true;
}

/* The value of a variable of the tables; 0: there is none. */
static uintptr_t value_of(const struct ps_language_object *object, const char *name) {
    struct ps_language_symbol symbol;
    uintptr_t value = 0;
    if (name != NULL && ps_language_object_find(object, name, &symbol) &&
        symbol.bytes >= sizeof value) {
        memcpy(&value, (const void *)symbol.address, sizeof value);
    }
    return value;
}

/* A table, by the values of its layout. */
struct table {
    uintptr_t at;
    size_t stride, type, field, is_variable, value, address;
};

static bool open_table(const struct ps_language_object *object, const struct entry_layout *layout,
                       struct table *out) {
    *out = (struct table){.at = value_of(object, layout->table),
                          .stride = value_of(object, layout->stride),
                          .type = value_of(object, layout->type),
                          .field = value_of(object, layout->field),
                          .is_variable = value_of(object, layout->is_variable),
                          .value = value_of(object, layout->value),
                          .address = value_of(object, layout->address)};
    size_t last = ps_max(ps_max(ps_max(out->type, out->field), out->is_variable),
                         ps_max(out->value, out->address));
    return out->stride != 0 && out->stride <= ENTRY_BYTES_LIMIT && last + WORD_BYTES <= out->stride;
}

static uintptr_t word_of(uintptr_t entry, size_t offset) {
    uintptr_t word;
    memcpy(&word, (const void *)(entry + offset), sizeof word);
    return word;
}

static bool is_inside(const struct ps_language_object *object, uintptr_t address, size_t bytes) {
    return address - object->start < object->end - object->start && bytes <= object->end - address;
}

/* The text of an entry, ""; NULL after the last entry. */
static const char *text_of(const struct ps_language_object *object, uintptr_t entry,
                           size_t offset) {
    uintptr_t text = word_of(entry, offset);
    return is_inside(object, text, 1) ? (const char *)text : NULL;
}

static uint16_t offset_of(uintptr_t value) {
    return value < PS_JAVA_NONE ? (uint16_t)value : PS_JAVA_NONE;
}

static void take_field(const struct ps_language_object *object, const struct table *table,
                       uintptr_t entry, struct ps_language_runtime *out) {
    const char *type = text_of(object, entry, table->type);
    const char *field = text_of(object, entry, table->field);
    for (size_t i = 0; field != NULL && i < sizeof wanted / sizeof wanted[0]; i++) {
        const struct wanted *one = &wanted[i];
        bool is_variable = *(const int32_t *)(entry + table->is_variable) != 0;
        if (one->is_variable != is_variable || strcmp(one->type, type) != 0 ||
            strcmp(one->field, field) != 0) {
            continue;
        }
        if (is_variable) {
            out->variables[one->index] = word_of(entry, table->address);
        } else {
            out->offsets[one->index] = offset_of(word_of(entry, table->value));
        }
    }
}

static void take_type(const struct ps_language_object *object, const struct table *table,
                      uintptr_t entry, struct ps_language_runtime *out) {
    const char *type = text_of(object, entry, table->type);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (wanted[i].field[0] == '\0' && strcmp(wanted[i].type, type) == 0) {
            out->offsets[wanted[i].index] = offset_of(word_of(entry, table->value));
        }
    }
}

static void take_constant(const struct ps_language_object *object, const struct table *table,
                          uintptr_t entry, struct ps_language_runtime *out) {
    const char *name = text_of(object, entry, table->type);
    if (strcmp(name, "frame::entry_frame_call_wrapper_offset") == 0) {
        int32_t value = *(const int32_t *)(entry + table->value);
        out->offsets[PS_JAVA_CALL_PLACE] = offset_of((uintptr_t)(-(intptr_t)value));
    }
}

typedef void take_entry(const struct ps_language_object *object, const struct table *table,
                        uintptr_t entry, struct ps_language_runtime *out);

/* Reads a table up to the entry without a name. */
static void read_table(const struct ps_language_object *object, const struct entry_layout *layout,
                       take_entry *take, struct ps_language_runtime *out) {
    struct table table;
    if (!open_table(object, layout, &table)) {
        return;
    }
    for (size_t i = 0; i < ENTRIES_LIMIT; i++) {
        uintptr_t entry = table.at + i * table.stride;
        if (!is_inside(object, entry, table.stride) || text_of(object, entry, table.type) == NULL) {
            return;
        }
        take(object, &table, entry, out);
    }
}

static size_t java_frames(struct ps_language_runtime *runtime,
                          const struct ps_language_stack *stack, struct ps_language_frame *out,
                          size_t limit);

enum ps_language_answer ps_java_start(const struct ps_language_object *object,
                                      struct ps_language_runtime *out) {
    if (value_of(object, structs.stride) == 0) {
        return PS_LANGUAGE_LATER;
    }
    for (size_t i = 0; i < PS_JAVA_FIELDS; i++) {
        out->offsets[i] = PS_JAVA_NONE;
    }
    out->offsets[PS_JAVA_CALL_PLACE] = CALL_PLACE_ARM;
    read_table(object, &structs, take_field, out);
    read_table(object, &types, take_type, out);
    read_table(object, &constants, take_constant, out);
    for (size_t i = 0; i < PS_JAVA_VARIABLES; i++) {
        if (!is_inside(object, out->variables[i], WORD_BYTES)) {
            return PS_LANGUAGE_NONE;
        }
    }
    out->has_frames = true;
    out->frames = java_frames;
    bool is_whole =
        has_all(out, required, sizeof required) &&
        (has_all(out, code_old, sizeof code_old) || has_all(out, code_new, sizeof code_new)) &&
        (out->offsets[PS_JAVA_POOL_FILE] != PS_JAVA_NONE ||
         out->offsets[PS_JAVA_CLASS_FILE] != PS_JAVA_NONE);
    return is_whole ? PS_LANGUAGE_FOUND : PS_LANGUAGE_NONE;
}

/* ---- memory ---- */

uintptr_t ps_java_word_at(struct ps_java *java, uintptr_t address) {
    uintptr_t word;
    ps_language_copy(&java->memory, address, &word, sizeof word);
    return word;
}

int32_t ps_java_int_at(struct ps_java *java, uintptr_t address) {
    int32_t number;
    ps_language_copy(&java->memory, address, &number, sizeof number);
    return number;
}

uint16_t ps_java_short_at(struct ps_java *java, uintptr_t address) {
    uint16_t number;
    ps_language_copy(&java->memory, address, &number, sizeof number);
    return number;
}

/* ---- the thread ---- */

/* True if the value is the thread of the machine that the calling thread is. */
static bool is_thread(struct ps_java *java, uintptr_t value) {
    uintptr_t system = value != 0 && value % WORD_BYTES == 0
                           ? ps_java_word(java, value, PS_JAVA_THREAD_SYSTEM)
                           : 0;
    return system != 0 &&
           (uint32_t)ps_java_int(java, system, PS_JAVA_SYSTEM_NUMBER) == ps_os_thread_number();
}

/* The calling thread; 0: it is none of the machine's. */
static uintptr_t own_thread(struct ps_java *java, uint32_t *x_key) {
    uint32_t known = ps_load_relaxed(x_key); /* relaxed: the word is all there is */
    uint32_t first = known != 0 ? known - 1 : 0;
    uint32_t last = known != 0 ? first : PTHREAD_KEYS_MAX - 1;
    for (uint32_t key = first; key <= last; key++) {
        uintptr_t value = (uintptr_t)pthread_getspecific(key);
        if (is_thread(java, value)) {
            ps_store_relaxed(x_key, key + 1); /* relaxed: as above */
            return value;
        }
    }
    return 0;
}

/* An object of a class of the machine begins with an address in the machine's file. */
bool ps_java_find_object(struct ps_unwind_object *out) {
    static uint32_t x_tries;
    struct ps_language_object object;
    struct ps_language_symbol symbol;
    struct ps_java java = {.count = 0};
    /* relaxed, both: an inexact count is enough. */
    uint32_t tries = ps_load_relaxed(&x_tries);
    if (tries >= TRIES) {
        return false;
    }
    ps_store_relaxed(&x_tries, tries + 1);
    for (uint32_t key = 0; key < PTHREAD_KEYS_MAX; key++) {
        uintptr_t value = (uintptr_t)pthread_getspecific(key);
        uintptr_t first = value % WORD_BYTES == 0 ? ps_java_word_at(&java, value) : 0;
        if (first != 0 && ps_unwind_object_find(first, out) &&
            ps_language_object_open(out, &object) &&
            ps_language_object_find(&object, structs.table, &symbol)) {
            return true;
        }
    }
    return false;
}

/* ---- frames ---- */

static bool take_anchor(struct ps_java *java, uintptr_t anchor, struct frame *out) {
    out->sp = ps_java_word(java, anchor, PS_JAVA_ANCHOR_SP);
    out->fp = ps_java_word(java, anchor, PS_JAVA_ANCHOR_FP);
    out->pc = ps_java_word(java, anchor, PS_JAVA_ANCHOR_PC);
    if (out->pc == 0 && out->sp != 0) { /* the call has pushed it */
        out->pc = ps_java_word_at(java, out->sp - WORD_BYTES);
    }
    return out->sp != 0;
}

static uintptr_t word_of_frame(struct ps_java *java, const struct frame *frame, int place) {
    return ps_java_word_at(java, frame->fp + (uintptr_t)((intptr_t)place * (intptr_t)WORD_BYTES));
}

static void add_interpreted(struct ps_java *java, const struct frame *frame) {
    bool is_arm = java->runtime->offsets[PS_JAVA_CALL_PLACE] == CALL_PLACE_ARM;
    int place = is_arm && java->version >= VERSION_PLACE_ARM ? FRAME_PLACE_ARM : FRAME_PLACE;
    ps_java_add_at(java, word_of_frame(java, frame, FRAME_METHOD),
                   word_of_frame(java, frame, place));
}

/* From an interpreted frame to its caller, which may have made room on the stack for the call. */
static void leave_interpreted(struct ps_java *java, struct frame *frame) {
    struct frame caller = {.sp = word_of_frame(java, frame, FRAME_SENDER),
                           .fp = word_of_frame(java, frame, 0),
                           .pc = word_of_frame(java, frame, 1)};
    *frame = caller;
}

static void leave_compiled(struct ps_java *java, const struct ps_java_blob *blob,
                           struct frame *frame) {
    uintptr_t sp = frame->sp + blob->frame_bytes;
    *frame = (struct frame){.sp = sp,
                            .fp = ps_java_word_at(java, sp - 2 * WORD_BYTES),
                            .pc = ps_java_word_at(java, sp - WORD_BYTES)};
}

/* From a call by native code to the frames that had called that. False: there are none. */
static bool leave_call(struct ps_java *java, struct frame *frame) {
    int place = -(int)java->runtime->offsets[PS_JAVA_CALL_PLACE];
    uintptr_t call = word_of_frame(java, frame, place);
    if (java->count != 0) {
        java->out[java->count - 1].is_entry = true;
    }
    return call != 0 && take_anchor(java, ps_java_address(java, call, PS_JAVA_CALL_ANCHOR), frame);
}

/* Adds the frames of this one, and goes to its caller. False: it is the last. */
static bool step(struct ps_java *java, uintptr_t call_return, struct frame *frame) {
    if (frame->pc == call_return) {
        return leave_call(java, frame);
    }
    const struct ps_java_blob *blob = ps_java_blob_of(java, frame->pc);
    switch (blob->kind) {
    case PS_JAVA_INTERPRETER:
        add_interpreted(java, frame);
        leave_interpreted(java, frame);
        return true;
    case PS_JAVA_METHOD:
        ps_java_add_compiled(java, blob->address, frame->pc, frame->sp);
        leave_compiled(java, blob, frame);
        return true;
    case PS_JAVA_STUB:
        leave_compiled(java, blob, frame);
        return true;
    default:
        return false;
    }
}

static bool is_version(unsigned version) {
    return version == 11 || version == 17 || version == 21 || version == 25;
}

static size_t java_frames(struct ps_language_runtime *runtime,
                          const struct ps_language_stack *stack, struct ps_language_frame *out,
                          size_t limit) {
    struct ps_java java = {.runtime = runtime, .out = out, .limit = limit};
    (void)stack;
    struct frame frame;
    uintptr_t thread = own_thread(&java, &runtime->x_key);
    java.version = (unsigned)ps_java_int_at(&java, runtime->variables[PS_JAVA_VERSION]);
    if (thread == 0 || !is_version(java.version) ||
        !take_anchor(&java, ps_java_address(&java, thread, PS_JAVA_THREAD_ANCHOR), &frame)) {
        return 0;
    }
    uintptr_t high = ps_java_word(&java, thread, PS_JAVA_THREAD_STACK);
    uintptr_t bytes = ps_java_word(&java, thread, PS_JAVA_THREAD_STACK_BYTES);
    uintptr_t call_return = ps_java_word_at(&java, runtime->variables[PS_JAVA_CALL_RETURN]);
    uintptr_t low = high - bytes;
    /* The stack pointer of the caller must be higher: that ends each walk. */
    for (size_t i = 0; i < STEPS * limit && java.count < limit; i++) {
        uintptr_t sp = frame.sp;
        if (sp <= low || sp > high || !step(&java, call_return, &frame)) {
            break;
        }
        low = sp;
    }
    return java.count;
}
