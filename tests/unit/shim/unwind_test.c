// sources: shim/unwind.c shim/unwind_cache.c shim/unwind_object.c shim/preloaded/loader.c
// sources: shim/unwind_head.c shim/unwind_pages.c shim/unwind_table.c shim/unwind_table_ops.c
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * Walks over call frames give what libgcc's unwinder gives, and end where that is not possible:
 * frames of all kinds, handlers of signals, generated code, damaged stacks.
 */
#include "shim/unwind.h"
#include "tests/arch/arch.h"
#include "tests/unit/unit.h"

#include <alloca.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#define FRAMES 200
#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#define WITH_POINTER /* as the compiler's options say */
#else
#define NOINLINE __attribute__((noinline, noipa, noclone))
#define WITH_POINTER __attribute__((optimize("no-omit-frame-pointer")))
#endif

static int is_compared; /* the walks of this test are as long as backtrace's */
static size_t walked;   /* frames of the last walk */
static uintptr_t sites[FRAMES];

static size_t walk_from_here(void) {
    struct ps_unwind walk;
    uintptr_t site;
    walked = 0;
    ps_unwind_here(&walk);
    while (walked < FRAMES && (site = ps_unwind_next(&walk)) != 0) {
        sites[walked++] = site;
    }
    return walked;
}

/* Index of a frame of the other walk in ours. A site lies in the call in front of an address. */
static size_t index_of(uintptr_t address) {
    for (size_t i = 0; i < walked; i++) {
        if (sites[i] + 1 == address) {
            return i;
        }
    }
    return walked;
}

/* Compares a walk with backtrace's, from the caller on. Twice: the second is by the cache. */
NOINLINE static void compare(void) {
    void *frames[FRAMES];
    size_t count = (size_t)backtrace(frames, FRAMES);
    for (int round = 0; round < 2; round++) {
        size_t length = walk_from_here();
        size_t first = index_of((uintptr_t)__builtin_return_address(0));
        size_t other = 0;
        while (other < count && frames[other] != __builtin_return_address(0)) {
            other++;
        }
        REQUIRE(first < length && other < count);
        CHECK_EQ(length - first, count - other);
        for (size_t i = 0; first + i < length && other + i < count; i++) {
            uintptr_t address = (uintptr_t)frames[other + i];
            CHECK(sites[first + i] == address || sites[first + i] == address - 1);
        }
    }
    is_compared++;
}

static void prepare(void) {
    static int is_prepared;
    if (!is_prepared++) {
        ps_unwind_start();
    }
    is_compared = 0;
}

/* ---- frames ---- */

typedef void job(void);

NOINLINE static void plain(job *work, int depth) {
    volatile char room[40] = {0};
    if (depth == 0) {
        work();
    } else {
        plain(work, depth - 1);
    }
    room[0]++;
}

NOINLINE WITH_POINTER static void with_pointer(job *work, int depth) {
    volatile char *room = alloca((size_t)depth * 16 + 16);
    room[0] = 1;
    if (depth == 0) {
        work();
    } else {
        with_pointer(work, depth - 1);
    }
    room[0]++;
}

NOINLINE static void with_room(job *work, size_t bytes) {
    volatile char *room = alloca(bytes);
    room[0] = 1;
    work();
    room[bytes - 1]++;
}

/* The compiler has the frame's address in a register of its own while it aligns the stack. */
NOINLINE static void aligned(job *work, int depth, long a, long b, long c, long d, long e, long f) {
    _Alignas(64) volatile char room[128] = {0};
    volatile char *more = alloca((size_t)(a + b + c + d + e + f + 16));
    more[0] = (char)f;
    if (depth == 0) {
        work();
    } else {
        aligned(work, depth - 1, a, b, c, d, e, f);
    }
    room[0] = (char)(room[0] + more[0]);
}

NOINLINE static void with_huge_frame(job *work) {
    volatile char room[300000];
    room[0] = 1;
    work();
    room[299999]++;
}

static void aligned_from_plain(void) { aligned(compare, 5, 1, 2, 3, 4, 5, 6); }
static void pointer_from_aligned(void) { with_pointer(aligned_from_plain, 3); }

TEST(frames_of_all_kinds_are_those_of_libgcc) {
    prepare();
    plain(compare, 0);
    plain(compare, 40);
    with_pointer(compare, 7);
    with_room(compare, 5000);
    with_huge_frame(compare);
    aligned(compare, 3, 1, 2, 3, 4, 5, 6);
    plain(pointer_from_aligned, 4);
    CHECK_EQ(is_compared, 7);
}

static int compare_in_sort(const void *left, const void *right) {
    if (is_compared < 3) {
        compare();
    }
    return *(const int *)left - *(const int *)right;
}

TEST(frames_of_libc_are_passed) {
    int numbers[] = {5, 3, 9, 1};
    prepare();
    qsort(numbers, 4, sizeof numbers[0], compare_in_sort);
    CHECK_EQ(is_compared, 3);
}

static void *in_thread(void *argument) {
    plain(compare, 5);
    with_pointer(compare, 5);
    with_room(compare, 20000);
    return argument;
}

TEST(walks_of_a_thread_end_at_its_start) {
    pthread_t thread;
    prepare();
    REQUIRE(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_EQ(is_compared, 3);
}

static void walk_deep(void) { (void)walk_from_here(); }

TEST(deep_recursion_gives_the_innermost) {
    prepare();
    plain(walk_deep, 20000);
    CHECK_EQ(walked, FRAMES);
    for (size_t i = 20; i < FRAMES; i++) {
        CHECK_EQ(sites[i], sites[19]);
    }
}

/* ---- signals ---- */

static sigjmp_buf after_trap;

static void compare_in_handler(int number) {
    compare();
    if (number != SIGUSR1) {
        siglongjmp(after_trap, 1);
    }
}

NOINLINE static void raise_one(void) { raise(SIGUSR1); }

/* A function that calls none, interrupted before it has a frame, and within it. */
NOINLINE static void trap_at_once(void) { __builtin_trap(); }
NOINLINE static int trap_within(volatile int *number) {
    volatile int room[16] = {*number};
    __builtin_trap();
    return room[*number];
}

static void trap_both(void) {
    int number = 3;
    if (sigsetjmp(after_trap, 1) == 0) {
        trap_at_once();
    }
    if (sigsetjmp(after_trap, 1) == 0) {
        (void)trap_within(&number);
    }
}

static void handle(int flags) {
    struct sigaction action = {.sa_handler = compare_in_handler, .sa_flags = flags};
    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    REQUIRE(sigaction(SIGILL, &action, NULL) == 0);
    REQUIRE(sigaction(SIGTRAP, &action, NULL) == 0);
}

TEST(handlers_of_signals_are_passed) {
    prepare();
    handle(0);
    plain(raise_one, 3);
    with_pointer(raise_one, 3);
    plain(trap_both, 2);
    CHECK_EQ(is_compared, 4);
}

TEST(handlers_with_a_stack_of_their_own_are_passed) {
    static char memory[1 << 16];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    prepare();
    REQUIRE(sigaltstack(&stack, NULL) == 0);
    handle(SA_ONSTACK);
    plain(raise_one, 3);
    plain(trap_both, 2);
    CHECK_EQ(is_compared, 3);
    stack.ss_flags = SS_DISABLE;
    REQUIRE(sigaltstack(&stack, NULL) == 0);
}

/* ---- damage ---- */

static uintptr_t damage;

/* Changes the frame pointer that the caller gets back, for the time of a walk. */
NOINLINE WITH_POINTER static void walk_damaged(void) {
    char *frame = (char *)__builtin_frame_address(0) + PS_FRAME_ABOVE_POINTER;
    volatile uintptr_t *place = (volatile uintptr_t *)frame - 2;
    uintptr_t saved = *place;
    *place = damage;
    (void)walk_from_here();
    *place = saved;
}

TEST(a_damaged_frame_pointer_ends_the_walk) {
    char *hole = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t local = (uintptr_t)&hole;
    const uintptr_t damages[] = {0,
                                 1,
                                 local + 3,
                                 local - 4096,
                                 (uintptr_t)hole + 64,
                                 UINTPTR_MAX,
                                 UINTPTR_MAX / 2,
                                 (uintptr_t)1 << 63,
                                 local + 100000000};
    prepare();
    REQUIRE(hole != MAP_FAILED);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        damage = damages[i];
        with_pointer(walk_damaged, 2);
        CHECK_CMP(walked, >=, 2);
        CHECK_CMP(walked, <=, 4);
    }
    REQUIRE(munmap(hole, 1 << 16) == 0);
}

/* ---- generated code ---- */

#if TEST_HAS_CODE

typedef void generated(job *work);

static const unsigned char code_without_frame[] = TEST_CODE_WITHOUT_FRAME;
static const unsigned char code_with_pointer[] = TEST_CODE_WITH_POINTER;
static const unsigned char code_without_pointer[] = TEST_CODE_WITHOUT_POINTER;
static const unsigned char code_with_other_use[] = TEST_CODE_WITH_OTHER_USE;

static char *code;

static generated *generate(const unsigned char *bytes, size_t length) {
    generated *function;
    if (code == NULL) {
        code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                    0);
        REQUIRE(code != MAP_FAILED);
    }
    memcpy(code, bytes, length);
    memcpy(&function, &code, sizeof function);
    return function;
}
#define GENERATE(bytes) generate(bytes, sizeof(bytes))

static bool is_generated(uintptr_t site) { return site - (uintptr_t)code < 4096; }

static generated *chosen;
NOINLINE static void call_chosen(void) {
    chosen(walk_deep);
    __asm__ volatile("" ::: "memory");
}

/* Frames above the generated one, which must be the rest of the program's. */
static size_t frames_behind(generated *function) {
    size_t expected, at = 0;
    plain(walk_deep, 3);
    expected = walked;
    chosen = function;
    plain(call_chosen, 3);
    while (at < walked && !is_generated(sites[at])) {
        at++;
    }
    CHECK_CMP(at, <, walked);
    CHECK_CMP(walked, <=, expected + 2);
    return walked - at - 1;
}

TEST(generated_code_with_frame_pointers_is_passed) {
    prepare();
    size_t behind = frames_behind(GENERATE(code_with_pointer));
    CHECK_CMP(behind, >, 5);
    CHECK_EQ(frames_behind(GENERATE(code_without_frame)), behind);
}

TEST(generated_code_without_them_ends_the_walk) {
    prepare();
    CHECK_EQ(frames_behind(GENERATE(code_without_pointer)), 0);
    CHECK_EQ(frames_behind(GENERATE(code_with_other_use)), 0);
}

#endif

UNIT_MAIN
