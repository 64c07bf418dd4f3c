/* SPDX-License-Identifier: MIT */
/*
 * PS_DEBUG=leaks: live blocks at destroy, pools that exist at exit, and cases that are no leak.
 */
#include <poolshim/bounded.h>
#include <poolshim/fifo.h>
#include <poolshim/intrusive.h>
#include <poolshim/pools.h>
#include <poolshim/region.h>
#include <poolshim/ring.h>
#include <poolshim/slots.h>
#include <poolshim/stack.h>

#include "tests/pools/modes.h"
#include "tests/unit/unit.h"

#include <pthread.h>

static struct ps_chunk_options named(const char *name) {
    return (struct ps_chunk_options){.name = name};
}

/* What a child with PS_DEBUG=leaks prints to stderr until its exit. */
static const char *leaks_of(void (*body)(void), const char *words) {
    static char output[4096];
    struct unit_child child = unit_child_start();
    if (child.pid == 0) {
        setenv("PS_DEBUG", words, 1);
        body();
        exit(0);
    }
    size_t length = 0;
    ssize_t got;
    while ((got = read(child.stderr_fd, output + length, sizeof output - 1 - length)) > 0) {
        length += (size_t)got;
    }
    output[length] = 0;
    close(child.stderr_fd);
    int status = 0;
    waitpid(child.pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return output;
}

static void leak_at_destroy(void) {
    struct ps_pool pool;
    struct ps_pool_options options = {.chunks = named("nodes")};
    ps_pool_init(&pool, 24, 0, &options);
    CHECK(ps_pool_alloc(&pool) != NULL && ps_pool_alloc(&pool) != NULL);
    ps_pool_free(&pool, ps_pool_alloc(&pool));
    ps_pool_destroy(&pool);
    struct ps_slots slots;
    ps_slots_init(&slots, 40, 0, NULL);
    void *object;
    CHECK(ps_slots_insert(&slots, &object) != 0);
    ps_slots_destroy(&slots);
    struct ps_bounded *bounded = ps_bounded_create(8, 0, 10, NULL);
    CHECK(ps_bounded_alloc(bounded) != NULL);
    ps_bounded_destroy(bounded);
    struct ps_pools pools;
    ps_pools_init(&pools, NULL);
    CHECK(ps_pools_alloc(&pools, 16) != NULL);
    ps_pools_destroy(&pools);
}

static void leak_nothing(void) {
    struct ps_pool pool;
    ps_pool_init(&pool, 24, 0, NULL);
    ps_pool_free(&pool, ps_pool_alloc(&pool));
    CHECK(ps_pool_alloc(&pool) != NULL);
    ps_pool_reset(&pool); /* forgets all objects on purpose */
    ps_pool_destroy(&pool);
    struct ps_region *region = ps_region_create(NULL);
    CHECK(ps_region_alloc(region, 100) != NULL); /* dies with its region */
    ps_region_destroy(region);
    struct ps_fifo *fifo = ps_fifo_create(NULL);
    void *block = ps_fifo_alloc(fifo, 100);
    ps_fifo_destroy(fifo); /* goes with its last block */
    ps_fifo_free(fifo, block);
    ps_ring_destroy(ps_ring_create(NULL));
    struct ps_intrusive counted;
    struct ps_intrusive_options options = {.bytes = 64};
    ps_intrusive_init(&counted, &options);
    struct ps_intrusive_item *item = ps_intrusive_alloc(&counted);
    ps_intrusive_destroy(&counted);
    ps_intrusive_drop(item);
    ps_stack_destroy(ps_stack_create(NULL));
    CHECK(ps_r_ring() != NULL); /* a thread's own */
    ps_t_pop(ps_t_push());
#if defined(__SANITIZE_THREAD__) /* which has a thread of its own: no pool is read at exit */
    return;
#endif
    static struct ps_pool unused; /* exists at exit, without an object */
    ps_pool_init(&unused, 24, 0, NULL);
    ps_pool_free(&unused, ps_pool_alloc(&unused));
}

static struct ps_pool static_pool;

static void leak_at_exit(void) {
    struct ps_pool_options options = {.chunks = named("statics")};
    ps_pool_init(&static_pool, 24, 0, &options);
    CHECK(ps_pool_alloc(&static_pool) != NULL);
    struct ps_region_options region_options = {.chunks = named("request")};
    CHECK(ps_region_create(&region_options) != NULL);
    struct ps_fifo_options fifo_options = {.chunks = named("queue")};
    struct ps_fifo *fifo = ps_fifo_create(&fifo_options);
    CHECK(ps_fifo_alloc(fifo, 100) != NULL);
    ps_fifo_destroy(fifo); /* the block keeps it alive */
    struct ps_intrusive counted;
    struct ps_intrusive_options options_of_counted = {.chunks = named("counted"), .bytes = 64};
    ps_intrusive_init(&counted, &options_of_counted);
    CHECK(ps_intrusive_alloc(&counted) != NULL);
    ps_intrusive_destroy(&counted); /* and so does the object here */
}

static void has_lines(const char *output, const char *const *lines, size_t count) {
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        if (strstr(output, lines[i]) == NULL) {
            unit_fail(__FILE__, __LINE__, "no \"%s\" in \"%s\"", lines[i], output);
        }
    }
    for (const char *at = output; *at != 0; at++) {
        length += *at == '\n';
    }
    CHECK_EQ(length, count);
}

TEST(live_blocks_at_destroy_are_leaks) {
    static const char *const lines[] = {
        "poolshim: leak: pool 'nodes' destroyed with 2 live blocks of 48 bytes\n",
        "poolshim: leak: slots 'slots' destroyed with 1 live block of 40 bytes\n",
        "poolshim: leak: bounded 'bounded pool' destroyed with 1 live block of 8 bytes\n",
        "poolshim: leak: pools 'pools' destroyed with 1 live block of 16 bytes\n",
    };
    has_lines(leaks_of(leak_at_destroy, "leaks"), lines, 4);
#if !defined(__SANITIZE_ADDRESS__) /* which reports the blocks too */
    has_lines(leaks_of(leak_at_destroy, "leaks,malloc"), lines, 4);
#endif
    has_lines(leaks_of(leak_at_destroy, "check,leaks"), lines, 4);
    CHECK_STR_EQ(leaks_of(leak_at_destroy, "check"), "");
}

TEST(what_is_freed_reset_or_dies_with_its_pool_is_no_leak) {
    CHECK_STR_EQ(leaks_of(leak_nothing, "leaks"), "");
    CHECK_STR_EQ(leaks_of(leak_nothing, "leaks,malloc"), "");
    CHECK_STR_EQ(leaks_of(leak_nothing, "leaks,check"), "");
}

TEST(what_exists_at_exit_is_a_leak) {
    static const char *const lines[] = {
        "poolshim: leak: pool 'statics' ",
        "poolshim: leak: region 'request' was not destroyed before exit: ",
        "poolshim: leak: fifo 'queue' was not destroyed before exit: ",
        "poolshim: leak: intrusive 'counted' was not destroyed before exit: ",
    };
    const char *output = leaks_of(leak_at_exit, "leaks");
    has_lines(output, lines, 4);
#if !defined(__SANITIZE_THREAD__) /* which has a thread of its own: nothing is counted then */
    CHECK(strstr(output, "'statics' has 1 live block of 24 bytes at exit\n") != NULL);
#endif
    CHECK_STR_EQ(leaks_of(leak_at_exit, "check"), "");
}

static void *wait_for_exit(void *unused) {
    (void)unused;
    for (;;) {
        pause();
    }
    return NULL;
}

static void leak_beside_a_thread(void) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, wait_for_exit, NULL) == 0);
    leak_at_exit();
}

TEST(beside_other_threads_no_pool_is_read_at_exit) {
    if (is_malloc_mode()) {
        return;
    }
    static const char *const lines[] = {
        "poolshim: leak: pool 'statics' was not destroyed before exit: 4096 bytes in 1 chunk\n",
        "poolshim: leak: region 'request' was not destroyed before exit: ",
        "poolshim: leak: fifo 'queue' was not destroyed before exit: ",
        "poolshim: leak: intrusive 'counted' was not destroyed before exit: ",
    };
    has_lines(leaks_of(leak_beside_a_thread, "leaks"), lines, 4);
}

__attribute__((noinline)) static void lose_a_pool(void) {
    struct ps_pool pool;
    struct ps_pool_options options = {.chunks = named("lost")};
    ps_pool_init(&pool, 24, 0, &options);
    CHECK(ps_pool_alloc(&pool) != NULL);
}

__attribute__((noinline)) static void overwrite_the_stack(void) {
    volatile char room[8192];
    for (size_t i = 0; i < sizeof room; i++) {
        room[i] = 1;
    }
}

static void leak_a_struct(void) {
    lose_a_pool();
    overwrite_the_stack();
}

TEST(a_pool_whose_struct_was_overwritten_is_not_read) {
    static const char *const lines[] = {"poolshim: leak: pool 'lost' was not destroyed before "};
    const char *output = leaks_of(leak_a_struct, "leaks,check");
    has_lines(output, lines, 1);
}

UNIT_MAIN
