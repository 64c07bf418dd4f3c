/* SPDX-License-Identifier: MIT */
/*
 * Chunks: lengths double up to the cap, a larger block gets a chunk of its own, a source that
 * refuses is asked for less, and the oom handler decides what happens then.
 */
#include "pools/common/chunk.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <poolshim/pages.h>

static char room[64 << 10] __attribute__((aligned(64)));

TEST(chunks_double_up_to_the_cap) {
    struct ps_chunks chunks;
    ps_chunks_init(&chunks, NULL, "test", 4096, 16384);
    static const size_t wanted[] = {4096, 8192, 16384, 16384};
    void *taken[4];
    for (size_t i = 0; i < 4; i++) {
        size_t bytes;
        taken[i] = ps_chunk_take(&chunks, 100, 16, &bytes);
        CHECK(taken[i] != NULL);
        CHECK_EQ(bytes, wanted[i]);
    }
    size_t bytes;
    void *huge = ps_chunk_take(&chunks, 100000, 16, &bytes);
    CHECK_CMP(bytes, >=, 100000);
    CHECK_EQ(chunks.next_bytes, 16384);
    ps_chunk_give(&chunks, huge, bytes);
    for (size_t i = 0; i < 4; i++) {
        ps_chunk_give(&chunks, taken[i], wanted[i]);
    }
    CHECK_EQ(chunks.total_bytes, 0);
    CHECK_EQ(chunks.chunk_count, 0);
}

TEST(growth_does_not_outlive_the_memory_that_it_was_for) {
    struct ps_chunks chunks;
    ps_chunks_init(&chunks, NULL, "test", 4096, 65536);
    static const size_t lengths[] = {4096, 8192, 16384, 32768, 65536};
    for (size_t last = 0; last < 5; last++) {
        void *taken[5];
        size_t bytes;
        for (size_t i = 0; i <= last; i++) {
            taken[i] = ps_chunk_take(&chunks, 100, 16, &bytes);
            CHECK_EQ(bytes, lengths[i]);
        }
        for (size_t i = last; i > 0; i--) { /* as if the longer ones had never been */
            ps_chunk_give(&chunks, taken[i], lengths[i]);
            CHECK_EQ(chunks.next_bytes, lengths[i]);
        }
        ps_chunk_give(&chunks, taken[0], 4096);
        CHECK_EQ(chunks.next_bytes, 4096);
    }
    ps_chunks_set_growth(&chunks, 32768, 0); /* the program's own wish remains */
    size_t bytes;
    void *chunk = ps_chunk_take(&chunks, 100, 16, &bytes);
    CHECK_EQ(bytes, 32768);
    ps_chunk_give(&chunks, chunk, bytes);
    CHECK_EQ(chunks.next_bytes, 32768);
}

/* One object that lives on in the newest chunk, round after round. */
TEST(a_survivor_that_moves_on_does_not_lengthen_chunks) {
    struct ps_chunks chunks;
    ps_chunks_init(&chunks, NULL, "test", 4096, (size_t)1 << 20);
    size_t old_bytes;
    void *old = ps_chunk_take(&chunks, 100, 16, &old_bytes);
    for (size_t round = 0; round < 40; round++) {
        size_t bytes;
        void *chunk = ps_chunk_take(&chunks, 100, 16, &bytes);
        CHECK_CMP(bytes, <=, 8192);
        ps_chunk_give(&chunks, old, old_bytes);
        old = chunk;
        old_bytes = bytes;
    }
    ps_chunk_give(&chunks, old, old_bytes);
}

TEST(a_source_that_refuses_is_asked_for_less) {
    struct ps_source_buffer buffer;
    ps_source_buffer_init(&buffer, room, 10000);
    struct ps_chunk_options options = {.source = &buffer.source};
    struct ps_chunks chunks;
    ps_chunks_init(&chunks, &options, "test", 16384, 16384);
    size_t bytes;
    CHECK(ps_chunk_take(&chunks, 100, 16, &bytes) != NULL);
    CHECK_EQ(bytes, 8192);
    errno = 0;
    CHECK(ps_chunk_take(&chunks, 4000, 16, &bytes) == NULL);
    CHECK_EQ(errno, ENOMEM);
    CHECK_EQ(chunks.total_bytes, 8192);
}

static int asked;

static int refuse_at_third(void *context, size_t bytes) {
    CHECK(context == room);
    CHECK_EQ(bytes, 30000);
    return ++asked < 3;
}

TEST(the_oom_handler_is_asked_until_it_gives_up) {
    struct ps_source_buffer buffer;
    ps_source_buffer_init(&buffer, room, 10000);
    struct ps_chunk_options options = {
        .source = &buffer.source, .oom = refuse_at_third, .oom_context = room};
    struct ps_chunks chunks;
    ps_chunks_init(&chunks, &options, "test", 1024, 1024);
    size_t bytes;
    CHECK(ps_chunk_take(&chunks, 30000, 16, &bytes) == NULL);
    CHECK_EQ(asked, 3);
}

UNIT_MAIN
