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
