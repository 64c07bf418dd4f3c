// SPDX-License-Identifier: MIT
// Containers of std over pools: a map whose nodes are slices, a document of std::pmr in a region
// that is destroyed as a whole and therefore frees nothing before, and a small buffer that
// overflows into slices.
#include <cstdio>
#include <map>
#include <poolshim/adapters.hpp>
#include <poolshim/region.hpp>
#include <poolshim/slice.hpp>
#include <poolshim/tlsf.hpp>
#include <string>
#include <vector>

template <class Key, class Value>
using slice_map =
    std::map<Key, Value, std::less<Key>, ps::allocator<std::pair<const Key, Value>, ps::slices>>;

int main() {
    slice_map<int, int> squares;
    for (int i = 0; i < 100; i++) {
        squares[i] = i * i;
    }

    ps::region region;
    ps::no_free lines_only(region);
    ps::resource<decltype(lines_only)> resource(lines_only);
    std::pmr::vector<std::pmr::string> lines(&resource);
    lines.emplace_back("a line that is too long for the small buffer of a string");

    alignas(16) char room[8192];
    ps::tlsf in_room(room, sizeof room);
    ps::slices slices;
    ps::fallback<ps::tlsf, ps::slices> room_first(in_room, slices);
    std::vector<int, ps::allocator<int, decltype(room_first)>> numbers(room_first);
    for (int i = 0; i < 10000; i++) {
        numbers.push_back(i);
    }

    auto text = ps::make_unique<std::string>(slices, "an object of a pool");
    std::printf("%d, %zu lines, %zu numbers, %s\n", squares[9], lines.size(), numbers.size(),
                text->c_str());
    return squares[9] == 81 && lines.size() == 1 && numbers[9999] == 9999 ? 0 : 1;
}
