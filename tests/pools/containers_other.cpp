// SPDX-License-Identifier: MIT
// ps::node_allocator under the containers of Abseil and, where the compiler has them, of C++23.
// Built by test_pools_containers.py, with Abseil's libraries.
#include "tests/unit/unit.h"

#include "tests/pools/containers.hpp"

#include <absl/container/btree_map.h>
#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>
#include <absl/container/node_hash_map.h>
#include <map>
#include <unordered_map>
#include <vector>
#if __has_include(<flat_map>)
#include <flat_map>
#endif

using hash = std::hash<int>;
using same = std::equal_to<int>;

TEST(containers_of_abseil_work) {
    using model = std::map<int, text>;
    check_pairs<absl::node_hash_map<int, text, hash, same, of<entry>>, model>(true);
    check_pairs<absl::flat_hash_map<int, text, hash, same, of<entry>>, model>(false);
    check_pairs<absl::btree_map<int, text, std::less<int>, of<entry>>, model>(false);
    check_sequence<absl::InlinedVector<int, 4, of<int>>, std::vector<int>>(false);
}

#ifdef __cpp_lib_flat_map
TEST(flat_maps_work) {
    using keys = std::vector<int, of<int>>;
    using values = std::vector<text, of<text>>;
    std::flat_map<int, text, std::less<int>, keys, values> map;
    for (int i = 0; i < 1000; i++) {
        map.emplace(i * 7 % 1000, text(i));
    }
    CHECK_EQ(map.size(), 1000);
    CHECK(map[7] == text(1));
}
#endif

UNIT_MAIN
