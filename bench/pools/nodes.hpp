// SPDX-License-Identifier: MIT
// The contestants of nodes.cpp: pools of nodes of one size that also give arrays of them, made for
// `count` nodes. alloc(1) is a node. An original that is not installed does not take part.
#ifndef PS_BENCH_POOLS_NODES_HPP
#define PS_BENCH_POOLS_NODES_HPP

#include "contest.hpp"

#include <poolshim/pool.h>
#include <poolshim/slice.h>
#include <random>

#if __has_include(<boost/pool/pool.hpp>)
#include <boost/pool/pool.hpp>
#endif
#if __has_include(<glib.h>)
#include <glib.h>
#endif
#if __has_include(<foonathan/memory/memory_pool.hpp>)
#include "foonathan.hpp"

#include <foonathan/memory/memory_pool.hpp>
#endif

namespace nodes_bench {

enum class Order { single, bulk, reversed, butterfly };

inline void reorder(std::vector<void *> &objects, Order order) {
    if (order == Order::reversed) {
        std::reverse(objects.begin(), objects.end());
    } else if (order == Order::butterfly) {
        std::shuffle(objects.begin(), objects.end(), std::mt19937{});
    }
}

// Milliseconds of `count` allocations and frees in an order. Inlined, so that a constant length
// costs no branch.
template <class Pool>
[[gnu::always_inline]] inline double sample(Pool &pool, Order order, std::size_t count,
                                            std::size_t length) {
    static std::vector<void *> objects;
    contest::Timer timer;
    if (order == Order::single) {
        timer.start();
        for (std::size_t i = 0; i < count; i++) {
            void *object = pool.alloc(length);
            contest::keep(object);
            pool.free(object, length);
        }
        timer.stop();
        return timer.ms();
    }
    objects.clear();
    objects.reserve(count);
    timer.start();
    for (std::size_t i = 0; i < count; i++) {
        objects.push_back(pool.alloc(length));
    }
    timer.stop();
    reorder(objects, order);
    timer.start();
    for (void *object : objects) {
        pool.free(object, length);
    }
    timer.stop();
    return timer.ms();
}

class Malloc {
  public:
    Malloc(std::size_t bytes, std::size_t) : bytes_(bytes) {}
    void *alloc(std::size_t length) { return std::malloc(bytes_ * length); }
    void free(void *object, std::size_t) { std::free(object); }

  private:
    std::size_t bytes_;
};

#if __has_include(<boost/pool/pool.hpp>)
// The first chunk of a boost pool is made by its first allocation: here before the clock runs, as
// the others do in their constructors.
class BoostUnordered {
  public:
    BoostUnordered(std::size_t bytes, std::size_t count) : pool_(bytes, count) {
        free((pool_.malloc)(), 1);
    }
    void *alloc(std::size_t) { return (pool_.malloc)(); }
    void free(void *object, std::size_t) { (pool_.free)(object); }

  private:
    boost::pool<> pool_;
};

class BoostOrdered {
  public:
    BoostOrdered(std::size_t bytes, std::size_t count) : pool_(bytes, count) {
        pool_.ordered_free(pool_.ordered_malloc());
    }
    void *alloc(std::size_t length) {
        return length == 1 ? pool_.ordered_malloc() : pool_.ordered_malloc(length);
    }
    void free(void *object, std::size_t length) {
        if (length == 1) {
            pool_.ordered_free(object);
        } else {
            pool_.ordered_free(object, length);
        }
    }

  private:
    boost::pool<> pool_;
};
#endif

#if __has_include(<glib.h>)
class Slice {
  public:
    Slice(std::size_t bytes, std::size_t) : bytes_(bytes) {}
    void *alloc(std::size_t length) { return g_slice_alloc(bytes_ * length); }
    void free(void *object, std::size_t length) { g_slice_free1(bytes_ * length, object); }

  private:
    std::size_t bytes_;
};
#endif

#if __has_include(<foonathan/memory/memory_pool.hpp>)
template <class Kind> class Foonathan {
  public:
    Foonathan(std::size_t bytes, std::size_t count)
        : pool_(bytes, count * std::max(bytes, least()) + 1024) {}
    void *alloc(std::size_t length) {
        return length == 1 ? pool_.allocate_node() : pool_.allocate_array(length);
    }
    void free(void *object, std::size_t length) {
        if (length == 1) {
            pool_.deallocate_node(object);
        } else {
            pool_.deallocate_array(object, length);
        }
    }

  private:
    static constexpr std::size_t least() { return sizeof(void *); }
    foonathan::memory::memory_pool<Kind> pool_;
};

using FoonathanNode = Foonathan<foonathan::memory::node_pool>;
using FoonathanArray = Foonathan<foonathan::memory::array_pool>;

class FoonathanSmall {
  public:
    FoonathanSmall(std::size_t bytes, std::size_t count) : pool_(bytes, count * bytes + 1024) {}
    void *alloc(std::size_t) { return pool_.allocate_node(); }
    void free(void *object, std::size_t) { pool_.deallocate_node(object); }

  private:
    foonathan::memory::memory_pool<foonathan::memory::small_node_pool> pool_;
};
#endif

// Alignment as the originals': of a pointer, of one byte for smaller nodes. The first chunk is
// taken by the constructor, as by those of the others; its nodes are cut when they are first
// wanted.
enum class Kind { usual, ordered, unchecked };

template <Kind kind> class PsAny {
  public:
    PsAny(std::size_t bytes, std::size_t count) {
        ps_pool_options options{};
        options.is_ordered = kind == Kind::ordered;
        options.is_unchecked = kind == Kind::unchecked;
        options.chunks.first_bytes = count * bytes + 1024;
        if (!ps_pool_init(&pool_, bytes, std::min(bytes, sizeof(void *)), &options) ||
            !ps_pool_reserve(&pool_, count)) {
            contest::fail("no pool");
        }
    }
    PsAny(const PsAny &) = delete;
    ~PsAny() { ps_pool_destroy(&pool_); }
    void *alloc(std::size_t length) {
        return length == 1 ? ps_pool_alloc(&pool_) : ps_pool_alloc_n(&pool_, length);
    }
    void free(void *object, std::size_t length) {
        if (length == 1 && kind == Kind::unchecked) {
            ps_pool_free_unchecked(&pool_, object);
        } else if (length == 1) {
            ps_pool_free(&pool_, object);
        } else {
            ps_pool_free_n(&pool_, object, length);
        }
    }

  private:
    ps_pool pool_;
};

using PsPool = PsAny<Kind::usual>;
using PsOrdered = PsAny<Kind::ordered>;
using PsUnchecked = PsAny<Kind::unchecked>;
using PsSmall = PsAny<Kind::usual>;

class PsSlice {
  public:
    PsSlice(std::size_t bytes, std::size_t) : bytes_(bytes) {}
    void *alloc(std::size_t length) { return ps_slice_alloc(bytes_ * length); }
    void free(void *object, std::size_t length) { ps_slice_free(bytes_ * length, object); }

  private:
    std::size_t bytes_;
};

} // namespace nodes_bench

#endif
