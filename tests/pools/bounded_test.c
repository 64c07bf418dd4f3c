/* SPDX-License-Identifier: MIT */
/*
 * Bounded pools in C: the bound, caches of running and of ended threads, misuse, sources that fail,
 * forks, PS_DEBUG.
 */
#include "tests/unit/fresh.h"

#include "tests/pools/counting_source.h"
#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"

#include <errno.h>
#include <poolshim/bounded.h>
#include <pthread.h>

struct packet {
    uint64_t owner;
    char text[40];
};

enum { MANY = 3000 };
static struct packet *packets[MANY + 1];

/* Takes until NULL; returns how many. */
static size_t exhaust(struct ps_bounded *pool) {
    size_t count = 0;
    while (count <= MANY && (packets[count] = ps_bounded_alloc(pool)) != NULL) {
        count++;
    }
    return count;
}

static void free_first(struct ps_bounded *pool, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ps_bounded_free(pool, packets[i]);
    }
}

TEST(one_thread_gets_all_objects_and_no_more) {
    static const size_t counts[] = {1, 2, 7, 16, 17, 100, MANY};
    for (size_t i = 0; i < 14; i++) {
        struct ps_bounded_options options = {.is_exact = i % 2 != 0};
        struct ps_bounded *pool =
            ps_bounded_create(sizeof(struct packet), 0, counts[i / 2], &options);
        REQUIRE(pool != NULL);
        for (size_t round = 0; round < 3; round++) {
            errno = 0;
            CHECK_EQ(exhaust(pool), counts[i / 2]);
            CHECK_EQ(errno, ENOMEM);
            CHECK(ps_bounded_check(pool));
            for (size_t n = 0; n < counts[i / 2]; n++) {
                memset(packets[n], (int)n, sizeof *packets[n]);
            }
            for (size_t n = 0; n < counts[i / 2]; n++) {
                CHECK_EQ(packets[n]->text[39], (char)n);
            }
            errno = 7;
            free_first(pool, counts[i / 2]);
            ps_bounded_free(pool, NULL);
            CHECK_EQ(errno, 7);
            CHECK(ps_bounded_check(pool));
        }
        struct ps_bounded_stats stats;
        ps_bounded_stats(pool, &stats);
        CHECK_EQ(stats.used_count, 0);
        CHECK_EQ(stats.count, counts[i / 2]);
        ps_bounded_destroy(pool);
    }
    ps_bounded_destroy(NULL);
}

TEST(arguments_out_of_range_are_refused) {
    static const struct ps_bounded_options bad[] = {{.cache_items = 1}, {.threads = 1025}};
    for (size_t i = 0; i < 2; i++) {
        errno = 0;
        CHECK(ps_bounded_create(8, 0, 8, &bad[i]) == NULL);
        CHECK_EQ(errno, EINVAL);
    }
    errno = 0;
    CHECK(ps_bounded_create(8, 24, 8, NULL) == NULL);
    CHECK(ps_bounded_create(8, 8192, 8, NULL) == NULL);
    CHECK(ps_bounded_create(8, 0, 0, NULL) == NULL);
    CHECK(ps_bounded_create(8, 0, PS_BOUNDED_COUNT_MAX + 1, NULL) == NULL);
    CHECK(ps_bounded_create(SIZE_MAX, 0, 1, NULL) == NULL);
    CHECK_EQ(errno, EINVAL);
    CHECK(is_malloc_mode() || ps_bounded_create(SIZE_MAX / 8, 0, 100, NULL) == NULL);
    CHECK(is_malloc_mode() || errno == ENOMEM);
}

TEST(objects_are_aligned_and_apart) {
    for (size_t align = 1; align <= 4096; align *= 4) {
        struct ps_bounded *pool = ps_bounded_create(24, align, 50, NULL);
        REQUIRE(pool != NULL);
        CHECK_EQ(exhaust(pool), 50);
        for (size_t i = 0; i < 50; i++) {
            CHECK_EQ((uintptr_t)packets[i] % align, 0);
            memset(packets[i], (int)i, 24);
        }
        for (size_t i = 0; i < 50; i++) {
            CHECK_EQ(((char *)packets[i])[23], i);
        }
        free_first(pool, 50);
        ps_bounded_destroy(pool);
    }
}

TEST(the_source_is_called_once) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_bounded_options options = {.chunks = {.source = &source.source}};
    struct ps_bounded *pool = ps_bounded_create(sizeof(struct packet), 0, MANY, &options);
    REQUIRE(pool != NULL);
    CHECK_EQ(exhaust(pool), MANY);
    free_first(pool, MANY);
    CHECK_EQ(source.calls, 1);
    ps_bounded_destroy(pool);
    CHECK_EQ(source.live_bytes, 0);
    WHEN("the source refuses");
    source.calls_max = 0;
    errno = 0;
    CHECK(ps_bounded_create(8, 0, 8, &options) == NULL);
    CHECK_EQ(errno, ENOMEM);
}

TEST(misuse_is_found_in_every_build) {
    NEEDS_CHUNKS();
    struct ps_bounded *pool = ps_bounded_create(sizeof(struct packet), 0, 100, NULL);
    struct packet *packet = ps_bounded_alloc(pool);
    struct packet elsewhere;
    ps_bounded_free(pool, packet);
    CHECK_ABORTS(ps_bounded_free(pool, packet), "poolshim: double free of");
    CHECK_ABORTS(ps_bounded_free(pool, &elsewhere), "poolshim: free of a foreign pointer");
    CHECK_ABORTS(ps_bounded_free(pool, packet + 99), "poolshim: free of a foreign pointer");
    CHECK_ABORTS(ps_bounded_free(pool, packet->text), "poolshim: free of a pointer into an object");
    ps_bounded_destroy(pool);
}

/* ---- threads ---- */

static void *take_all_and_free(void *pool) {
    size_t count = exhaust(pool);
    free_first(pool, count);
    return (void *)(uintptr_t)count;
}

static size_t in_a_thread(void *(*body)(void *), void *pool) {
    pthread_t thread;
    void *result = NULL;
    REQUIRE(pthread_create(&thread, NULL, body, pool) == 0);
    REQUIRE(pthread_join(thread, &result) == 0);
    return (size_t)(uintptr_t)result;
}

TEST(what_an_ended_thread_has_kept_is_available) {
    struct ps_bounded *pool = ps_bounded_create(sizeof(struct packet), 0, MANY, NULL);
    for (size_t round = 0; round < 20; round++) {
        CHECK_EQ(in_a_thread(take_all_and_free, pool), MANY);
        CHECK(ps_bounded_check(pool));
        CHECK_EQ(exhaust(pool), MANY);
        free_first(pool, MANY);
        ps_bounded_flush(pool);
    }
    ps_bounded_destroy(pool);
}

/* The cache of a running thread never exceeds its limit. */
TEST(a_running_thread_keeps_no_more_than_cache_items) {
    NEEDS_CHUNKS();
    struct ps_bounded_options options = {.cache_items = 20};
    struct ps_bounded *pool = ps_bounded_create(sizeof(struct packet), 0, 500, &options);
    CHECK_EQ(exhaust(pool), 500);
    free_first(pool, 500);
    size_t had = in_a_thread(take_all_and_free, pool);
    CHECK_CMP(had, >=, 480);
    CHECK_CMP(had, <, 500);
    ps_bounded_flush(pool);
    CHECK_EQ(in_a_thread(take_all_and_free, pool), 500);
    ps_bounded_destroy(pool);
}

struct shared_work {
    struct ps_bounded *pool;
    size_t rounds;
    struct packet *x_box[64]; /* objects that change hands */
};

static void *pass_on(void *argument) {
    struct shared_work *work = argument;
    struct packet *held[8] = {NULL};
    for (size_t round = 0; round < work->rounds; round++) {
        struct packet **place = &held[round % 8];
        if (*place != NULL) {
            CHECK_EQ((*place)->owner, (uintptr_t)place);
            (*place)->owner = 0;
            /* acq_rel: gives this object to another thread, and takes one that was given. */
            *place = __atomic_exchange_n(&work->x_box[round % 64], *place, __ATOMIC_ACQ_REL);
            if (*place != NULL) {
                CHECK_EQ((*place)->owner, 0);
                ps_bounded_free(work->pool, *place);
            }
        }
        *place = ps_bounded_alloc(work->pool);
        if (*place != NULL) {
            (*place)->owner = (uintptr_t)place;
        }
    }
    for (size_t i = 0; i < 8; i++) {
        ps_bounded_free(work->pool, held[i]);
    }
    return NULL;
}

static void run_threads(const struct ps_bounded_options *options, size_t count, size_t rounds) {
    enum { THREADS = 4 };
    struct shared_work work = {.rounds = rounds};
    work.pool = ps_bounded_create(sizeof(struct packet), 0, count, options);
    REQUIRE(work.pool != NULL);
    for (size_t generation = 0; generation < 3; generation++) {
        pthread_t threads[THREADS];
        for (size_t i = 0; i < THREADS; i++) {
            REQUIRE(pthread_create(&threads[i], NULL, pass_on, &work) == 0);
        }
        for (size_t i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    for (size_t i = 0; i < 64; i++) {
        ps_bounded_free(work.pool, work.x_box[i]);
    }
    CHECK(ps_bounded_check(work.pool));
    CHECK_EQ(exhaust(work.pool), count);
    free_first(work.pool, count);
    ps_bounded_destroy(work.pool);
}

TEST(threads_pass_objects_on) {
    static const struct ps_bounded_options kinds[] = {
        {.cache_items = 0},
        {.cache_items = 2},
        {.cache_items = 6, .threads = 2},
        {.is_exact = true},
    };
    for (size_t i = 0; i < 4; i++) {
        run_threads(&kinds[i], 1000, 8000 / FRESH_SLOWNESS);
        run_threads(&kinds[i], 80, 8000 / FRESH_SLOWNESS);
    }
}

static pthread_key_t late_key;

static void use_late(void *pool) {
    void *packet = ps_bounded_alloc(pool);
    CHECK(packet != NULL);
    ps_bounded_free(pool, packet);
}

static void *end_late(void *pool) {
    use_late(pool);
    pthread_setspecific(late_key, pool);
    return NULL;
}

TEST(destructors_of_other_keys_may_use_the_pool) {
    struct ps_bounded *pool = ps_bounded_create(sizeof(struct packet), 0, 100, NULL);
    REQUIRE(pthread_key_create(&late_key, use_late) == 0);
    for (size_t i = 0; i < 10; i++) {
        (void)in_a_thread(end_late, pool);
    }
    CHECK_EQ(exhaust(pool), 100);
    free_first(pool, 100);
    ps_bounded_destroy(pool);
}

/* ---- fork ---- */

static struct ps_bounded *forked;
static int x_is_over;

static void *work_on(void *unused) {
    (void)unused;
    struct packet *held[40] = {NULL};
    while (__atomic_load_n(&x_is_over, __ATOMIC_RELAXED) == 0) {
        for (size_t i = 0; i < 40; i++) {
            held[i] = ps_bounded_alloc(forked);
        }
        for (size_t i = 0; i < 40; i++) {
            ps_bounded_free(forked, held[i]);
        }
    }
    return NULL;
}

/* Objects in the other thread's cache are available, its live objects are not, and none comes
 * twice. */
static void use_in_child(void) {
    size_t count = exhaust(forked);
    CHECK_CMP(count, >=, 200 - 40 - 20);
    for (size_t i = 0; i < count; i++) {
        packets[i]->owner = i;
    }
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(packets[i]->owner, i);
    }
    free_first(forked, count);
    CHECK_EQ(exhaust(forked), count);
}

TEST(a_child_finds_each_object_once) {
    NEEDS_CHUNKS();
    struct ps_bounded_options options = {.cache_items = 20};
    forked = ps_bounded_create(sizeof(struct packet), 0, 200, &options);
    x_is_over = 0;
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, work_on, NULL) == 0);
    fflush(NULL);
    for (size_t round = 0; round < 40 / FRESH_SLOWNESS; round++) {
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            slowness_alarm(20);
            unit_failures = 0;
            use_in_child();
        }
        unit_join_child(pid);
    }
    __atomic_store_n(&x_is_over, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    CHECK_EQ(exhaust(forked), 200);
    free_first(forked, 200);
    ps_bounded_destroy(forked);
}

/* ---- PS_DEBUG ---- */

DEBUG_TEST(checked_pools_fill_free_objects, "check") {
    struct ps_bounded *pool = ps_bounded_create(sizeof(struct packet), 0, 100, NULL);
    struct packet *packet = ps_bounded_alloc(pool);
    memset(packet, 1, sizeof *packet);
    ps_bounded_free(pool, packet);
    if (!ps_poison_is_on) {
        CHECK_EQ(packet->text[39], (char)0xdd);
    }
    ps_bounded_destroy(pool);
}

DEBUG_TEST(with_malloc_the_bound_holds, "malloc") {
    struct counting_source source = new_source(0);
    struct ps_bounded_options options = {.chunks = {.source = &source.source}};
    struct ps_bounded *pool = ps_bounded_create(sizeof(struct packet), 64, 100, &options);
    CHECK_EQ(exhaust(pool), 100);
    CHECK_EQ((uintptr_t)packets[99] % 64, 0);
    free_first(pool, 100);
    CHECK_EQ(source.calls, 0);
    ps_bounded_destroy(pool);
}

DEBUG_ALL(everything_holds_in_checked_mode, "check")

DEBUG_ALL(everything_holds_in_malloc_mode, "malloc")

UNIT_MAIN
