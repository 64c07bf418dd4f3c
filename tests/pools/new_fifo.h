/* SPDX-License-Identifier: MIT */
/*
 * A fifo on the source of the pool tests. Included after unit.h or fresh.h.
 */
#ifndef PS_TESTS_POOLS_NEW_FIFO_H
#define PS_TESTS_POOLS_NEW_FIFO_H

#include "tests/pools/counting_source.h"

#include <poolshim/fifo.h>

#define CHUNK ((size_t)64 << 10)

static struct ps_fifo *new_fifo(struct counting_source *source, size_t spare_bytes) {
    struct ps_fifo_options options = {.chunks = {.source = &source->source},
                                      .spare_bytes = spare_bytes};
    struct ps_fifo *fifo = ps_fifo_create(&options);
    REQUIRE(fifo != NULL);
    return fifo;
}

static struct ps_fifo_stats stats_of(const struct ps_fifo *fifo) {
    struct ps_fifo_stats stats;
    ps_fifo_stats(fifo, &stats);
    return stats;
}

#endif
