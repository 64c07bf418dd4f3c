// expect: exit 0
// env: POOLSHIM_PROFILE=/dev/null POOLSHIM_PROFILE_INTERVAL=512
// flags: -rdynamic
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * A program that exports the symbols of CPython, with structures of which random words are wrong:
 * addresses that are not mapped, not aligned, at the end of a page, of the kernel, of the structure
 * itself; lengths beyond all memory. Stacks of the profile are taken of it nevertheless. Each
 * version runs in a process of its own, with structures that begin as they are in 3.12.
 */
#include "claim.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 6000
#define PAGES 12
#define PAGE 4096
#define WORDS (PAGE / 8)
#define OBJECT 64 /* words between two objects */

enum { STATE, CHAIN, FRAME, CALLER, CODE, FILE_NAME, NAME, LINES, TYPES, OBJECTS = TYPES + 3 };

unsigned long Py_Version;
uint64_t _PyRuntime[256];
static uint64_t *memory; /* every third page cannot be read */
static uint64_t sound[OBJECTS * OBJECT];
static uint64_t state = 88172645463325252u;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t *object(int which) { return memory + which * OBJECT; }
static uint64_t address(int which) { return (uint64_t)(uintptr_t)object(which); }

void *PyGILState_GetThisThreadState(void) { return object(STATE); }

/* The loop: most of its blocks are sampled. */
__attribute__((noinline)) void _PyEval_EvalFrameDefault(void) {
    void *volatile block = malloc(4000);
    free(block);
}

static void put(int which, size_t offset, uint64_t value) {
    memcpy((char *)object(which) + offset, &value, sizeof value);
}

static void put_text(int which, const char *text) {
    put(which, 8, address(TYPES + 1));
    put(which, 16, strlen(text));
    put(which, 32, 1 << 2 | 1 << 5 | 1 << 6); /* of a byte each, compact, ASCII */
    memcpy((char *)object(which) + 40, text, strlen(text));
}

static void put_type(int which, const char *name) {
    put(which, 24, address(which) + 64);
    strcpy((char *)object(which) + 64, name);
}

static void make_sound(void) {
    put(STATE, 56, address(CHAIN));
    put(STATE, 72, address(FRAME)); /* from 3.13 on, without the chain */
    put(CHAIN, 0, address(FRAME));
    for (int frame = FRAME; frame <= CALLER; frame++) {
        put(frame, 0, address(CODE));
        put(frame, 8, frame == FRAME ? address(CALLER) : 0);
        put(frame, 56, address(CODE) + 192 + 8);
    }
    put(CODE, 8, address(TYPES));
    put(CODE, 68, 12);
    put(CODE, 112, address(FILE_NAME));
    put(CODE, 128, address(NAME));
    put(CODE, 136, address(LINES));
    put_text(FILE_NAME, "/srv/leak.py");
    put_text(NAME, "leak_here");
    put(LINES, 8, address(TYPES + 2));
    put(LINES, 16, 40);
    for (int i = 0; i < 5; i++) {
        put(LINES, 32 + (size_t)i * 8, draw());
    }
    put_type(TYPES, "code");
    put_type(TYPES + 1, "str");
    put_type(TYPES + 2, "bytes");
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
        return UINT64_MAX - draw() % 4096;
    case 5:
        return address((int)(draw() % OBJECTS));
    case 6:
        return UINT64_C(1) << draw() % 64;
    default:
        return (uint64_t)(uintptr_t)memory + (draw() % PAGES * WORDS + draw() % WORDS) * 8;
    }
}

/* The description of 3.13 and 3.14, whose offsets are those above; then a few wrong ones. */
static void describe(unsigned minor, size_t wrong) {
    static const uint16_t words[][3] = {
        {23, 26, 72},  {29, 32, 8},   {30, 33, 0},   {31, 34, 56}, {33, 36, 70},  {35, 40, 112},
        {36, 41, 120}, {37, 42, 128}, {38, 43, 136}, {39, 44, 68}, {43, 48, 192}, {45, 51, 8},
        {47, 53, 24},  {65, 75, 16},  {66, 76, 32},  {68, 78, 32}, {69, 79, 16},  {70, 80, 40}};
    memcpy(_PyRuntime, "xdebugpy", 8);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        _PyRuntime[words[i][minor - 13]] = words[i][2];
    }
    for (size_t i = 0; i < wrong; i++) {
        _PyRuntime[2 + draw() % 80] = draw() % 2 == 0 ? draw() % 1024 : hostile();
    }
}

static void run(unsigned minor, size_t wrong) {
    memory =
        mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CLAIM(memory != MAP_FAILED);
    CLAIM(sizeof sound <= 2 * PAGE);
    make_sound();
    memcpy(sound, memory, sizeof sound);
    for (size_t i = 2 * WORDS; i < PAGES * WORDS; i++) {
        memory[i] = hostile();
    }
    for (size_t page = 2; page <= PAGES; page += 3) {
        CLAIM(mprotect((char *)memory + page * PAGE, PAGE, PROT_NONE) == 0);
    }
    Py_Version = 3u << 24 | minor << 16;
    if (minor >= 13) {
        describe(minor, wrong);
    }
    for (size_t round = 0; round < ROUNDS; round++) {
        memcpy(memory, sound, sizeof sound);
        for (size_t i = draw() % 6; i > 0; i--) {
            memory[draw() % (sizeof sound / 8)] = hostile();
        }
        _PyEval_EvalFrameDefault();
    }
}

int main(int count, char **words) {
    static const char *const minors[] = {"11", "12", "13", "14", "15"};
    static const char *const wrongs[] = {"0", "1", "3"};
    if (count > 2) {
        state += (uint64_t)atoi(words[1]) << 8 | (uint64_t)atoi(words[2]);
        run((unsigned)atoi(words[1]), (size_t)atoi(words[2]));
        return 0;
    }
    for (size_t i = 0; i < sizeof minors / sizeof minors[0] * 3; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", words[0], minors[i / 3], wrongs[i % 3], (char *)NULL);
            _exit(127);
        }
        CLAIM(waitpid(child, &status, 0) == child);
        if (status != 0) {
            fprintf(stderr, "3.%s with %s wrong words: status %#x\n", minors[i / 3], wrongs[i % 3],
                    (unsigned)status);
        }
        CLAIM(status == 0);
    }
    return 0;
}
