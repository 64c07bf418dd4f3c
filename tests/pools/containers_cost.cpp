// SPDX-License-Identifier: MIT
// One load on a container, of 2,000 nodes in 20 rounds: "hand LOAD" by a pool of ps::node_size that
// is made beside it, "made LOAD" by ps::node_allocator. Built and counted by
// test_pools_containers.py.
#include <cstdio>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <poolshim/adapters.hpp>
#include <poolshim/containers.hpp>
#include <poolshim/pool.hpp>
#include <unordered_map>

enum { ROUNDS = 20, NODES = 2000 };
static long sum;

template <class List> static void fill_list(List &list) {
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < NODES; i++) {
            list.push_back(i);
        }
        sum += list.front();
        list.clear();
    }
}

template <class Map> static void fill_map(Map &map) {
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < NODES; i++) {
            map.emplace(i, i);
        }
        sum += map.begin()->second;
        map.clear();
    }
}

template <class A> using list_of = std::list<long, A>;
template <class A> using map_of = std::map<int, int, std::less<int>, A>;
template <class A>
using hashed_of = std::unordered_map<int, int, std::hash<int>, std::equal_to<int>, A>;

template <template <class> class Container, class Value, class Fill>
static void run(bool is_made, Fill fill) {
    if (is_made) {
        Container<ps::node_allocator<Value>> container;
        fill(container);
        return;
    }
    using by_hand = Container<ps::allocator<Value, ps::node_pool>>;
    ps::node_pool pool(ps::node_size<by_hand>::bytes, ps::node_size<by_hand>::align);
    by_hand container{typename by_hand::allocator_type(pool)};
    fill(container);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        return 2;
    }
    bool is_made = std::strcmp(argv[1], "made") == 0;
    if (std::strcmp(argv[2], "list") == 0) {
        run<list_of, long>(is_made, [](auto &container) { fill_list(container); });
    } else if (std::strcmp(argv[2], "map") == 0) {
        run<map_of, std::pair<const int, int>>(is_made,
                                               [](auto &container) { fill_map(container); });
    } else if (std::strcmp(argv[2], "hashed") == 0) {
        run<hashed_of, std::pair<const int, int>>(is_made,
                                                  [](auto &container) { fill_map(container); });
    }
    return sum == -1;
}
