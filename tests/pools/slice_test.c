/* SPDX-License-Identifier: MIT */
/*
 * Slices: sizes, alignment, errors, a model of random calls, lists that thrash at no edge, frees by
 * other threads, ends of threads, fork, trim, PS_DEBUG.
 */
#include "pools/common/poison.h"
#include "tests/unit/fresh.h"

#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"

#include <errno.h>
#include <poolshim/slice.h>
#include <pthread.h>
#include <sys/resource.h>

TEST(every_size_is_aligned_and_whole) {
    for (size_t bytes = 0; bytes < 10000; bytes += bytes < 2100 ? 1 : 97) {
        char *a = ps_slice_alloc(bytes);
        char *b = ps_slice_alloc(bytes);
        REQUIRE(a != NULL && b != NULL && a != b);
        CHECK_EQ(((uintptr_t)a | (uintptr_t)b) % 16, 0);
        memset(a, 1, bytes);
        memset(b, 2, bytes);
        CHECK(bytes == 0 || (a[0] == 1 && a[bytes - 1] == 1));
        ps_slice_free(bytes, a);
        ps_slice_free(bytes, b);
    }
}

TEST(null_and_absurd_sizes) {
    errno = 7;
    ps_slice_free(10, NULL);
    ps_slice_free(SIZE_MAX, NULL);
    ps_slice_free_aligned(10, 64, NULL);
    ps_slice_free_chain(32, NULL, 8);
    CHECK_EQ(errno, 7);
    static const size_t absurd[] = {SIZE_MAX, SIZE_MAX - 100, (size_t)PTRDIFF_MAX + 1};
    for (size_t i = 0; i < 3; i++) {
        volatile size_t bytes = absurd[i];
        errno = 0;
        CHECK(ps_slice_alloc(bytes) == NULL);
        CHECK_EQ(errno, ENOMEM);
        errno = 0;
        CHECK(ps_slice_zalloc(bytes) == NULL);
        CHECK_EQ(errno, ENOMEM);
        CHECK(ps_slice_alloc_aligned(bytes, 64) == NULL);
        CHECK_EQ(errno, ENOMEM);
    }
    errno = 0;
    CHECK(ps_slice_alloc_aligned(10, 48) == NULL);
    CHECK_EQ(errno, EINVAL);
    CHECK(ps_slice_alloc_aligned(10, (size_t)1 << 20) == NULL);
}

TEST(zalloc_copy_and_aligned) {
    char text[6000];
    memset(text, 'x', sizeof text);
    for (size_t bytes = 0; bytes <= sizeof text; bytes += 371) {
        char *copy = ps_slice_copy(bytes, text);
        CHECK(memcmp(copy, text, bytes) == 0);
        ps_slice_free(bytes, copy);
        char *zeros = ps_slice_zalloc(bytes);
        for (size_t i = 0; i < bytes; i++) {
            CHECK_EQ(zeros[i], 0);
        }
        ps_slice_free(bytes, zeros);
        for (size_t align = 1; align <= 65536; align *= 4) {
            char *aligned = ps_slice_alloc_aligned(bytes, align);
            CHECK_EQ((uintptr_t)aligned % align, 0);
            memset(aligned, 5, bytes);
            ps_slice_free_aligned(bytes, align, aligned);
        }
    }
}

TEST(a_chain_is_freed_whole) {
    struct item {
        long value;
        struct item *next;
    };
    struct item *chain = NULL;
    for (int i = 0; i < 1000; i++) {
        struct item *item = ps_slice_alloc(sizeof *item);
        item->value = i;
        item->next = chain;
        chain = item;
    }
    ps_slice_free_chain(sizeof *chain, chain, offsetof(struct item, next));
}

/* Fills, verifies and frees slices at random; a slice's contents must be intact at its free. */
static void random_calls(uint64_t seed, size_t steps) {
    enum { COUNT = 400 };
    struct {
        unsigned char *slice;
        size_t bytes;
        unsigned char fill;
    } slots[COUNT] = {{0}};
    uint64_t state = seed | 1;
    for (size_t step = 0; step < steps; step++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        size_t at = state % COUNT;
        if (slots[at].slice == NULL) {
            size_t shift = (state >> 20) % 13;
            slots[at].bytes = (state >> 30) % ((size_t)2 << shift);
            slots[at].fill = (unsigned char)(state >> 12);
            slots[at].slice = ps_slice_alloc(slots[at].bytes);
            REQUIRE(slots[at].slice != NULL);
            memset(slots[at].slice, slots[at].fill, slots[at].bytes);
        } else {
            for (size_t i = 0; i < slots[at].bytes; i++) {
                REQUIRE(slots[at].slice[i] == slots[at].fill);
            }
            ps_slice_free(slots[at].bytes, slots[at].slice);
            slots[at].slice = NULL;
        }
    }
    for (size_t at = 0; at < COUNT; at++) {
        ps_slice_free(slots[at].bytes, slots[at].slice);
    }
}

TEST(random_calls_agree_with_a_model) { random_calls(unit_random(), 60000 / FRESH_SLOWNESS); }

static size_t run_bytes(void) {
    struct ps_slice_stats stats;
    ps_slice_stats(&stats);
    return stats.run_bytes;
}

static void *slices[40000];

static void allocate_all(size_t bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        slices[i] = ps_slice_alloc(bytes);
        REQUIRE(slices[i] != NULL);
        memset(slices[i], 1, bytes);
    }
}

TEST(trim_gives_whole_runs_back) {
    NEEDS_CHUNKS();
    static const size_t sizes[] = {16, 24, 240, 1000, 1100, 4000}; /* with canaries, too */
    ps_slice_trim_to(0);
    size_t before = run_bytes();
    for (size_t s = 0; s < 6; s++) {
        size_t count = 2000000 / (sizes[s] + 200);
        allocate_all(sizes[s], count);
        CHECK_CMP(run_bytes(), >=, before + count * sizes[s]);
        for (size_t i = 0; i < count; i++) {
            ps_slice_free(sizes[s], slices[i * 7919 % count]);
        }
        CHECK_CMP(run_bytes(), >, before);
        CHECK(ps_slice_trim_to(0));
        CHECK_EQ(run_bytes(), before);
    }
    CHECK(!ps_slice_trim_to(0));
}

static size_t free_bytes(void) {
    struct ps_slice_stats stats;
    ps_slice_stats(&stats);
    return stats.depot_bytes + stats.cache_bytes;
}

/* Frees 2 MB of each of two sizes; no list has all slices of a run. */
static void free_two_sizes(void) {
    static void *others[8000];
    allocate_all(64, 30000);
    for (size_t i = 0; i < 8000; i++) {
        others[i] = ps_slice_alloc(240);
        REQUIRE(others[i] != NULL);
    }
    for (size_t i = 0; i < 30000; i++) {
        ps_slice_free(64, slices[i * 7 % 30000]);
    }
    for (size_t i = 0; i < 8000; i++) {
        ps_slice_free(240, others[i]);
    }
}

TEST(trim_retains_as_much_of_all_sizes_together_as_it_is_told) {
    NEEDS_CHUNKS();
    ps_slice_trim_to(0);
    size_t runs_before = run_bytes();
    for (size_t eighths = 1; eighths < 8; eighths++) {
        free_two_sizes();
        size_t free_before = free_bytes();
        size_t runs = run_bytes();
        CHECK_EQ(ps_slice_trim_to(free_before), 0);
        CHECK_EQ(free_bytes(), free_before);
        size_t keep = free_before / 8 * eighths;
        size_t given = ps_slice_trim_to(keep);
        CHECK_EQ(given, runs - run_bytes());
        CHECK_CMP(free_bytes(), <=, keep);
        /* A list of 16 KiB of neighbours ends two runs at most. */
        CHECK_CMP(free_bytes(), >=, keep - 2 * 65536);
        CHECK_CMP(ps_slice_trim_to(0), >, 0);
        CHECK_EQ(run_bytes(), runs_before);
    }
}

TEST(nothing_grows_while_no_more_live_than_before) {
    allocate_all(100, 10000);
    size_t bytes = run_bytes();
    for (size_t round = 0; round < 10; round++) {
        size_t step = round % 2 != 0 ? 7 : 1;
        for (size_t i = 0; i < 10000; i++) {
            ps_slice_free(100, slices[i * step % 10000]);
        }
        for (size_t i = 0; i < 10000; i++) {
            slices[i] = ps_slice_alloc(100);
        }
    }
    CHECK_EQ(run_bytes(), bytes);
    for (size_t i = 0; i < 10000; i++) {
        ps_slice_free(100, slices[i]);
    }
}

static size_t depot_bytes(void) {
    struct ps_slice_stats stats;
    ps_slice_stats(&stats);
    return stats.depot_bytes;
}

TEST(no_visit_of_the_depot_around_the_edge_of_a_list) {
    GIVEN("a list just full, and the one in reserve empty");
    enum { BYTES = 1000, LIMIT = 16 }; /* a class of 1024 bytes, or 1280 with canaries */
    allocate_all(BYTES, 10 * LIMIT);
    size_t live = 10 * LIMIT;
    for (int i = 0; i < 3 * LIMIT; i++) {
        ps_slice_free(BYTES, slices[--live]);
    }
    size_t before = depot_bytes();
    WHEN("frees and allocs go back and forth by less than a list, wherever that starts");
    for (int start = 0; start < LIMIT; start++) {
        ps_slice_free(BYTES, slices[--live]);
        size_t from = depot_bytes();
        for (int round = 0; round < 50; round++) {
            size_t moved = 0;
            for (int i = 0; i < LIMIT / 2; i++) {
                slices[live + (size_t)i] = ps_slice_alloc(BYTES);
            }
            moved += depot_bytes() != from;
            for (int i = 0; i < LIMIT / 2; i++) {
                ps_slice_free(BYTES, slices[live + (size_t)i]);
            }
            moved += depot_bytes() != from;
            CHECK(round == 0 || moved == 0);
            from = depot_bytes();
        }
    }
    CHECK_CMP(depot_bytes() - before, <=, 2 * LIMIT * 1280);
    while (live > 0) {
        ps_slice_free(BYTES, slices[--live]);
    }
}

/* Slices travel through boxes from thread to thread; each is filled with its own size. */
enum { BOX_COUNT = 256, THREAD_COUNT = 3 };
static size_t *x_boxes[BOX_COUNT];

static void *exchange(void *seed) {
    uint64_t state = (uintptr_t)seed * 0x9e3779b97f4a7c15u;
    for (size_t step = 0; step < 60000 / FRESH_SLOWNESS; step++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        size_t bytes = sizeof(size_t) + state % (state % 64 == 0 ? 6000 : 300);
        size_t *slice = ps_slice_alloc(bytes);
        REQUIRE(slice != NULL);
        *slice = bytes;
        memset(slice + 1, 3, bytes - sizeof *slice);
        /* acq_rel: hands the slice over and takes over the one there. */
        slice = __atomic_exchange_n(&x_boxes[(state >> 40) % BOX_COUNT], slice, __ATOMIC_ACQ_REL);
        if (slice != NULL) {
            ps_slice_free(*slice, slice);
        }
    }
    return NULL;
}

TEST(slices_may_be_freed_by_any_thread) {
    pthread_t threads[THREAD_COUNT];
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, exchange, (void *)(i + 1)) == 0);
    }
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    }
    for (size_t i = 0; i < BOX_COUNT; i++) {
        if (x_boxes[i] != NULL) {
            ps_slice_free(*x_boxes[i], x_boxes[i]);
            x_boxes[i] = NULL;
        }
    }
    ps_slice_trim_to(0);
    CHECK_EQ(run_bytes(), 0);
}

static pthread_key_t late_key;

/* Runs after the cache of the thread has gone, in some round of the destructors. */
static void use_late(void *rounds_pointer) {
    random_calls(5, 500);
    size_t rounds = (size_t)rounds_pointer;
    if (rounds > 1) {
        pthread_setspecific(late_key, (void *)(rounds - 1));
    }
}

static void *use_and_end(void *unused) {
    (void)unused;
    pthread_setspecific(late_key, (void *)3);
    random_calls(3, 3000);
    for (size_t i = 0; i < 300; i++) {
        ps_slice_free(48, slices[i]);
    }
    return NULL;
}

TEST(a_thread_leaves_nothing_behind) {
    ps_slice_trim_to(0);
    CHECK_EQ(run_bytes(), 0);
    REQUIRE(pthread_key_create(&late_key, use_late) == 0);
    for (int round = 0; round < 5; round++) {
        allocate_all(48, 300);
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, use_and_end, NULL) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
        ps_slice_trim_to(0);
        CHECK_EQ(run_bytes(), 0);
    }
    pthread_key_delete(late_key);
}

static uint32_t x_is_busy;

static void *keep_busy(void *unused) {
    (void)unused;
    /* relaxed: only a reason to stop. */
    while (__atomic_load_n(&x_is_busy, __ATOMIC_RELAXED) != 0) {
        random_calls(9, 1000);
        ps_slice_trim_to(0);
    }
    return NULL;
}

TEST(a_forked_child_goes_on_whatever_others_did) {
    pthread_t thread;
    x_is_busy = 1;
    REQUIRE(pthread_create(&thread, NULL, keep_busy, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        random_calls((uint64_t)i, 500);
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            slowness_alarm(FRESH_SECONDS_MAX);
            unit_failures = 0;
            random_calls((uint64_t)i, 2000);
            ps_slice_trim_to(0);
        }
        unit_join_child(pid);
    }
    __atomic_store_n(&x_is_busy, 0u, __ATOMIC_RELAXED); /* relaxed: as above */
    REQUIRE(pthread_join(thread, NULL) == 0);
}

/* Fills, in a child without address space, until there is no more. */
TEST(no_memory_is_null_and_all_goes_on) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (ps_poison_is_on) {
        return; /* valgrind wants memory of the same address space */
    }
    struct unit_child child = unit_child_start();
    if (child.pid == 0) {
        struct rlimit limit = {(rlim_t)256 << 20, (rlim_t)256 << 20};
        setrlimit(RLIMIT_AS, &limit);
        void *chain = NULL;
        size_t count = 0;
        errno = 0;
        for (void **slice; (slice = ps_slice_alloc(1000)) != NULL; count++) {
            *slice = chain;
            chain = slice;
        }
        int is_right = errno == ENOMEM && count > 1000 && ps_slice_alloc(100000) == NULL;
        ps_slice_free_chain(1000, chain, 0);
        chain = ps_slice_alloc(1000);
        is_right = is_right && chain != NULL;
        ps_slice_free(1000, chain);
        _exit(is_right ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child.pid, &status, 0) == child.pid);
    close(child.stderr_fd);
    CHECK_EQ(status, 0);
#endif
}

DEBUG_TEST(checked_runs_verify_address_and_size, "check") {
    char *slice = ps_slice_alloc(40);
    char *large = ps_slice_alloc(50000);
    static char mine[64];
    CHECK_ABORTS(ps_slice_free(41, slice), "poolshim: slice freed with another size");
    CHECK_ABORTS(ps_slice_free(400, slice), "poolshim: slice freed with another size");
    CHECK_ABORTS(ps_slice_free(60000, large), "poolshim: slice freed with another size");
    CHECK_ABORTS(ps_slice_free(24, slice + 16), "poolshim: slice freed that is none");
    CHECK_ABORTS(ps_slice_free(64, mine), "poolshim: slice freed that is none");
    CHECK_ABORTS((ps_slice_free(40, slice), ps_slice_free(40, slice)),
                 "poolshim: slice freed that is none");
    ps_slice_free(50000, large);
    ps_slice_free(40, slice);
}

DEBUG_ALL(checked_runs_behave_the_same, "check")

DEBUG_TEST(with_malloc_slices_are_blocks, "malloc") {
    every_size_is_aligned_and_whole();
    zalloc_copy_and_aligned();
    a_chain_is_freed_whole();
    random_calls_agree_with_a_model();
    CHECK_EQ(run_bytes(), 0);
}

UNIT_MAIN
