// SPDX-License-Identifier: MIT
// foonathan's profiling: nodes and arrays of one size, allocated and freed one by one (single), or
// all of them first and then freed in the same order (bulk), in reverse, or shuffled (butterfly).
// Timed: the best of 1024 samples, each on a fresh pool that is made and destroyed outside; 1024
// nodes a sample, 512 arrays.
#include "nodes.hpp"

#include <random>

namespace {

constexpr std::size_t NODE_COUNT = 1024;
constexpr std::size_t ARRAY_COUNT = 512;
constexpr double SAMPLE_COUNT = 1024;

enum class Order { single, bulk, reversed, butterfly };

void reorder(std::vector<void *> &objects, Order order) {
    if (order == Order::reversed) {
        std::reverse(objects.begin(), objects.end());
    } else if (order == Order::butterfly) {
        std::shuffle(objects.begin(), objects.end(), std::mt19937{});
    }
}

template <class Pool, Order order, std::size_t bytes, std::size_t length> double sample() {
    constexpr std::size_t count = length == 1 ? NODE_COUNT : ARRAY_COUNT;
    static std::vector<void *> objects;
    contest::Timer timer;
    Pool pool(bytes, count * length);
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

template <class Pool, Order order, std::size_t bytes, std::size_t length>
double best_sample(double scale) {
    double best = sample<Pool, order, bytes, length>();
    for (double i = 1; i < SAMPLE_COUNT * scale; i++) {
        best = std::min(best, sample<Pool, order, bytes, length>());
    }
    return best;
}

template <class Pool, std::size_t bytes> void nodes(const char *pool, const char *size) {
    static std::vector<std::string> names;
    names.reserve(4096); // Register keeps the pointers
    auto name = [&](const char *order) {
        return names.emplace_back(std::string(order) + "_" + size).c_str();
    };
    using contest::Register;
    Register("nodes", name("single"), pool, best_sample<Pool, Order::single, bytes, 1>, 2);
    Register("nodes", name("bulk"), pool, best_sample<Pool, Order::bulk, bytes, 1>, 2);
    Register("nodes", name("reversed"), pool, best_sample<Pool, Order::reversed, bytes, 1>, 2);
    Register("nodes", name("butterfly"), pool, best_sample<Pool, Order::butterfly, bytes, 1>, 2);
}

template <class Pool> void arrays(const char *pool) {
    using contest::Register;
    Register("arrays", "single_8x8", pool, best_sample<Pool, Order::single, 8, 8>, 2);
    Register("arrays", "bulk_8x8", pool, best_sample<Pool, Order::bulk, 8, 8>, 2);
    Register("arrays", "reversed_8x8", pool, best_sample<Pool, Order::reversed, 8, 8>, 2);
    Register("arrays", "butterfly_8x8", pool, best_sample<Pool, Order::butterfly, 8, 8>, 2);
}

template <class Pool> struct Entry {
    Entry(const char *pool, bool has_arrays) {
        nodes<Pool, 8>(pool, "8");
        nodes<Pool, 256>(pool, "256");
        if (has_arrays) {
            arrays<Pool>(pool);
        }
    }
};

template <class Pool> struct SmallEntry {
    explicit SmallEntry(const char *pool) { nodes<Pool, 1>(pool, "1"); }
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
const SmallEntry<nodes_bench::PsSmall> use_ps_small("ps_pool_small");
const Entry<nodes_bench::PsSlice> use_ps_slice("ps_slice", true);

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
