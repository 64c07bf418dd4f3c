// expect: exit 0
// env: POOLSHIM_PROFILE=/dev/null POOLSHIM_PROFILE_INTERVAL=512
// flags: -rdynamic
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * A program that exports the symbols of node, and calls malloc from frames of code without unwind
 * tables. Random words of the structures of V8 beside them are wrong: addresses that are not
 * mapped, of other objects, without a tag; lengths beyond all memory. The profile takes stacks of
 * it. Each version of V8, and one that is not known, runs in a process of its own. Where code is
 * not found, the frame is taken for one of V8's interpreter afterwards, if it has an instruction.
 */
#include "claim.h"
#include "tests/arch/arch.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 4000
#define PAGES 12
#define PAGE 4096
#define WORDS (PAGE / 8)
#define OBJECT 32 /* words between two objects */
#define SLOTS 8   /* of a frame, below its pointer */
#define CODE_AT (3 * OBJECT * 8)
#define CODE_BYTES 128

#if TEST_HAS_CODE
static const unsigned char code[] = TEST_CODE_WITH_SLOTS;
#else
static const unsigned char code[1];
#endif

/* V8's metadata: what differs between versions is as in the last one. */
#define EXPORT(name, value) int name = value
EXPORT(_ZN2v88internal7Version6major_E, 0);
EXPORT(_ZN2v88internal7Version6minor_E, 0);
EXPORT(v8dbg_off_fp_function, -16);
EXPORT(v8dbg_TaggedSize, 8);
EXPORT(v8dbg_SmiShiftSize, 31);
EXPORT(v8dbg_class_JSFunction__shared__SharedFunctionInfo, 32);
EXPORT(v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object, 24);
EXPORT(v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject, 40);
EXPORT(v8dbg_class_BytecodeArray__data__uintptr_t, 64);
EXPORT(v8dbg_type_JSFunction__JS_FUNCTION_TYPE, 2065);
EXPORT(v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE, 282);
EXPORT(v8dbg_type_Script__SCRIPT_TYPE, 167);
EXPORT(v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE, 280);
EXPORT(v8dbg_type_Code__CODE_TYPE, 187);
EXPORT(v8dbg_type_BytecodeArray__BYTECODE_ARRAY_TYPE, 186);
EXPORT(v8dbg_type_FixedArray__FIXED_ARRAY_TYPE, 205);
EXPORT(v8dbg_type_ByteArray__BYTE_ARRAY_TYPE, 217);
EXPORT(v8dbg_CodeKindBaseline, 10);

enum object {
    FUNCTION,
    SHARED,
    SCRIPT,
    CODE,
    SCOPE = CODE + 4,
    BYTECODE,
    LINES,
    INLINED,
    LITERALS,
    LINE_ENDS,
    TEXT,
    CONS,
    SOURCE,
    MAPS,
    OBJECTS = MAPS + 10
};
static const uint16_t types[OBJECTS] = {
    [FUNCTION] = 2065, [SHARED] = 282, [SCRIPT] = 167,  [CODE] = 187,     [SCOPE] = 280,
    [BYTECODE] = 186,  [LINES] = 217,  [INLINED] = 205, [LITERALS] = 205, [LINE_ENDS] = 205,
    [TEXT] = 40,       [CONS] = 41,    [SOURCE] = 40};

static char *memory; /* every third page cannot be read */
static char sound[OBJECTS * OBJECT * 8];
static uint64_t state = 88172645463325252u;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t address(int which) {
    return (uint64_t)(uintptr_t)memory + (uint64_t)which * OBJECT * 8;
}
static uint64_t tagged(int which) { return address(which) + 1; }
static uint64_t number(uint64_t value) { return value << 32; }

static void put(int which, size_t offset, uint64_t value) {
    memcpy(memory + address(which) - (uint64_t)(uintptr_t)memory + offset, &value, sizeof value);
}

static void put_map(int which, int map) {
    put(map, 8, (uint64_t)types[which] << 32); /* the type is at 12 */
    put(which, 0, tagged(map));
}

static void put_text(int which, const char *text) {
    put(which, 8, (uint64_t)strlen(text) << 32);
    memcpy(memory + address(which) - (uint64_t)(uintptr_t)memory + 16, text, strlen(text));
}

/* A function, its script, its code of a kind, and the tables of both. */
static void make_sound(unsigned version, unsigned kind) {
    static const int objects[] = {FUNCTION, SHARED, SCRIPT,  CODE, SCOPE,
                                  BYTECODE, LINES,  INLINED, TEXT, CONS};
    for (int i = 0; i < 10; i++) {
        put_map(objects[i], MAPS + i);
    }
    put(LITERALS, 0, tagged(MAPS + 7));
    put(LINE_ENDS, 0, tagged(MAPS + 7));
    put(SOURCE, 0, tagged(MAPS + 8));
    put(FUNCTION, 32, tagged(SHARED));
    put(SHARED, 8, tagged(BYTECODE));
    put(SHARED, 24, tagged(SCOPE));
    put(SHARED, 40, tagged(SCRIPT));
    put(SCRIPT, 8, tagged(SOURCE));
    put(SCRIPT, 16, tagged(draw() % 2 == 0 ? TEXT : CONS));
    put(SCRIPT, 56, draw() % 2 == 0 ? tagged(LINE_ENDS) : 0);
    put(SCOPE, 8, 0x171c4);
    put(SCOPE, version < 3 ? 32 : 48, tagged(TEXT));
    put(SCOPE, version < 3 ? 56 : 32, number(2));
    put(SCOPE, version < 3 ? 64 : 40, number(90));
    put(BYTECODE, 8, number(64));
    put(BYTECODE, 24, tagged(LINES));
    put(BYTECODE, 32, tagged(LINES));
    put(LINES, 8, number(120));
    for (size_t i = 16; i < 136; i += 8) {
        put(LINES, i, draw() & UINT64_C(0x7f0f7f0f7f0f7f0f));
    }
    put(INLINED, 8, number(20));
    for (size_t i = 16; i < 176; i += 8) {
        put(INLINED, i, draw() % 2 == 0 ? tagged(LITERALS) : tagged(LINES));
    }
    put(LITERALS, 8, number(4));
    put(LITERALS, 16, tagged(SHARED));
    put(LITERALS, 24, tagged(SHARED));
    put(LINE_ENDS, 8, number(3));
    put(LINE_ENDS, 16, number(10));
    put_text(TEXT, "file:///srv/%6Ceak.js");
    put(CONS, 8, number(42));
    put(CONS, 16, tagged(TEXT));
    put(CONS, 24, tagged(TEXT));
    put_text(SOURCE, "\n\r\n\nfunction leak() {\n}\n\n\n\n\n\n");
    put(CODE, 8, tagged(INLINED));
    put(CODE, 16, tagged(version == 1 ? INLINED : LINES));
    put(CODE, 24, tagged(LINES));
    put(CODE, 40, version == 0 ? 200 : address(CODE) + 128);
    put(CODE, 48, version < 3 ? kind | UINT64_C(200) << 32 : (uint64_t)kind << 32);
    put(CODE, 56, 200);
    for (size_t i = 96; i < 128 && version != 0; i += 16) { /* the heads of both lengths */
        put(CODE, i, tagged(MAPS));
        put(CODE, i + 8, tagged(CODE));
    }
    CLAIM(sizeof code <= CODE_BYTES);
    memcpy(memory + CODE_AT + 128, code, sizeof code);
}

static uint64_t hostile(void) {
    switch (draw() % 8) {
    case 0:
        return 0;
    case 1:
        return draw(); /* most are not canonical */
    case 2:
        return (uint64_t)(uintptr_t)memory + draw() % (PAGES * PAGE + PAGE);
    case 3:
        return (uint64_t)(uintptr_t)memory + (draw() % PAGES + 1) * PAGE - draw() % 64;
    case 4:
        return number(UINT32_MAX - draw() % 4096);
    case 5:
    case 6:
        return tagged((int)(draw() % OBJECTS)) | (draw() % 4 == 0 ? 2 : 0);
    default:
        return number(draw() % 256);
    }
}

/* The caller of malloc: most of its blocks are sampled. */
__attribute__((noinline)) static void allocate(void) {
    void *volatile block = malloc(4000);
    free(block);
}

static bool is_of_code(size_t word) {
    return word >= (CODE_AT + 128) / 8 && word < (CODE_AT + 128 + CODE_BYTES) / 8;
}

static void run(unsigned version, unsigned kind) {
    static const int versions[][2] = {{10, 2}, {11, 3}, {12, 4}, {13, 6}, {14, 0}};
    memory = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CLAIM(memory != MAP_FAILED);
    CLAIM(sizeof sound <= 2 * PAGE);
    _ZN2v88internal7Version6major_E = versions[version][0];
    _ZN2v88internal7Version6minor_E = versions[version][1];
    make_sound(version, kind);
    memcpy(sound, memory, sizeof sound);
    for (size_t i = 2 * WORDS; i < PAGES * WORDS; i++) {
        uint64_t word = hostile();
        memcpy(memory + i * 8, &word, sizeof word);
    }
    for (size_t page = 2; page <= PAGES; page += 3) {
        CLAIM(mprotect(memory + page * PAGE, PAGE, PROT_NONE) == 0);
    }
    void (*generated)(const uint64_t *, void (*)(void)) =
        (void (*)(const uint64_t *, void (*)(void)))(uintptr_t)(memory + CODE_AT + 128);
    for (size_t round = 0; round < ROUNDS; round++) {
        memcpy(memory, sound, sizeof sound);
        for (size_t i = draw() % 6; i > 0; i--) {
            size_t word = draw() % (sizeof sound / 8);
            uint64_t wrong = hostile();
            if (!is_of_code(word)) {
                memcpy(memory + word * 8, &wrong, sizeof wrong);
            }
        }
        uint64_t slots[SLOTS] = {tagged(SCOPE), tagged(FUNCTION), 2, tagged(BYTECODE),
                                 draw() % 2 == 0 ? number(63 + draw() % 64) : tagged(LINES)};
        if (draw() % 4 == 0) {
            slots[draw() % SLOTS] = hostile();
        }
        generated(slots, allocate);
    }
}

int main(int count, char **words) {
    if (!TEST_HAS_CODE) {
        return 0;
    }
    if (count > 2) {
        state += (uint64_t)atoi(words[1]) << 8 | (uint64_t)atoi(words[2]);
        run((unsigned)atoi(words[1]), (unsigned)atoi(words[2]));
        return 0;
    }
    for (int i = 0; i < 5 * 4; i++) {
        char version[] = {(char)('0' + i / 4), 0};
        static const char *const kinds[] = {"0", "10", "11", "12"};
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", words[0], version, kinds[i % 4], (char *)NULL);
            _exit(127);
        }
        CLAIM(waitpid(child, &status, 0) == child);
        if (status != 0) {
            fprintf(stderr, "version %s with code of kind %s: status %#x\n", version, kinds[i % 4],
                    (unsigned)status);
        }
        CLAIM(status == 0);
    }
    return 0;
}
