/* SPDX-License-Identifier: MIT */
/*
 * TLSF pools under misuse, under PS_DEBUG, and without memory at every call of the source. Each
 * test is a child of its own, since PS_DEBUG is read once.
 */
#include "tests/unit/fresh.h"

#include "tests/pools/counting_source.h"
#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"

#include <errno.h>
#include <poolshim/tlsf.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>

static char room[1 << 20] __attribute__((aligned(4096)));

FRESH_TEST(a_second_free_is_found) {
    NEEDS_CHUNKS();
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    char *first = ps_tlsf_alloc(tlsf, 50);
    char *second = ps_tlsf_alloc(tlsf, 50);
    char *wall = ps_tlsf_alloc(tlsf, 50);
    ps_tlsf_free(tlsf, second);
    CHECK_ABORTS(ps_tlsf_free(tlsf, second), "poolshim: double free of 0x");
    WHEN("the block has been merged into the one before it");
    ps_tlsf_free(tlsf, first);
    CHECK_ABORTS(ps_tlsf_free(tlsf, second), "poolshim: double free of 0x");
    CHECK_ABORTS((void)!ps_tlsf_realloc(tlsf, first, 10), "poolshim: double free of 0x");
    ps_tlsf_free(tlsf, wall);
}

FRESH_TEST(a_foreign_pointer_is_found) {
    NEEDS_CHUNKS();
    struct ps_tlsf_options options = {.chunks = {.name = "voices"}};
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room / 2, &options);
    struct ps_tlsf *other = ps_tlsf_init(room + sizeof room / 2, sizeof room / 2, NULL);
    void *theirs = ps_tlsf_alloc(other, 50);
    void *ours = ps_tlsf_alloc(tlsf, 50);
    CHECK_ABORTS(ps_tlsf_free(tlsf, theirs), "poolshim: not a block of this pool: 0x");
    CHECK_ABORTS(ps_tlsf_free(tlsf, theirs), "in voices\n");
    memset(ours, 0, 56);
    CHECK_ABORTS(ps_tlsf_free(tlsf, (char *)ours + 16), "poolshim: not a block of this pool: 0x");
    CHECK_ABORTS(ps_tlsf_free(tlsf, (char *)ours + 3), "poolshim: not a block of this pool: 0x");
}

FRESH_TEST(an_overwritten_head_is_found) {
    NEEDS_CHUNKS();
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    char *first = ps_tlsf_alloc(tlsf, 24);
    char *second = ps_tlsf_alloc(tlsf, 24);
    size_t over = 32;
    __asm__("" : "+r"(over)); /* or the compiler sees it too */
    memset(first, 'A', over);
    __asm__ volatile("" : : "r"(first) : "memory"); /* or nobody reads it, and it is not done */
    CHECK_ABORTS(ps_tlsf_free(tlsf, second), "poolshim: not a block of this pool: 0x");
    const char *fault = ps_tlsf_check(tlsf);
    CHECK_STR_EQ(fault == NULL ? "sound" : fault, "a head is overwritten");
}

/* Three blocks side by side, then a wall; each is of the smallest size. */
static struct ps_tlsf *three_blocks(char **blocks) {
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    for (int i = 0; i < 4; i++) {
        blocks[i] = ps_tlsf_alloc(tlsf, 24);
        REQUIRE(i == 0 || blocks[i] == blocks[i - 1] + 32);
    }
    return tlsf;
}

static void overrun(char *block, size_t bytes) {
    __asm__("" : "+r"(bytes)); /* as above */
    memset(block, 'A', bytes);
    __asm__ volatile("" : : "r"(block) : "memory");
}

FRESH_TEST(an_overrun_over_the_head_behind_is_found_in_free_and_realloc) {
    NEEDS_CHUNKS();
    char *blocks[4];
    struct ps_tlsf *tlsf = three_blocks(blocks);
    for (int is_free = 0; is_free < 2; is_free++) {
        WHEN("the next block is used; the next time it is free");
        overrun(blocks[0], 32);
        CHECK_ABORTS(ps_tlsf_free(tlsf, blocks[0]), "poolshim: overwritten block after 0x");
        CHECK_ABORTS((void)!ps_tlsf_realloc(tlsf, blocks[0], 100),
                     "poolshim: overwritten block after 0x");
        CHECK_ABORTS((void)!ps_tlsf_usable_size(tlsf, blocks[1]), "poolshim: not a block of this");
        struct ps_tlsf_stats stats;
        CHECK_ABORTS(ps_tlsf_stats(tlsf, &stats), "poolshim: overwritten head of block 0x");
        CHECK(ps_tlsf_check(tlsf) != NULL);
        tlsf = three_blocks(blocks);
        ps_tlsf_free(tlsf, blocks[1]);
    }
}

FRESH_TEST(what_is_written_to_a_free_block_is_found_when_it_is_followed) {
    NEEDS_CHUNKS();
    for (size_t at = 0; at < 24; at += 8) { /* next, slot, the pointer back */
        char *blocks[4];
        struct ps_tlsf *tlsf = three_blocks(blocks);
        ps_tlsf_free(tlsf, blocks[1]);
        for (size_t wild = 0; wild < 4; wild++) {
            static char elsewhere[64];
            const uint64_t words[] = {0x4141414141414141u, 8, (uintptr_t)elsewhere,
                                      (uintptr_t)blocks[3]};
            memcpy(blocks[1] + at, &words[wild], 8);
            int neighbour = at == 16 ? 2 : 0; /* the one that looks there */
            CHECK_ABORTS(ps_tlsf_free(tlsf, blocks[neighbour]), "poolshim: overwritten ");
        }
        CHECK(ps_tlsf_check(tlsf) != NULL);
    }
}

FRESH_TEST(a_head_with_a_wild_size_is_found) {
    NEEDS_CHUNKS();
    char *blocks[4];
    struct ps_tlsf *tlsf = three_blocks(blocks);
    size_t head;
    memcpy(&head, blocks[1] - 8, 8);
    static const size_t sizes[] = {0, 16, 48, (size_t)1 << 21, (size_t)1 << 40};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t wild = (head & ~(((size_t)1 << 48) - 16)) | sizes[i];
        memcpy(blocks[1] - 8, &wild, 8);
        CHECK_ABORTS(ps_tlsf_free(tlsf, blocks[1]), "poolshim: overwritten ");
    }
}

FRESH_TEST(a_free_block_with_a_wild_size_is_found_when_it_is_taken) {
    NEEDS_CHUNKS();
    for (int is_last = 0; is_last < 2; is_last++) {
        char *blocks[4];
        struct ps_tlsf *tlsf = three_blocks(blocks);
        ps_tlsf_free(tlsf, blocks[1]);
        char *damaged = is_last ? blocks[3] + 32 : blocks[1];
        size_t head;
        memcpy(&head, damaged - 8, 8);
        static const size_t sizes[] = {0, 16, (size_t)1 << 21, (size_t)1 << 40};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            size_t wild = (head & ~(((size_t)1 << 48) - 16)) | sizes[i];
            memcpy(damaged - 8, &wild, 8);
            CHECK_ABORTS((void)!ps_tlsf_alloc(tlsf, is_last ? 100 : 24),
                         "poolshim: overwritten free block 0x");
            CHECK_ABORTS((void)!ps_tlsf_alloc_aligned(tlsf, is_last ? 100 : 24, is_last ? 64 : 16),
                         "poolshim: overwritten free block 0x");
        }
    }
}

FRESH_TEST(check_sees_overwritten_free_blocks) {
    NEEDS_CHUNKS();
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, NULL);
    char *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = ps_tlsf_alloc(tlsf, 24);
    }
    ps_tlsf_free(tlsf, blocks[1]);
    for (size_t at = 0; at < 24; at += 8) {
        uint64_t kept, wild = 0x4141414141414141u;
        memcpy(&kept, blocks[1] + at, 8);
        memcpy(blocks[1] + at, &wild, 8);
        CHECK(ps_tlsf_check(tlsf) != NULL);
        memcpy(blocks[1] + at, &kept, 8);
        CHECK(ps_tlsf_check(tlsf) == NULL);
    }
}

DEBUG_TEST(check_mode_finds_more, "check") {
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room / 2, NULL);
    char *first = ps_tlsf_alloc(tlsf, 24);
    char *second = ps_tlsf_alloc(tlsf, 24);
    char *moved = ps_tlsf_realloc(tlsf, second, 2000);
    CHECK(first != NULL && second != NULL && moved != NULL);
    ps_tlsf_free(tlsf, moved);
    CHECK_ABORTS(ps_tlsf_free(tlsf, moved), "poolshim: double free of 0x");
    CHECK_ABORTS(ps_tlsf_free(tlsf, room + sizeof room - 64),
                 "poolshim: not a block of this pool: 0x");
    second = ps_tlsf_alloc_aligned(tlsf, 24, 64);
    CHECK_EQ((uintptr_t)second % 64, 0);
    size_t over = 32;
    __asm__("" : "+r"(over)); /* or the compiler sees it too */
    memset(first, 'A', over);
    CHECK_ABORTS(ps_tlsf_free(tlsf, first), "poolshim: overwritten block after 0x");
}

static struct ps_tlsf *shared;

static int refuse(void *context, size_t bytes) {
    (void)context;
    (void)bytes;
    return 0;
}

static void *take_ten(void *unused) {
    (void)unused;
    return ps_tlsf_alloc(shared, 10);
}

DEBUG_TEST(check_mode_allows_other_threads_in_turn, "check") {
    struct ps_tlsf_options options = {.chunks = {.oom = refuse}};
    shared = ps_tlsf_init(room, sizeof room, &options);
    CHECK(ps_tlsf_alloc(shared, sizeof room / 2) != NULL);
    CHECK(ps_tlsf_alloc(shared, sizeof room / 2) == NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, take_ten, NULL);
    void *block = NULL;
    pthread_join(thread, &block);
    CHECK(block != NULL);
    ps_tlsf_free(shared, block);
}

static void use_everything(struct ps_tlsf *tlsf) {
    char *blocks[100];
    for (size_t i = 0; i < 100; i++) {
        size_t align = (size_t)1 << (i % 13);
        blocks[i] =
            i % 3 == 0 ? ps_tlsf_alloc_aligned(tlsf, i * 10, align) : ps_tlsf_alloc(tlsf, i * 10);
        REQUIRE(blocks[i] != NULL);
        CHECK_EQ((uintptr_t)blocks[i] % (i % 3 == 0 ? align : 16), 0);
        CHECK_CMP(ps_tlsf_usable_size(tlsf, blocks[i]), >=, i * 10);
        memset(blocks[i], (int)i, i * 10);
        CHECK(i == 0 || ps_tlsf_owns(tlsf, blocks[i]));
    }
    for (size_t i = 0; i < 100; i += 2) {
        blocks[i] = ps_tlsf_realloc(tlsf, blocks[i], i * 20);
        CHECK(i == 0 || blocks[i][i * 10 - 1] == (char)i);
        memset(blocks[i], (int)i, i * 20);
    }
    for (size_t i = 0; i < 100; i += 3) {
        ps_tlsf_free(tlsf, blocks[i]);
    }
    struct ps_tlsf_stats stats;
    ps_tlsf_stats(tlsf, &stats);
    CHECK_EQ(stats.used_count, 66);
    CHECK(ps_tlsf_check(tlsf) == NULL);
    ps_tlsf_reset(tlsf);
    ps_tlsf_stats(tlsf, &stats);
    CHECK_EQ(stats.used_count, 0);
    CHECK(ps_tlsf_alloc(tlsf, 100) != NULL);
}

DEBUG_TEST(malloc_mode_gives_each_block_to_malloc, "malloc") {
    struct ps_tlsf *tlsf = ps_tlsf_create(NULL);
    use_everything(tlsf);
    char *block = ps_tlsf_alloc(tlsf, 33);
    CHECK_EQ(ps_tlsf_usable_size(tlsf, block), 33);
    CHECK(ps_tlsf_alloc(tlsf, SIZE_MAX) == NULL);
    CHECK_EQ(errno, ENOMEM);
    errno = 9;
    ps_tlsf_free(tlsf, block);
    CHECK_EQ(errno, 9);
    ps_tlsf_destroy(tlsf);
}

DEBUG_TEST(check_mode_does_the_same_work, "check") {
    struct ps_tlsf *tlsf = ps_tlsf_create(NULL);
    use_everything(tlsf);
    ps_tlsf_destroy(tlsf);
}

static int asked;

static int give_up(void *context, size_t bytes) {
    CHECK(context == room);
    CHECK_CMP(bytes, >, 0);
    asked++;
    return 0;
}

FRESH_TEST(a_source_that_fails_at_any_call_leaves_the_pool_whole) {
    NEEDS_CHUNKS();
    for (int until = 0; until < 12; until++) {
        struct counting_source source = new_source((size_t)until);
        struct ps_tlsf_options options = {.chunks = {.source = &source.source,
                                                     .first_bytes = 4096,
                                                     .max_bytes = 4096,
                                                     .oom = give_up,
                                                     .oom_context = room},
                                          .largest_bytes = 1 << 20};
        asked = 0;
        errno = 0;
        struct ps_tlsf *tlsf = ps_tlsf_create(&options);
        if (tlsf == NULL) {
            CHECK_EQ(errno, ENOMEM);
            CHECK_EQ(asked, 1);
            continue;
        }
        char *last = NULL, *block;
        size_t count = 0;
        while ((block = count % 3 == 0 ? ps_tlsf_alloc_aligned(tlsf, 900, 256)
                                       : ps_tlsf_alloc(tlsf, 1000)) != NULL) {
            last = block;
            memset(block, 1, 900);
            count++;
        }
        CHECK_EQ(errno, ENOMEM);
        CHECK_EQ(asked, 1);
        CHECK(ps_tlsf_check(tlsf) == NULL);
        errno = 0;
        CHECK(last == NULL || ps_tlsf_realloc(tlsf, last, 9000) == NULL);
        CHECK(last == NULL || errno == ENOMEM);
        ps_tlsf_destroy(tlsf);
        CHECK_EQ(source.live_count, 0);
    }
}

static jmp_buf out;

static int jump_out(void *context, size_t bytes) {
    (void)context;
    (void)bytes;
    longjmp(out, 1);
}

DEBUG_TEST(the_oom_handler_may_jump_out, "check") {
    struct ps_tlsf_options options = {.chunks = {.oom = jump_out}};
    struct ps_tlsf *tlsf = ps_tlsf_init(room, sizeof room, &options);
    if (setjmp(out) == 0) {
        CHECK(ps_tlsf_alloc(tlsf, sizeof room) == NULL); /* beyond the largest: not asked */
        (void)!ps_tlsf_alloc(tlsf, sizeof room - 20000);
        (void)!ps_tlsf_alloc(tlsf, 30000);
        CHECK(0);
    }
    CHECK(ps_tlsf_check(tlsf) == NULL);
    CHECK(ps_tlsf_alloc(tlsf, 1000) != NULL);
}

FRESH_TEST(a_buffer_pool_that_grows_asks_its_source) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(100);
    struct ps_tlsf_options options = {
        .chunks = {.source = &source.source}, .largest_bytes = 1 << 24, .can_grow = true};
    struct ps_tlsf *tlsf = ps_tlsf_init(room, 16384, &options);
    for (int i = 0; i < 100; i++) {
        CHECK(ps_tlsf_alloc(tlsf, 100000) != NULL);
    }
    CHECK(ps_tlsf_alloc_aligned(tlsf, 1 << 20, 1 << 16) != NULL);
    CHECK_CMP(source.live_count, >, 3);
    CHECK_CMP(source.live_count, <, 12);
    ps_tlsf_reset(tlsf);
    CHECK_CMP(ps_tlsf_trim_to(tlsf, 0), >, 100 * 100000);
    CHECK_EQ(source.live_count, 0);
    ps_tlsf_destroy(tlsf);
}

static void *mapped_alloc(struct ps_source *source, size_t bytes, size_t align) {
    (void)source;
    (void)align;
    void *chunk = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return chunk == MAP_FAILED ? NULL : chunk;
}

static void mapped_free(struct ps_source *source, void *chunk, size_t bytes) {
    (void)source;
    munmap(chunk, bytes);
}

FRESH_TEST(blocks_beyond_four_gigabytes) {
    NEEDS_CHUNKS();
    struct ps_source source = {mapped_alloc, mapped_free};
    struct ps_tlsf_options options = {.chunks = {.source = &source}};
    struct ps_tlsf *tlsf = ps_tlsf_create(&options);
    size_t bytes = (size_t)5 << 30;
    char *block = ps_tlsf_alloc(tlsf, bytes);
    REQUIRE(block != NULL);
    block[bytes - 1] = 1;
    CHECK_CMP(ps_tlsf_usable_size(tlsf, block), >=, bytes);
    char *other = ps_tlsf_alloc(tlsf, 100);
    CHECK(other != NULL);
    ps_tlsf_free(tlsf, block);
    CHECK(ps_tlsf_check(tlsf) == NULL);
    ps_tlsf_destroy(tlsf);
}

UNIT_MAIN
