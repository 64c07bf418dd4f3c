/* SPDX-License-Identifier: MIT */
/*
 * Fifos: how they end, memory that runs out at every call, misuse, and random calls compared with
 * an array of live blocks, in all modes.
 */
#include "tests/unit/fresh.h"

#include "tests/pools/modes.h"
#include "tests/pools/new_fifo.h"
#include "tests/pools/respawn.h"

#include <pthread.h>

TEST(the_fifo_lives_until_its_last_block_is_freed) {
    struct counting_source source = new_source(SIZE_MAX);
    for (size_t count = 0; count < 3000; count = count * 2 + 1) {
        struct ps_fifo *fifo = new_fifo(&source, 0);
        static char *blocks[3000];
        for (size_t i = 0; i < count; i++) {
            blocks[i] = ps_fifo_alloc(fifo, i % 50 == 0 ? 50000 : 200);
        }
        size_t full = source.live_bytes;
        ps_fifo_destroy(fifo);
        for (size_t i = 0; i < count; i++) {
            blocks[i][0] = 1;
        }
        for (size_t i = 0; i < count; i++) {
            CHECK_CMP(source.live_count, >=, has_layout() ? 1 : 0);
            ps_fifo_free(fifo, blocks[(i * 13 + 3) % count]);
            if (i == count * 99 / 100 && count > 1000 && has_layout()) {
                CHECK_CMP(source.live_bytes, <, full);
            }
        }
        CHECK_EQ(source.live_count, 0);
    }
}

TEST(destroy_now_frees_live_blocks_also_after_destroy) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_fifo *fifo = new_fifo(&source, 0);
    for (int i = 0; i < 1000; i++) {
        CHECK(ps_fifo_alloc(fifo, 500) != NULL);
    }
    ps_fifo_destroy_now(fifo);
    CHECK_EQ(source.live_count, 0);
    fifo = new_fifo(&source, 0);
    CHECK(ps_fifo_alloc(fifo, 100000) != NULL);
    ps_fifo_destroy(fifo);
    ps_fifo_destroy_now(fifo);
    CHECK_EQ(source.live_count, 0);
    ps_fifo_destroy(NULL);
    ps_fifo_destroy_now(NULL);
}

TEST(freeing_keeps_errno) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_fifo *fifo = new_fifo(&source, 1);
    void *block = ps_fifo_alloc(fifo, 100000);
    errno = 77;
    ps_fifo_free(fifo, block);
    ps_fifo_destroy(fifo);
    CHECK_EQ(errno, 77);
}

TEST(memory_that_runs_out_at_any_call_changes_nothing) {
    if (ps_debug_is_malloc()) {
        return;
    }
    for (size_t fail_at = 1; fail_at < 40; fail_at++) {
        struct counting_source source = new_source(fail_at - 1);
        struct ps_fifo_options options = {
            .chunks = {.source = &source.source, .oom = give_up_at_second, .oom_context = &source}};
        struct ps_fifo *fifo = ps_fifo_create(&options);
        size_t failures = fifo == NULL;
        for (size_t i = 1; fifo != NULL && i < 200; i++) {
            struct ps_fifo_stats before = stats_of(fifo);
            errno = 0;
            char *block = ps_fifo_alloc(fifo, i % 10 == 0 ? 30000 : 3000);
            if (block == NULL) {
                failures++;
                struct ps_fifo_stats after = stats_of(fifo);
                CHECK_EQ(errno, ENOMEM);
                CHECK(memcmp(&before, &after, sizeof before) == 0);
            } else if (i % 3 == 0) {
                ps_fifo_free(fifo, block);
            }
        }
        CHECK_CMP(failures, <=, 1);
        CHECK(failures == 1 || fail_at > 10);
        ps_fifo_destroy_now(fifo);
        CHECK_EQ(source.live_count, 0);
    }
}

TEST(a_small_buffer_is_used_to_its_end) {
    if (ps_debug_is_malloc()) {
        return;
    }
    static char room[20000] __attribute__((aligned(4096)));
    struct ps_source_buffer buffer;
    ps_source_buffer_init(&buffer, room, sizeof room);
    struct ps_fifo_options options = {.chunks = {.source = &buffer.source, .max_bytes = 4096}};
    struct ps_fifo *fifo = ps_fifo_create(&options);
    size_t taken = 0;
    while (ps_fifo_alloc(fifo, 100) != NULL) {
        taken += 100;
    }
    CHECK_CMP(taken, >, has_canaries() ? 9000 : 13000);
    ps_fifo_destroy_now(fifo);
    CHECK_CMP(buffer.used_bytes, <=, sizeof room);
}

/* The live blocks, with the byte that fills each. */
struct model_block {
    unsigned char *block;
    size_t bytes;
    size_t align;
    unsigned char fill;
};

static void check_full(const struct model_block *model, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (model->block[i] != model->fill) {
            CHECK_EQ(model->block[i], model->fill);
            return;
        }
    }
}

static size_t random_size(void) {
    uint64_t random = unit_random();
    return random % 64 == 0 ? random / 64 % 150000 : random / 64 % 300;
}

/* One random call on one slot. */
static void random_step(struct ps_fifo *fifo, struct model_block *model) {
    size_t bytes = random_size();
    if (model->block == NULL) {
        model->align = (size_t)1 << unit_random() % 13;
        model->block = ps_fifo_alloc_aligned(fifo, bytes, model->align);
        CHECK_EQ((uintptr_t)model->block % model->align, 0);
    } else {
        check_full(model, model->bytes);
        if (unit_random() % 3 != 0) {
            ps_fifo_free(fifo, model->block);
            *model = (struct model_block){0};
            return;
        }
        model->block =
            ps_fifo_realloc_aligned(fifo, model->block, model->bytes, bytes, model->align);
        CHECK_EQ((uintptr_t)model->block % model->align, 0);
        check_full(model, model->bytes < bytes ? model->bytes : bytes);
    }
    REQUIRE(model->block != NULL);
    model->bytes = bytes;
    model->fill = (unsigned char)unit_random();
    memset(model->block, model->fill, bytes);
}

TEST(random_calls_agree_with_the_model) {
    enum { SLOTS = 500, STEPS = 100000 / FRESH_SLOWNESS };
    static struct model_block slots[SLOTS];
    for (int round = 0; round < 3; round++) {
        struct counting_source source = new_source(SIZE_MAX);
        struct ps_fifo *fifo = new_fifo(&source, round * CHUNK);
        size_t live = 0;
        for (size_t i = 0; i < STEPS / (ps_debug_is_check() ? 4 : 1); i++) {
            struct model_block *model = &slots[unit_random() % (i % 1000 < 500 ? SLOTS : 50)];
            live -= model->block != NULL;
            random_step(fifo, model);
            live += model->block != NULL;
            if (i % 64 == 0) {
                CHECK_EQ(stats_of(fifo).live_count, live);
            }
        }
        ps_fifo_destroy(fifo);
        for (size_t i = 0; i < SLOTS; i++) {
            if (slots[i].block != NULL) {
                check_full(&slots[i], slots[i].bytes);
                ps_fifo_free(fifo, slots[i].block);
                slots[i].block = NULL;
            }
        }
        CHECK_EQ(source.live_count, 0);
    }
}

TEST(allocation_from_a_destroyed_fifo_is_misuse) {
    struct ps_fifo *fifo = ps_fifo_create(NULL);
    void *block = ps_fifo_alloc(fifo, 10);
    ps_fifo_destroy(fifo);
    CHECK_ABORTS(CHECK(ps_fifo_alloc(fifo, 10) == NULL),
                 "poolshim: block taken from a destroyed fifo 0x");
    CHECK_ABORTS(ps_fifo_destroy(fifo), "poolshim: fifo destroyed twice 0x");
    ps_fifo_free(fifo, block);
}

static void *use_from_another_thread(void *fifo) { return ps_fifo_alloc(fifo, 10); }

TEST(misuse_is_found_in_checked_mode) {
    if (!ps_debug_is_check()) {
        return;
    }
    struct ps_fifo *fifo = ps_fifo_create(NULL);
    char *block = ps_fifo_alloc(fifo, 100);
    char *pin = ps_fifo_alloc(fifo, 100);
    CHECK_ABORTS(ps_fifo_realloc(fifo, block, 99, 100), "poolshim: old size is wrong of block 0x");
    CHECK_ABORTS(ps_fifo_free(fifo, (char *)&fifo),
                 "poolshim: freed or resized, but not of this pool: block 0x");
    pthread_t thread;
    CHECK_ABORTS(pthread_create(&thread, NULL, use_from_another_thread, fifo);
                 pthread_join(thread, NULL),
                 "poolshim: used by a thread that does not own it: fifo 0x");
    if (!ps_debug_is_malloc()) {
        CHECK_ABORTS(ps_fifo_free(fifo, block + 16),
                     "poolshim: freed or resized, but no block: 0x");
        ps_fifo_free(fifo, block);
        CHECK_ABORTS(ps_fifo_free(fifo, block), "poolshim: double free of block 0x");
        ps_unpoison_defined(block, 100);
        CHECK_EQ((unsigned char)block[50], 0xdd);
    }
    ps_fifo_adopt(fifo);
    ps_fifo_free(fifo, pin);
    ps_fifo_destroy_now(fifo);
}

DEBUG_ALL(everything_holds_in_checked_mode, "check")

DEBUG_ALL(everything_holds_in_malloc_mode, "malloc")

UNIT_MAIN
