// SPDX-License-Identifier: MIT
// Blocks of 8 to 512 bytes, each of a random size: 1024 of them allocated, then freed in the same
// order (bulk) or shuffled (butterfly), or each freed before the next one (single). Freed with
// their size, as pools of pools want it. Timed: 64 rounds on one pool, after eight of them; each
// block's first word is written, and read again when it is freed.
#include "contest.hpp"

#include <memory_resource>
#include <poolshim/pools.h>
#include <poolshim/slice.h>
#include <random>

#if __has_include(<glib.h>)
#include <glib.h>
#endif
#if __has_include(<foonathan/memory/memory_pool_collection.hpp>)
#include "foonathan.hpp"

#include <foonathan/memory/memory_pool_collection.hpp>
#endif

namespace {

constexpr std::size_t COUNT = 1024;
constexpr std::size_t LEAST = 8;
constexpr std::size_t MOST = 512;
constexpr double ROUNDS = 64;
constexpr unsigned ROUNDS_BEFORE = 8;

class PsPools {
  public:
    PsPools() { ps_pools_init(&pools_, nullptr); }
    PsPools(const PsPools &) = delete;
    ~PsPools() { ps_pools_destroy(&pools_); }
    void *alloc(std::size_t bytes) { return ps_pools_alloc(&pools_, bytes); }
    void free(void *block, std::size_t bytes) { ps_pools_free(&pools_, block, bytes); }

  private:
    ps_pools pools_;
};

class PsSlice {
  public:
    void *alloc(std::size_t bytes) { return ps_slice_alloc(bytes); }
    void free(void *block, std::size_t bytes) { ps_slice_free(bytes, block); }
};

class Malloc {
  public:
    void *alloc(std::size_t bytes) { return std::malloc(bytes); }
    void free(void *block, std::size_t) { std::free(block); }
};

class StdPool {
  public:
    void *alloc(std::size_t bytes) { return resource_.allocate(bytes); }
    void free(void *block, std::size_t bytes) { resource_.deallocate(block, bytes); }

  private:
    std::pmr::unsynchronized_pool_resource resource_;
};

#if __has_include(<glib.h>)
class GlibSlice {
  public:
    void *alloc(std::size_t bytes) { return g_slice_alloc(bytes); }
    void free(void *block, std::size_t bytes) { g_slice_free1(bytes, block); }
};
#endif

#if __has_include(<foonathan/memory/memory_pool_collection.hpp>)
// A list for each size, and one for each power of two.
template <class Buckets> class Foonathan {
  public:
    void *alloc(std::size_t bytes) { return pools_.allocate_node(bytes); }
    void free(void *block, std::size_t bytes) { pools_.deallocate_node(block, bytes); }

  private:
    foonathan::memory::memory_pool_collection<foonathan::memory::node_pool, Buckets> pools_{
        MOST, std::size_t(16) << 20};
};
#endif

struct Block {
    std::size_t *words;
    std::size_t bytes;
};

template <class Pool> void make(Pool &pool, Block &block) {
    block.words = static_cast<std::size_t *>(pool.alloc(block.bytes));
    contest::require(block.words);
    *block.words = block.bytes;
}

template <class Pool> void end(Pool &pool, const Block &block) {
    if (*block.words != block.bytes) {
        contest::fail("a block was overwritten");
    }
    pool.free(block.words, block.bytes);
}

enum class Order { single, bulk, butterfly };

template <class Pool, Order order>
void round(Pool &pool, std::vector<Block> &blocks, const std::vector<unsigned> &ends) {
    for (Block &block : blocks) {
        make(pool, block);
        if (order == Order::single) {
            end(pool, block);
        }
    }
    for (std::size_t i = 0; order != Order::single && i < COUNT; i++) {
        end(pool, blocks[order == Order::bulk ? i : ends[i]]);
    }
}

template <class Pool, Order order> double rounds(double scale) {
    static Pool pool;
    std::mt19937 random;
    std::vector<Block> blocks(COUNT);
    std::vector<unsigned> ends(COUNT);
    for (std::size_t i = 0; i < COUNT; i++) {
        blocks[i].bytes = LEAST + random() % (MOST - LEAST + 1);
        ends[i] = static_cast<unsigned>(i);
    }
    std::shuffle(ends.begin(), ends.end(), random);
    for (unsigned i = 0; i < ROUNDS_BEFORE; i++) {
        round<Pool, order>(pool, blocks, ends);
    }
    return contest::timed([&] {
        for (double i = 0; i < ROUNDS * scale; i++) {
            round<Pool, order>(pool, blocks, ends);
        }
    });
}

template <class Pool> struct Entry {
    explicit Entry(const char *name) {
        contest::Register("sizes", "single", name, rounds<Pool, Order::single>);
        contest::Register("sizes", "bulk", name, rounds<Pool, Order::bulk>);
        contest::Register("sizes", "butterfly", name, rounds<Pool, Order::butterfly>);
    }
};

const Entry<PsPools> use_pools("ps_pools");
const Entry<PsSlice> use_ps_slice("ps_slice");
const Entry<Malloc> use_malloc("malloc");
const Entry<StdPool> use_std("std_pool");
#if __has_include(<glib.h>)
const Entry<GlibSlice> use_glib("glib_slice");
#endif
#if __has_include(<foonathan/memory/memory_pool_collection.hpp>)
using foonathan::memory::identity_buckets;
using foonathan::memory::log2_buckets;
const Entry<Foonathan<identity_buckets>> use_identity("foonathan_identity");
const Entry<Foonathan<log2_buckets>> use_log2("foonathan_log2");
#endif

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
