// SPDX-License-Identifier: MIT
// foonathan's profiling: nodes and arrays of one size, allocated and freed one by one (single), or
// all of them first and then freed in the same order (bulk), in reverse, or shuffled (butterfly).
// Timed: the best of 1024 samples of 1024 nodes or 512 arrays each. A sample is on a fresh pool
// that is made and destroyed outside, where pools that cut their memory when they are made have
// done so before the clock runs; made: in bulk, with making and destroying the pool; steady: on one
// pool in which eight samples have been freed, shuffled, and one in the order of the case.
#include "nodes.hpp"

namespace {

using nodes_bench::Order;

constexpr std::size_t NODE_COUNT = 1024;
constexpr std::size_t ARRAY_COUNT = 512;
constexpr double SAMPLE_COUNT = 1024;
constexpr unsigned USED_COUNT = 8; // samples before the steady ones: all memory has been used

template <std::size_t length> constexpr std::size_t count_of() {
    return length == 1 ? NODE_COUNT : ARRAY_COUNT;
}

template <Order order, std::size_t length, class Pool> double sample_of(Pool &pool) {
    return nodes_bench::sample(pool, order, count_of<length>(), length);
}

template <class Pool, Order order, std::size_t bytes, std::size_t length, bool is_steady>
double one_sample() {
    constexpr std::size_t count = count_of<length>() * length;
    if constexpr (is_steady) {
        static Pool pool(bytes, count);
        static bool is_used = false;
        if (!is_used) {
            contest::is_counting() = false;
            for (unsigned i = 0; i < USED_COUNT; i++) {
                sample_of<Order::butterfly, length>(pool);
            }
            sample_of<order, length>(pool);
            contest::is_counting() = true;
            is_used = true;
        }
        return sample_of<order, length>(pool);
    } else {
        Pool pool(bytes, count);
        return sample_of<order, length>(pool);
    }
}

template <class Pool, Order order, std::size_t bytes, std::size_t length, bool is_steady>
double best_sample(double scale) {
    double best = one_sample<Pool, order, bytes, length, is_steady>();
    for (double i = 1; i < SAMPLE_COUNT * scale; i++) {
        best = std::min(best, one_sample<Pool, order, bytes, length, is_steady>());
    }
    return best;
}

// In bulk, on a pool that is made and destroyed within the time.
template <class Pool, std::size_t bytes> double made_sample() {
    static std::vector<void *> objects(NODE_COUNT);
    return contest::timed([] {
        Pool pool(bytes, NODE_COUNT);
        for (void *&object : objects) {
            object = pool.alloc(1);
        }
        for (void *object : objects) {
            pool.free(object, 1);
        }
    });
}

template <class Pool, std::size_t bytes> double best_made(double scale) {
    double best = made_sample<Pool, bytes>();
    for (double i = 1; i < SAMPLE_COUNT * scale; i++) {
        best = std::min(best, made_sample<Pool, bytes>());
    }
    return best;
}

template <class Pool, std::size_t bytes, std::size_t length, bool is_steady>
void orders(const char *pool) {
    const char *group = length == 1 ? "nodes" : "arrays";
    auto name = [](const char *order) {
        std::string size = length == 1 ? "" : std::to_string(length) + "x";
        return (is_steady ? "steady_" : "") + std::string(order) + "_" + size +
               std::to_string(bytes);
    };
    using contest::Register;
    Register(group, name("single"), pool,
             best_sample<Pool, Order::single, bytes, length, is_steady>, 2);
    Register(group, name("bulk"), pool, best_sample<Pool, Order::bulk, bytes, length, is_steady>,
             2);
    Register(group, name("reversed"), pool,
             best_sample<Pool, Order::reversed, bytes, length, is_steady>, 2);
    Register(group, name("butterfly"), pool,
             best_sample<Pool, Order::butterfly, bytes, length, is_steady>, 2);
}

template <class Pool> struct Entry {
    Entry(const char *pool, bool has_arrays) {
        orders<Pool, 8, 1, false>(pool);
        orders<Pool, 8, 1, true>(pool);
        orders<Pool, 256, 1, false>(pool);
        contest::Register("nodes", "made_8", pool, best_made<Pool, 8>, 2);
        contest::Register("nodes", "made_256", pool, best_made<Pool, 256>, 2);
        if (has_arrays) {
            orders<Pool, 8, 8, false>(pool);
            orders<Pool, 8, 4, true>(pool);
        }
    }
};

template <class Pool> struct SmallEntry {
    explicit SmallEntry(const char *pool) {
        orders<Pool, 1, 1, false>(pool);
        orders<Pool, 1, 1, true>(pool);
        contest::Register("nodes", "made_1", pool, best_made<Pool, 1>, 2);
    }
};

const Entry<nodes_bench::Malloc> use_malloc("malloc", true);
const SmallEntry<nodes_bench::Malloc> use_malloc_small("malloc");
#if __has_include(<boost/pool/pool.hpp>)
const Entry<nodes_bench::BoostUnordered> use_boost("boost_unordered", false);
const Entry<nodes_bench::BoostOrdered> use_boost_ordered("boost_ordered", true);
#endif
#if __has_include(<glib.h>)
const Entry<nodes_bench::Slice> use_slice("glib_slice", true);
#endif
#if __has_include(<foonathan/memory/memory_pool.hpp>)
const Entry<nodes_bench::FoonathanNode> use_node("foonathan_node", true);
const Entry<nodes_bench::FoonathanArray> use_array("foonathan_array", true);
const SmallEntry<nodes_bench::FoonathanSmall> use_small("foonathan_small");
#endif
const Entry<nodes_bench::PsPool> use_pool("ps_pool", true);
const Entry<nodes_bench::PsOrdered> use_ordered("ps_pool_ordered", true);
const Entry<nodes_bench::PsUnchecked> use_unchecked("ps_pool_unchecked", true);
const SmallEntry<nodes_bench::PsSmall> use_ps_small("ps_pool_small");
const Entry<nodes_bench::PsSlice> use_ps_slice("ps_slice", true);

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
