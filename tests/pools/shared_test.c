/* SPDX-License-Identifier: MIT */
/*
 * Shared heaps while nothing is killed: blocks, growth, names, other processes and threads, misuse.
 * shared_open_test.c has what files may be; shared_kill_test.c has kills.
 */
#include "tests/pools/new_shared.h"
#include "tests/unit/fresh.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

enum { SLOTS = 64 };

TEST(aligned_realloc_has_its_alignment_in_place_and_moved) {
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    for (size_t align = 1; align <= 4096; align *= 2) {
        char *block = ps_shared_alloc(heap, 100);
        REQUIRE(block != NULL);
        memset(block, 7, 100);
        char *fence = ps_shared_alloc(heap, 16);
        static const size_t lengths[] = {100, 5000, 50, 20000, 1};
        for (size_t i = 0; i < 5; i++) {
            block = ps_shared_realloc_aligned(heap, block, lengths[i], align);
            REQUIRE(block != NULL);
            CHECK_EQ((uintptr_t)block & (align - 1), 0);
            CHECK(block[0] == 7 && block[i < 2 ? 99 : i < 4 ? 49 : 0] == 7);
        }
        char *same = ps_shared_realloc_aligned(heap, block, 1, align);
        CHECK_PTR_EQ(same, block);
        ps_shared_free(heap, same);
        ps_shared_free(heap, fence);
    }
    void *block = ps_shared_realloc_aligned(heap, NULL, 10, 512);
    CHECK_EQ((uintptr_t)block & 511, 0);
    static const size_t wrong[] = {0, 3, 8192};
    for (size_t i = 0; i < 3; i++) {
        errno = 0;
        void *none = ps_shared_realloc_aligned(heap, block, 10, wrong[i]);
        CHECK(none == NULL && errno == EINVAL);
    }
    ps_shared_free(heap, block);
    CHECK_EQ(shared_stats(heap).used_count, 0);
    shared_check(heap);
    ps_shared_close(heap);
    close(fd);
}

TEST(blocks_are_apart_aligned_and_counted) {
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    size_t used_bytes = 0;
    char *blocks[100];
    for (size_t i = 0; i < 100; i++) {
        size_t align = (size_t)1 << i % 13;
        blocks[i] =
            i % 2 == 0 ? ps_shared_alloc(heap, i * 7) : ps_shared_alloc_aligned(heap, i * 7, align);
        REQUIRE(blocks[i] != NULL);
        CHECK_EQ((uintptr_t)blocks[i] % (i % 2 == 0 || align < 16 ? 16 : align), 0);
        CHECK_CMP(ps_shared_usable_size(heap, blocks[i]), >=, i * 7);
        memset(blocks[i], (int)i, ps_shared_usable_size(heap, blocks[i]));
        used_bytes += ps_shared_usable_size(heap, blocks[i]);
    }
    struct ps_shared_stats stats = shared_stats(heap);
    CHECK_EQ(stats.used_count, 100);
    CHECK_EQ(stats.used_bytes, used_bytes);
    CHECK_STR_EQ(stats.name, "shared");
    shared_check(heap);
    for (size_t i = 0; i < 100; i++) {
        CHECK_EQ((unsigned char)blocks[i][ps_shared_usable_size(heap, blocks[i]) - 1], i);
        ps_shared_free(heap, blocks[i]);
    }
    ps_shared_free(heap, NULL);
    CHECK_EQ(ps_shared_usable_size(heap, NULL), 0);
    stats = shared_stats(heap);
    CHECK_EQ(stats.used_count, 0);
    CHECK_EQ(stats.used_bytes, 0);
    THEN("all of the heap is one block again");
    CHECK_CMP(stats.fitting_bytes, <=, stats.free_bytes);
    CHECK_CMP(stats.fitting_bytes, >, stats.free_bytes - stats.free_bytes / 16);
    shared_check(heap);
    errno = 0;
    CHECK_PTR_EQ(ps_shared_alloc_aligned(heap, 8, 24), NULL);
    CHECK_EQ(errno, EINVAL);
    CHECK_PTR_EQ(ps_shared_alloc_aligned(heap, 8, 8192), NULL);
    ps_shared_close(heap);
    close(fd);
}

TEST(zeroed_blocks_are_zero_in_used_memory) {
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    char *dirty = ps_shared_alloc(heap, 500);
    memset(dirty, 7, 500);
    ps_shared_free(heap, dirty);
    char *clean = ps_shared_zalloc(heap, 500);
    for (size_t i = 0; i < 500; i++) {
        CHECK_EQ(clean[i], 0);
    }
    ps_shared_close(heap);
    close(fd);
}

/* Compares random calls with a table of what there must be. */
TEST(random_calls_keep_contents_and_heads) {
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    struct {
        unsigned char *at;
        size_t bytes;
        unsigned char fill;
    } slots[SLOTS] = {{NULL, 0, 0}};
    for (int round = 0; round < 20000 / FRESH_SLOWNESS; round++) {
        size_t i = unit_random() % SLOTS;
        size_t bytes = unit_random() % 16 == 0 ? unit_random() % 60000 : unit_random() % 600;
        for (size_t b = 0; b < slots[i].bytes; b += 13) {
            REQUIRE(slots[i].at[b] == slots[i].fill);
        }
        if (slots[i].at == NULL) {
            slots[i].at = ps_shared_alloc_aligned(heap, bytes, (size_t)16 << unit_random() % 6);
        } else if (unit_random() % 2 == 0) {
            unsigned char *at = ps_shared_realloc(heap, slots[i].at, bytes);
            REQUIRE(at != NULL);
            for (size_t b = 0; b < slots[i].bytes && b < bytes; b += 13) {
                REQUIRE(at[b] == slots[i].fill);
            }
            slots[i].at = at;
        } else {
            ps_shared_free(heap, slots[i].at);
            slots[i].at = NULL;
            slots[i].bytes = 0;
            continue;
        }
        REQUIRE(slots[i].at != NULL);
        slots[i].bytes = bytes;
        slots[i].fill = (unsigned char)unit_random();
        memset(slots[i].at, slots[i].fill, bytes);
        if (round % 64 == 0) {
            shared_check(heap);
        }
    }
    shared_check(heap);
    ps_shared_close(heap);
    close(fd);
}

TEST(it_grows_to_its_limit_and_no_further) {
    int fd = shared_file();
    struct ps_shared_options options = {.initial_bytes = 64 << 10, .max_bytes = 1 << 20};
    struct ps_shared *heap;
    REQUIRE(ps_shared_open_fd(&heap, fd, PS_SHARED_CREATE, &options) == PS_SHARED_OK);
    GIVEN("another process's view, from before the growth");
    struct ps_shared *other;
    REQUIRE(ps_shared_open_fd(&other, fd, 0, NULL) == PS_SHARED_OK);
    size_t count = 0;
    char *last = NULL;
    for (char *block; (block = ps_shared_alloc(heap, 1000)) != NULL; count++) {
        memset(block, 1, 1000);
        last = block;
    }
    CHECK_EQ(errno, ENOMEM);
    struct ps_shared_stats stats = shared_stats(heap);
    CHECK_EQ(stats.total_bytes, 1 << 20);
    CHECK_EQ(stats.used_count, count);
    CHECK_CMP(count, >, 1000);
    CHECK_CMP(lseek(fd, 0, SEEK_END), ==, 1 << 20);
    CHECK_EQ(*(char *)ps_shared_at(other, ps_shared_offset(heap, last)), 1);
    ps_shared_free(other, ps_shared_at(other, ps_shared_offset(heap, last)));
    CHECK_PTR_EQ(ps_shared_alloc(heap, 1000), last);
    *last = 1;
    CHECK_PTR_EQ(ps_shared_alloc(heap, (size_t)1 << 40), NULL);
    CHECK_PTR_EQ(ps_shared_alloc(heap, SIZE_MAX), NULL);
    CHECK_PTR_EQ(ps_shared_realloc(heap, last, SIZE_MAX), NULL);
    CHECK_EQ(*last, 1);
    shared_check(other);
    ps_shared_close(other);
    ps_shared_close(heap);
    close(fd);
}

TEST(when_the_system_has_no_memory_nothing_has_changed) {
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
    struct ps_shared_stats before = shared_stats(heap);
    errno = 0;
    CHECK_PTR_EQ(ps_shared_alloc(heap, 1 << 20), NULL);
    CHECK_EQ(errno, ENOMEM);
    struct ps_shared_stats after = shared_stats(heap);
    CHECK_EQ(memcmp(&before, &after, sizeof before), 0);
    void *block = ps_shared_alloc(heap, 1000);
    CHECK(block != NULL);
    CHECK_PTR_EQ(ps_shared_realloc(heap, block, 1 << 20), NULL);
    errno = 3;
    ps_shared_free(heap, block);
    CHECK_EQ(errno, 3);
    shared_check(heap);
    ps_shared_close(heap);
    close(fd);
}

TEST(names_lead_to_offsets_in_every_process) {
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    struct ps_shared *reader;
    REQUIRE(ps_shared_open_fd(&reader, fd, PS_SHARED_READ, NULL) == PS_SHARED_OK);
    CHECK_EQ(ps_shared_root(reader, "jobs"), 0);
    int *jobs = ps_shared_alloc(heap, sizeof *jobs);
    *jobs = 42;
    CHECK(ps_shared_set_root(heap, "jobs", ps_shared_offset(heap, jobs)));
    CHECK_EQ(*PS_SHARED_AT(reader, int, ps_shared_root(reader, "jobs")), 42);
    CHECK_EQ(ps_shared_claim_root(heap, "jobs", 16), ps_shared_offset(heap, jobs));
    CHECK_EQ(ps_shared_claim_root(heap, "other", 16), 16);
    CHECK(ps_shared_set_root(heap, "jobs", 0));
    CHECK_EQ(ps_shared_root(reader, "jobs"), 0);
    CHECK_EQ(ps_shared_claim_root(heap, "jobs", 32), 32);
    CHECK_STR_EQ(ps_shared_root_name(reader, 0), "jobs");
    CHECK_STR_EQ(ps_shared_root_name(reader, 1), "other");
    CHECK_PTR_EQ(ps_shared_root_name(reader, 2), NULL);
    char name[PS_SHARED_NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    name[PS_SHARED_NAME_MAX + 1] = 0;
    errno = 0;
    CHECK(!ps_shared_set_root(heap, name, 48) && errno == EINVAL);
    CHECK(!ps_shared_set_root(heap, "", 48) && errno == EINVAL);
    name[PS_SHARED_NAME_MAX] = 0;
    CHECK(ps_shared_set_root(heap, name, 48));
    CHECK_EQ(ps_shared_root(reader, name), 48);
    for (int i = 3; i < PS_SHARED_NAMES_MAX; i++) {
        snprintf(name, sizeof name, "%d", i);
        CHECK(ps_shared_set_root(heap, name, 16));
    }
    CHECK(!ps_shared_set_root(heap, "one more", 16) && errno == ENOSPC);
    CHECK_EQ(ps_shared_claim_root(heap, "one more", 16), 0);
    CHECK_EQ(shared_stats(reader).name_count, PS_SHARED_NAMES_MAX);
    CHECK_EQ(ps_shared_root(reader, ""), 0);
    ps_shared_close(reader);
    ps_shared_close(heap);
    close(fd);
}

TEST(a_record_in_the_heap_changes_with_its_block) {
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    ps_offset *place = ps_shared_zalloc(heap, sizeof *place);
    void *block = ps_shared_alloc_into(heap, 100, place);
    CHECK_PTR_EQ(block, ps_shared_at(heap, *place));
    CHECK_EQ(shared_stats(heap).used_count, 2);
    errno = 0;
    CHECK_PTR_EQ(ps_shared_alloc_into(heap, 100, place), NULL);
    CHECK_EQ(errno, EINVAL);
    ps_shared_free_from(heap, place);
    CHECK_EQ(*place, 0);
    ps_shared_free_from(heap, place);
    CHECK_EQ(shared_stats(heap).used_count, 1);
    ps_offset here = 0;
    CHECK_ABORTS(ps_shared_alloc_into(heap, 1, &here), "not a word in this shared heap:");
    ps_shared_close(heap);
    close(fd);
}

TEST(readers_may_not_write) {
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    char *block = ps_shared_alloc(heap, 100);
    struct ps_shared *reader;
    REQUIRE(ps_shared_open_fd(&reader, fd, PS_SHARED_READ, NULL) == PS_SHARED_OK);
    char *seen = ps_shared_at(reader, ps_shared_offset(heap, block));
    errno = 0;
    CHECK_PTR_EQ(ps_shared_alloc(reader, 10), NULL);
    CHECK_EQ(errno, EROFS);
    errno = 0;
    CHECK_PTR_EQ(ps_shared_realloc(reader, seen, 1000), NULL);
    CHECK_EQ(errno, EROFS);
    CHECK(!ps_shared_set_root(reader, "a", 16) && errno == EROFS);
    ps_shared_free(reader, seen);
    ps_shared_free_from(reader, (ps_offset *)(void *)seen);
    CHECK_EQ(ps_shared_usable_size(reader, seen), ps_shared_usable_size(heap, block));
    CHECK_EQ(shared_stats(reader).used_count, 1);
    CHECK(ps_shared_owns(reader, seen) && !ps_shared_owns(reader, block));
    ps_shared_close(reader);
    ps_shared_close(heap);
    ps_shared_close(NULL);
    close(fd);
}

/* The process that misuses the heap ends; the others go on. */
TEST(misuse_ends_the_process_and_not_the_heap) {
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    char *a = ps_shared_alloc(heap, 100);
    char *b = ps_shared_alloc(heap, 100);
    char *c = ps_shared_alloc(heap, 100);
    ps_shared_free(heap, a);
    CHECK_ABORTS(ps_shared_free(heap, a), "double free of");
    CHECK_ABORTS(ps_shared_free(heap, b + 16), "not a block of this shared heap:");
    CHECK_ABORTS(ps_shared_free(heap, &fd), "not a block of this shared heap:");
    CHECK_ABORTS((ps_shared_free(heap, b), ps_shared_free(heap, b)), "double free of");
    THEN("the other process's block is free, and nothing else has happened");
    CHECK_EQ(shared_stats(heap).used_count, 1);
    CHECK_EQ(shared_stats(heap).recovery_count, 4);
    shared_check(heap);
    ps_shared_free(heap, c);
    ps_shared_close(heap);
    close(fd);
}

TEST(damage_is_found) {
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    uint64_t *a = ps_shared_alloc(heap, 24);
    uint64_t *b = ps_shared_alloc(heap, 24);
    uint64_t kept = b[-1];
    b[-1] ^= (uint64_t)1 << 60;
    CHECK_STR_EQ(ps_shared_check(heap), "a head is overwritten");
    CHECK_ABORTS(ps_shared_free(heap, b), "not a block of this shared heap:");
    b[-1] = kept + 32;
    CHECK(ps_shared_check(heap) != NULL);
    b[-1] = kept;
    shared_check(heap);
    ps_shared_free(heap, a);
    a[0] = 16; /* the link of a free block */
    CHECK(ps_shared_check(heap) != NULL);
    ps_shared_close(heap);
    close(fd);
}

/* ---- many at once ---- */

/* Replaces blocks of its own at random; every block has its own mark at both ends. */
static int churn(struct ps_shared *heap, uint64_t seed, int rounds) {
    uint64_t *blocks[SLOTS] = {NULL};
    size_t words[SLOTS] = {0};
    for (int round = 0; round < rounds; round++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t i = seed >> 33 & (SLOTS - 1);
        if (blocks[i] != NULL) {
            if (blocks[i][0] != (uintptr_t)blocks[i] ||
                blocks[i][words[i] - 1] != (uintptr_t)blocks[i]) {
                return 1;
            }
            ps_shared_free(heap, blocks[i]);
        }
        words[i] = 1 + (seed >> 40) % 90;
        blocks[i] = ps_shared_alloc(heap, words[i] * 8);
        if (blocks[i] == NULL) {
            return 2;
        }
        blocks[i][words[i] - 1] = blocks[i][0] = (uintptr_t)blocks[i];
    }
    for (size_t i = 0; i < SLOTS; i++) {
        ps_shared_free(heap, blocks[i]);
    }
    return 0;
}

static void *churn_in_thread(void *heap) {
    return (void *)(intptr_t)churn(heap, (uintptr_t)&heap, 4000 / FRESH_SLOWNESS);
}

TEST(processes_and_threads_allocate_and_free_at_once) {
    enum { PROCESSES = 4, THREADS = 2 };
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    pid_t pids[PROCESSES];
    fflush(NULL);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        REQUIRE(pids[i] >= 0);
        if (pids[i] == 0) {
            struct ps_shared *own = i % 2 == 0 ? shared_open(fd) : heap;
            _exit(churn(own, (uint64_t)i + 7, 8000 / FRESH_SLOWNESS));
        }
    }
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, churn_in_thread, heap) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;
        REQUIRE(pthread_join(threads[i], &result) == 0);
        CHECK_PTR_EQ(result, NULL);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        REQUIRE(waitpid(pids[i], &status, 0) == pids[i]);
        CHECK_EQ(status, 0);
    }
    shared_check(heap);
    CHECK_EQ(shared_stats(heap).used_count, 0);
    CHECK_EQ(shared_stats(heap).recovery_count, 0);
    ps_shared_close(heap);
    close(fd);
}

TEST(blocks_pass_from_process_to_process) {
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    ps_offset *box = ps_shared_zalloc(heap, 64 * sizeof *box);
    CHECK(ps_shared_set_root(heap, "box", ps_shared_offset(heap, box)));
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) { /* frees what the parent allocates */
        struct ps_shared *own = shared_open(fd);
        ps_offset *theirs = ps_shared_at(own, ps_shared_root(own, "box"));
        for (uint64_t i = 0; i < 3000; i++) {
            ps_offset *place = &theirs[i % 64];
            ps_offset offset;
            while ((offset = __atomic_load_n(place, __ATOMIC_ACQUIRE)) == 0) {
                sched_yield();
            }
            uint64_t *block = ps_shared_at(own, offset);
            if (*block != i) {
                _exit(1);
            }
            ps_shared_free(own, block);
            __atomic_store_n(place, 0, __ATOMIC_RELEASE);
        }
        _exit(0);
    }
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t *block = ps_shared_alloc(heap, 8 + i % 500);
        REQUIRE(block != NULL);
        *block = i;
        while (__atomic_load_n(&box[i % 64], __ATOMIC_ACQUIRE) != 0) {
            sched_yield();
        }
        __atomic_store_n(&box[i % 64], ps_shared_offset(heap, block), __ATOMIC_RELEASE);
    }
    int status;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    CHECK_EQ(shared_stats(heap).used_count, 1);
    shared_check(heap);
    ps_shared_close(heap);
    close(fd);
}

UNIT_MAIN
