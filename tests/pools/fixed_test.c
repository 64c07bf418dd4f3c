/* SPDX-License-Identifier: MIT */
/*
 * Fixed pools in C: objects inside of a variable or a buffer, misuse, threads, and handlers that
 * interrupt every instruction of a call.
 */
#include "tests/unit/fresh.h"
#include "tests/unit/trap_flag.h"

#include <errno.h>
#include <poolshim/fixed.h>
#include <pthread.h>

struct message {
    uint64_t number;
    char text[40];
};

enum { COUNT = 16 };
static PS_FIXED(struct message, COUNT) messages = PS_FIXED_INIT(messages);

/* A pool of zeros: usable before any code of the program has run. */
static struct message *taken_at_load;
__attribute__((constructor(101))) static void program_loaded(void) {
    taken_at_load = ps_fixed_alloc(&messages.pool);
}

TEST(a_static_pool_works_before_main) {
    CHECK_PTR_EQ(taken_at_load, messages.objects);
    ps_fixed_free(&messages.pool, taken_at_load);
    CHECK_EQ(messages.pool.count, COUNT);
}

static void exhaust(struct ps_fixed *pool, void *(*alloc)(struct ps_fixed *),
                    void (*put)(struct ps_fixed *, void *)) {
    static struct message *taken[COUNT];
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            taken[i] = alloc(pool);
            REQUIRE(taken[i] != NULL);
            CHECK(ps_fixed_owns(pool, taken[i]));
            taken[i]->number = i;
        }
        errno = 7;
        CHECK(alloc(pool) == NULL);
        CHECK_EQ(errno, 7);
        size_t cursor = 0;
        size_t visited = 0;
        while (ps_fixed_next(pool, &cursor) != NULL) {
            visited++;
        }
        CHECK_EQ(visited, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            size_t at = i * 7 % COUNT;
            CHECK_EQ(taken[at]->number, at);
            put(pool, taken[at]);
        }
        put(pool, NULL);
        cursor = 0;
        CHECK(ps_fixed_next(pool, &cursor) == NULL);
    }
}

TEST(all_objects_and_no_more_are_had) {
    exhaust(&messages.pool, ps_fixed_alloc, ps_fixed_free);
    exhaust(&messages.pool, ps_fixed_alloc_shared, ps_fixed_free_shared);
    exhaust(&messages.pool, ps_fixed_alloc, ps_fixed_free_shared);
}

TEST(reuse_is_newest_first_and_contents_stay) {
    struct message *first = ps_fixed_alloc(&messages.pool);
    struct message *second = ps_fixed_alloc(&messages.pool);
    REQUIRE(first != NULL && second != NULL);
    strcpy(first->text, "left");
    ps_fixed_free(&messages.pool, second);
    ps_fixed_free(&messages.pool, first);
    struct message *again = ps_fixed_alloc(&messages.pool);
    REQUIRE(again != NULL);
    CHECK_PTR_EQ(again, first);
    CHECK_STR_EQ(again->text, "left");
    ps_fixed_free(&messages.pool, again);
}

TEST(an_unchecked_pool_has_each_object_once) {
    static PS_FIXED(struct message, COUNT) unchecked = PS_FIXED_INIT(unchecked);
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            struct message *message = ps_fixed_alloc_unchecked(&unchecked.pool);
            /* In order of address; then the newest of the frees below first. */
            size_t expected = round == 0 ? i : (COUNT - 1 - i) * 7 % COUNT;
            CHECK_PTR_EQ(message, &unchecked.objects[expected]);
            message->number = expected;
        }
        errno = 7;
        CHECK(ps_fixed_alloc_unchecked(&unchecked.pool) == NULL);
        CHECK_EQ(errno, 7);
        for (size_t i = 0; i < COUNT; i++) {
            CHECK_EQ(unchecked.objects[i].number, i);
        }
        for (size_t i = 0; i < COUNT; i++) {
            ps_fixed_free_unchecked(&unchecked.pool, &unchecked.objects[i * 7 % COUNT]);
        }
    }
}

TEST(objects_of_an_unchecked_pool_may_lie_anywhere) {
    unsigned char buffer[200];
    struct ps_fixed pool;
    size_t count = ps_fixed_init(&pool, buffer + 1, sizeof buffer - 1, 9, 1);
    CHECK_CMP(count, >, 10);
    void *objects[20];
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < count; i++) {
            objects[i] = ps_fixed_alloc_unchecked(&pool);
            CHECK(objects[i] != NULL && ps_fixed_owns(&pool, objects[i]));
            memset(objects[i], 0xff, 9);
        }
        CHECK(ps_fixed_alloc_unchecked(&pool) == NULL);
        for (size_t i = 0; i < count; i++) {
            ps_fixed_free_unchecked(&pool, objects[i]);
        }
    }
}

TEST(a_pool_on_the_stack_needs_nothing_else) {
    PS_FIXED(char, 3) bytes = PS_FIXED_INIT(bytes);
    char *all[3];
    for (size_t i = 0; i < 3; i++) {
        all[i] = ps_fixed_alloc(&bytes.pool);
        CHECK_PTR_EQ(all[i], &bytes.objects[i]);
    }
    CHECK(ps_fixed_alloc(&bytes.pool) == NULL);
    ps_fixed_free(&bytes.pool, all[1]);
    CHECK_PTR_EQ(ps_fixed_alloc(&bytes.pool), all[1]);
}

TEST(a_buffer_is_used_as_far_as_it_goes) {
    static unsigned char memory[5000];
    static const size_t sizes[] = {0, 1, 3, 8, 24, 100, 4096};
    for (size_t at = 0; at < 7 * 4 * 60; at++) {
        size_t skip = at % 5;
        size_t align = (size_t)1 << at % 4 * 2;
        size_t bytes = at * 3 % sizeof memory;
        size_t size = sizes[at % 7];
        if (skip + bytes > sizeof memory) {
            continue;
        }
        unsigned char *buffer = memory + skip;
        memset(memory, 0xa5, sizeof memory);
        struct ps_fixed pool;
        size_t count = ps_fixed_init(&pool, buffer, bytes, size, align);
        size_t stride = size == 0 ? 1 : (size + align - 1) / align * align;
        size_t stride_least = stride < align ? align : stride;
        CHECK_CMP(count, <=, bytes / (stride_least + 4));
        CHECK_CMP((count + 1) * (stride_least + 4) + align + 7, >, bytes);
        if (count == 0) {
            continue;
        }
        unsigned char *object = NULL;
        size_t had = 0;
        for (; (object = ps_fixed_alloc(&pool)) != NULL; had++) {
            CHECK_EQ((uintptr_t)object % align, 0);
            memset(object, 1, size);
        }
        CHECK_EQ(had, count);
        for (size_t i = 0; i < sizeof memory; i++) {
            if (memory[i] != 0xa5 && (i < skip || i >= skip + bytes)) {
                CHECK_EQ(i, skip);
                break;
            }
        }
    }
}

TEST(buffers_without_room_and_bad_alignments_are_refused) {
    static _Alignas(16) unsigned char memory[64];
    struct ps_fixed pool;
    CHECK_EQ(ps_fixed_init(&pool, memory, 0, 8, 0), 0);
    CHECK_EQ(ps_fixed_init(&pool, memory, 11, 8, 0), 0);
    CHECK_EQ(ps_fixed_init(&pool, memory, 12, 8, 0), 1);
    CHECK_EQ(ps_fixed_init(&pool, memory, 64, 8, 3), 0);
    CHECK_EQ(ps_fixed_init(&pool, memory, 64, SIZE_MAX, 0), 0);
    CHECK_EQ(ps_fixed_init(&pool, memory + 1, 7, 8, 8), 0);
}

TEST(misuse_is_found_in_every_build) {
    struct message *message = ps_fixed_alloc(&messages.pool);
    struct message elsewhere;
    ps_fixed_free(&messages.pool, message);
    CHECK_ABORTS(ps_fixed_free(&messages.pool, message), "poolshim: double free in a fixed pool\n");
    CHECK_ABORTS(ps_fixed_free_shared(&messages.pool, message),
                 "poolshim: double free in a fixed pool\n");
    CHECK_ABORTS(ps_fixed_free(&messages.pool, &messages.objects[COUNT - 1]),
                 "poolshim: double free in a fixed pool\n");
    CHECK_ABORTS(ps_fixed_free(&messages.pool, &elsewhere),
                 "poolshim: free of a foreign pointer in a fixed pool\n");
    CHECK_ABORTS(ps_fixed_free(&messages.pool, messages.objects[0].text),
                 "poolshim: free of a pointer into an object of a fixed pool\n");
    CHECK(!ps_fixed_owns(&messages.pool, &elsewhere));
    CHECK(ps_fixed_owns(&messages.pool, messages.objects[0].text));
}

/* ---- threads ---- */

static PS_FIXED(struct message, 8) few = PS_FIXED_INIT(few);

static void *take_and_return(void *argument) {
    size_t rounds = (size_t)(uintptr_t)argument;
    struct message *held[3] = {NULL};
    for (size_t round = 0; round < rounds; round++) {
        struct message **place = &held[round % 3];
        if (*place != NULL) {
            CHECK_PTR_EQ((void *)(uintptr_t)(*place)->number, place);
            (*place)->number = 0;
            ps_fixed_free_shared(&few.pool, *place);
        }
        *place = ps_fixed_alloc_shared(&few.pool);
        if (*place != NULL) {
            CHECK_EQ((*place)->number, 0);
            (*place)->number = (uintptr_t)place;
        }
    }
    for (size_t i = 0; i < 3; i++) {
        if (held[i] != NULL) {
            held[i]->number = 0;
            ps_fixed_free_shared(&few.pool, held[i]);
        }
    }
    return NULL;
}

static void check_all_free(struct ps_fixed *pool) {
    size_t cursor = 0;
    CHECK(ps_fixed_next(pool, &cursor) == NULL);
    for (size_t i = 0; i < pool->count; i++) {
        REQUIRE(ps_fixed_alloc(pool) != NULL);
    }
    CHECK(ps_fixed_alloc(pool) == NULL);
    cursor = 0;
    for (void *object; (object = ps_fixed_next(pool, &cursor)) != NULL;) {
        ps_fixed_free(pool, object);
    }
}

TEST(threads_share_a_pool_that_is_too_small) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        void *rounds = (void *)(uintptr_t)(200000 / FRESH_SLOWNESS);
        REQUIRE(pthread_create(&threads[i], NULL, take_and_return, rounds) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    check_all_free(&few.pool);
}

/* ---- signal handlers ---- */

static PS_FIXED(struct message, 4) small = PS_FIXED_INIT(small);
static struct message *left_by_handler;
static size_t instruction;    /* of the calls under test, counted by the handler */
static size_t interrupted_at; /* the one after which the handler uses the pool */

/* Takes one and returns another: the order of the list changes below the interrupted call. Once: a
 * handler after each instruction would let no call succeed. */
static void interrupt(int number) {
    (void)number;
    if (++instruction != interrupted_at) {
        return;
    }
    struct message *message = ps_fixed_alloc_shared(&small.pool);
    CHECK(message != NULL);
    if (left_by_handler != NULL) {
        ps_fixed_free_shared(&small.pool, left_by_handler);
    }
    left_by_handler = message;
}

static void use_small(void) {
    instruction = 0;
    set_trap_flag(CAN_STEP);
    struct message *first = ps_fixed_alloc_shared(&small.pool);
    struct message *second = ps_fixed_alloc_shared(&small.pool);
    set_trap_flag(false);
    CHECK(first != NULL && second != NULL && first != second);
    CHECK(first != left_by_handler && second != left_by_handler);
    set_trap_flag(CAN_STEP);
    ps_fixed_free_shared(&small.pool, first);
    ps_fixed_free_shared(&small.pool, second);
    set_trap_flag(false);
}

TEST(a_handler_may_interrupt_each_instruction) {
    struct sigaction action = {.sa_handler = interrupt};
    REQUIRE(sigaction(SIGTRAP, &action, NULL) == 0);
    interrupted_at = 0;
    do {
        interrupted_at++;
        use_small();
    } while (interrupted_at < instruction);
    printf("%zu instructions\n", instruction);
    if (left_by_handler != NULL) {
        ps_fixed_free_shared(&small.pool, left_by_handler);
        left_by_handler = NULL;
    }
    check_all_free(&small.pool);
}

UNIT_MAIN
