// SPDX-License-Identifier: MIT
// Built with -fno-exceptions -fno-rtti by test_pools.py: "works" uses the classes as usual; any
// other argument makes a request that would throw, and the program ends with one line.
#include <cstring>
#include <list>
#include <map>
#include <memory_resource>
#include <poolshim/adapters.hpp>
#include <poolshim/arena.hpp>
#include <poolshim/containers.hpp>
#include <poolshim/fixed.hpp>
#include <poolshim/frames.hpp>
#include <poolshim/pool.hpp>
#include <poolshim/pools.hpp>
#include <poolshim/region.hpp>
#include <poolshim/slots.hpp>
#include <poolshim/tlsf.hpp>
#include <string>
#include <vector>

struct point {
    point(int x, int y) : x_(x), y_(y) {}
    ~point() { x_ = 0; }
    int x_;
    int y_;
};

static int works() {
    ps::pool<point> pool;
    point *a = pool.create(1, 2);
    int sum = a->x_ + a->y_;
    pool.destroy(a);
    ps::region region;
    sum += region.make<point>(3, 4)->y_;
    sum += region.make_array<int>(10)[9];
    auto root = ps::make_root<point>(5, 6);
    sum += root->x_;
    ps::slots<point> slots;
    auto handle = slots.insert(7, 8);
    sum += slots.get(handle)->x_;
    std::list<int, ps::node_allocator<int>> list(3, 1);
    sum += list.front();
    ps::resource<ps::region> one(region);
    ps::resource<ps::region> other(region);
    std::pmr::map<int, int> map(&one);
    map[1] = 2;
    bool is_equal = one == one && !(one == other); // as adapters.hpp says of programs without RTTI
    ps::fixed<point, 1> fixed;
    point *only = fixed.create(1, 1);
    bool is_refused = fixed.create(1, 1) == nullptr;
    fixed.destroy(only);
    return sum == 3 + 4 + 5 + 7 + 1 && is_equal && is_refused ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        return 2;
    }
    ps_pool_options options = {};
    options.max_items = 1;
    if (std::strcmp(argv[1], "works") == 0) {
        return works();
    }
    if (std::strcmp(argv[1], "pool") == 0) {
        ps::pool<int> pool(options);
        pool.create(1);
        pool.create(2);
    } else if (std::strcmp(argv[1], "containers") == 0) {
        std::list<int, ps::node_allocator<int>> list{ps::node_allocator<int>(options)};
        list.assign(2, 1);
    } else if (std::strcmp(argv[1], "array") == 0) {
        ps::size_pools pools;
        ps::allocator<int, ps::size_pools>(pools).allocate(static_cast<std::size_t>(-1) / 4);
    } else if (std::strcmp(argv[1], "align") == 0) {
        ps::node_pool pool(8, 3);
    } else if (std::strcmp(argv[1], "arena") == 0) {
        ps::arena arena("/nowhere/at/all", PS_ARENA_CREATE);
    }
    return 0;
}
