/* SPDX-License-Identifier: MIT */
/*
 * Functions that take memory from pools, each from one of its own. At the end 40 MB of a pool, 20
 * MB of a region and 20 MB of slices are live; the pool of give_back has returned its 40 MB.
 */
#include <cstring>
#include <poolshim/pages.h>
#include <poolshim/pool.hpp>
#include <poolshim/region.hpp>
#include <poolshim/slice.h>
#include <unistd.h>

#define KEPT_OUT __attribute__((noinline))

static const size_t block_bytes = 1000;

static void fill(ps::node_pool &pool) {
    for (int i = 0; i < 40000; i++) {
        memset(pool.get(), 1, block_bytes);
    }
}

KEPT_OUT static void hold_nodes(ps::node_pool &pool) { fill(pool); }

KEPT_OUT static void hold_region(ps::region &region) {
    for (int i = 0; i < 20000; i++) {
        memset(region.allocate(block_bytes), 1, block_bytes);
    }
}

KEPT_OUT static void hold_slices() {
    for (int i = 0; i < 20000; i++) {
        memset(ps_slice_alloc(block_bytes), 1, block_bytes);
    }
}

KEPT_OUT static void give_back() {
    ps::node_pool pool(block_bytes);
    fill(pool);
}

int main() {
    static ps::node_pool pool(block_bytes);
    static ps::region region;
    give_back();
    hold_nodes(pool);
    hold_region(region);
    hold_slices();
    ps_pages_trim_to(0);
    _exit(0); /* the pools are live */
}
