/* SPDX-License-Identifier: MIT */
/*
 * A program with the tables and structures by which a virtual machine of Java describes itself, for
 * test_java_damage.py, which places the fields: F_<name> is an offset, F_<type>_BYTES a length. A
 * thread of it has a compiled method with one that was inlined, called by an interpreted one, which
 * native code has called from another compiled one.
 *
 *   ./machine         takes a block
 *   ./machine 1000    takes as many, each with one damaged word; ends with 0 if it survives
 */
#include "fields.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MEMORY_BYTES (64 << 10)
#define SEGMENT_SHIFT 7
#define BLOCK_SEGMENTS 8
#define PLACE 16          /* of each return, in compiled code */
#define BLOCK_BYTES 50000 /* of malloc: each is sampled */
#define WORD(object, field) (*(uint64_t *)((object) + (field)))

struct entry {
    const char *type, *field, *unused;
    int32_t is_variable;
    uint64_t offset;
    void *address;
};
struct type_entry {
    const char *type;
    uint64_t bytes;
};
struct constant_entry {
    const char *name;
    int64_t value;
};

uint64_t heaps, code_low, code_high, call_return, version = VERSION;
struct entry entries[] = {FIELD_ENTRIES{"CodeCache", "_heaps", "", 1, 0, &heaps},
                          {"CodeCache", "_low_bound", "", 1, 0, &code_low},
                          {"CodeCache", "_high_bound", "", 1, 0, &code_high},
                          {"StubRoutines", "_call_stub_return_address", "", 1, 0, &call_return},
                          {"Abstract_VM_Version", "_vm_major_version", "", 1, 0, &version},
                          {0}};
struct type_entry type_entries[] = {TYPE_ENTRIES{0}};
struct constant_entry constant_entries[] = {{"frame::entry_frame_call_wrapper_offset", -6}, {0}};

struct entry *gHotSpotVMStructs = entries;
uint64_t gHotSpotVMStructEntryArrayStride = sizeof(struct entry);
uint64_t gHotSpotVMStructEntryTypeNameOffset = offsetof(struct entry, type);
uint64_t gHotSpotVMStructEntryFieldNameOffset = offsetof(struct entry, field);
uint64_t gHotSpotVMStructEntryIsStaticOffset = offsetof(struct entry, is_variable);
uint64_t gHotSpotVMStructEntryOffsetOffset = offsetof(struct entry, offset);
uint64_t gHotSpotVMStructEntryAddressOffset = offsetof(struct entry, address);
struct type_entry *gHotSpotVMTypes = type_entries;
uint64_t gHotSpotVMTypeEntryArrayStride = sizeof(struct type_entry);
uint64_t gHotSpotVMTypeEntryTypeNameOffset = offsetof(struct type_entry, type);
uint64_t gHotSpotVMTypeEntrySizeOffset = offsetof(struct type_entry, bytes);
struct constant_entry *gHotSpotVMIntConstants = constant_entries;
uint64_t gHotSpotVMIntConstantEntryArrayStride = sizeof(struct constant_entry);
uint64_t gHotSpotVMIntConstantEntryNameOffset = offsetof(struct constant_entry, name);
uint64_t gHotSpotVMIntConstantEntryValueOffset = offsetof(struct constant_entry, value);

static char *memory;
static size_t used;

static char *take(size_t bytes) {
    char *at = memory + used;
    used += (bytes + 15) & ~(size_t)15;
    return at;
}

static uint64_t symbol(const char *text) {
    char *at = take(F_SYMBOL_BODY + strlen(text));
    WORD(at, F_SYMBOL_LENGTH) = strlen(text);
    memcpy(at + F_SYMBOL_BODY, text, strlen(text));
    return (uint64_t)at;
}

/* Lines 5 and, from byte 10 on, 7. */
static char *method(const char *name) {
    static const char lines[] = {5, 10 << 3 | 2, 0};
    char *at = take(128), *constant = take(F_CONST_BYTES + 64), *pool = take(F_POOL_BYTES + 64);
    char *tags = take(F_TAGS_DATA + 16), *owner = take(128);
    WORD(at, F_METHOD_CONST) = (uint64_t)constant;
    WORD(constant, F_CONST_POOL) = (uint64_t)pool;
    WORD(constant, F_CONST_WORDS) = (F_CONST_BYTES + 64) / 8;
    WORD(constant, F_CONST_FLAGS) = 1;
    WORD(constant, F_CONST_CODE_BYTES) = 32;
    WORD(constant, F_CONST_NAME) = 1;
    memcpy(constant + F_CONST_BYTES + 32, lines, sizeof lines);
    WORD(pool, F_POOL_TAGS) = (uint64_t)tags;
    WORD(pool, F_POOL_CLASS) = (uint64_t)owner;
    WORD(pool, F_POOL_LENGTH) = 3;
    WORD(pool, F_POOL_FILE) = 2;
    WORD(pool, F_POOL_BYTES + 8) = symbol(name);
    WORD(pool, F_POOL_BYTES + 16) = symbol("Planted.java");
    tags[F_TAGS_DATA + 1] = tags[F_TAGS_DATA + 2] = 1;
    WORD(owner, F_CLASS_NAME) = symbol("of/Planted");
    return at;
}

static char *blob(size_t number, const char *name, size_t frame_words) {
    char *block = (char *)code_low + (number * BLOCK_SEGMENTS << SEGMENT_SHIFT);
    char *at = block + F_BLOCK_BYTES;
    WORD(block, F_BLOCK_IS_USED) = 1;
    WORD(at, F_BLOB_NAME) = (uint64_t)strcpy(take(16), name);
    WORD(at, F_BLOB_FRAME) = frame_words;
    return at;
}

static void place_code(char *at, uint64_t code, char *places, char *scopes, char *metadata) {
    if (VERSION < 24) {
        WORD(at, F_BLOB_START) = code;
        WORD(at, F_CODE_PLACES) = (uint64_t)(places - at);
        WORD(at, F_CODE_PLACES_END) = (uint64_t)(scopes - at);
        WORD(at, F_CODE_SCOPES) = (uint64_t)scopes;
        WORD(at, F_CODE_METADATA) = (uint64_t)(metadata - at);
    } else {
        WORD(at, F_BLOB_START_OFFSET) = code - (uint64_t)at;
        WORD(at, F_CODE_SCOPES_OFFSET) = (uint64_t)(scopes - places);
        WORD(at, F_CODE_IMMUTABLE) = (uint64_t)places;
        WORD(at, F_BLOB_MUTABLE) = (uint64_t)metadata - 16;
        WORD(at, F_BLOB_RELOCATIONS) = 16;
    }
}

/* Two methods, the first inlined into the second at PLACE, or one. From Java 20 on, bytes of
 * numbers have 1 added. */
static uint64_t compiled(size_t number, char *inner, char *outer) {
    char *at = blob(number, "nmethod", 6), *metadata = take(32), *places = take(256);
    char *scopes = places + 3 * F_PLACE_BYTES;
    uint64_t code = (uint64_t)at + 512;
    char one = VERSION >= 20;
    WORD(metadata, 0) = (uint64_t)outer;
    WORD(metadata, 8) = (uint64_t)inner;
    WORD(at, F_CODE_METHOD) = (uint64_t)outer;
    for (int i = 0; i < 3; i++) { /* it, one before and one after it */
        WORD(places + i * F_PLACE_BYTES, F_PLACE_OFFSET) = (uint64_t)(PLACE - 8 + 8 * i);
        WORD(places + i * F_PLACE_BYTES, F_PLACE_SCOPE) = inner != NULL ? 8 : 1;
    }
    /* The scope into which it was inlined, the method, and 1 more than the byte of its code. */
    memcpy(scopes + 1, (char[]){(char)(0 + one), (char)(1 + one), (char)(12 + one)}, 3);
    memcpy(scopes + 8, (char[]){(char)(1 + one), (char)(2 + one), (char)(3 + one)}, 3);
    place_code(at, code, places, scopes, metadata);
    return code + PLACE;
}

/* A frame of a compiled method; returns its stack pointer. */
static uint64_t push_compiled(uint64_t *stack, size_t at, uint64_t pc, uint64_t *fp) {
    stack[at + 5] = pc;
    stack[at + 4] = (uint64_t)fp;
    return (uint64_t)(stack + at);
}

static void anchor(char *at, uint64_t sp, uint64_t pc) {
    WORD(at, F_ANCHOR_SP) = sp;
    WORD(at, F_ANCHOR_PC) = pc;
}

static void make_code(void) {
    char *list = take(128), *items = take(64), *heap = take(256), *map = take(256);
    code_low = (uint64_t)take(6 * BLOCK_SEGMENTS << SEGMENT_SHIFT);
    code_high = (uint64_t)memory + used;
    for (int i = 0; i < 6 * BLOCK_SEGMENTS; i++) {
        map[i] = (char)(i % BLOCK_SEGMENTS);
    }
    heaps = (uint64_t)list;
    WORD(list, F_LIST_LENGTH) = 1;
    WORD(list, F_LIST_DATA) = (uint64_t)items;
    WORD(items, 0) = (uint64_t)heap;
    WORD(heap, F_HEAP_SHIFT) = SEGMENT_SHIFT;
    WORD(heap + F_HEAP_MEMORY, F_SPACE_LOW) = code_low;
    WORD(heap + F_HEAP_MEMORY, F_SPACE_HIGH) = code_high;
    WORD(heap + F_HEAP_SEGMENTS, F_SPACE_LOW) = (uint64_t)map;
}

static char *make_thread(void) {
    char *thread = take(256), *system = take(64), *call = take(64);
    uint64_t *stack = (uint64_t *)take(2048);
    uint64_t first = compiled(1, method("inner"), method("outer"));
    uint64_t last = compiled(2, NULL, method("last"));
    uint64_t interpreter = (uint64_t)blob(0, "Interpreter", 0) + 64;
    uint64_t *frame = stack + 40, *entry = stack + 80;
    char *interpreted = method("interpreted");
    WORD(thread, F_THREAD_SYSTEM) = (uint64_t)system;
    WORD(system, F_SYSTEM_NUMBER) = (uint64_t)syscall(SYS_gettid);
    WORD(thread, F_THREAD_STACK) = (uint64_t)(stack + 256);
    WORD(thread, F_THREAD_STACK_BYTES) = 2048;
    call_return = code_low + (4 * BLOCK_SEGMENTS << SEGMENT_SHIFT);
    anchor(thread + F_THREAD_ANCHOR, push_compiled(stack, 10, interpreter, frame), first);
    frame[0] = (uint64_t)entry;
    frame[1] = call_return;
    frame[-1] = (uint64_t)(frame + 2);
    frame[-3] = (uint64_t)interpreted;
    frame[-8] = WORD(interpreted, F_METHOD_CONST) + F_CONST_BYTES + 9; /* byte 9 */
    entry[-6] = (uint64_t)call;
    anchor(call + F_CALL_ANCHOR, push_compiled(stack, 100, 0, NULL), last);
    return thread;
}

/* Values that fields have by mistake: other words, their parts, ends of the memory. */
static uint64_t damage(uint64_t word) {
    uint64_t ends[] = {0, UINT64_MAX, (uint64_t)memory + MEMORY_BYTES - 1, (uint64_t)memory - 1,
                       WORD(memory, (unsigned)rand() % (used / 8) * 8)};
    switch (rand() % 5) {
    case 0:
        return word ^ 1ull << rand() % 64;
    case 1:
        return word + (uint64_t)(rand() % 64) - 32;
    case 2:
        return (uint64_t)rand() << 33 ^ (uint64_t)rand();
    default:
        return ends[(unsigned)rand() % (sizeof ends / sizeof ends[0])];
    }
}

static void __attribute__((noinline)) allocate(void) {
    void *block = malloc(BLOCK_BYTES);
    __asm__ volatile("" : "+r"(block) : : "memory");
    free(block);
}

int main(int argc, char **words) {
    pthread_key_t key;
    /* The pages before and after cannot be read. */
    memory = mmap(NULL, MEMORY_BYTES + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory += 4096;
    if (mprotect(memory, MEMORY_BYTES, PROT_READ | PROT_WRITE) != 0) {
        return 1;
    }
    make_code();
    pthread_key_create(&key, NULL);
    pthread_setspecific(key, make_thread());
    allocate();
    for (int i = argc > 1 ? atoi(words[1]) : 0; i > 0; i--) {
        uint64_t *place = &WORD(memory, (unsigned)rand() % (used / 8) * 8), word = *place;
        *place = damage(word);
        allocate();
        *place = word;
    }
    allocate();
    printf("%zu bytes\n", used);
    return used > MEMORY_BYTES;
}
