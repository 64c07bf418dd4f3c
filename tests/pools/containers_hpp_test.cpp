// SPDX-License-Identifier: MIT
// ps::node_allocator under each container of std and of Boost.Container: the results of the
// container with its usual allocator, nodes in a pool of their size, and copies, moves and swaps
// that leave no node. ps::node_size says what the pool then has. Containers of Abseil and of C++23:
// containers_other.cpp.
#include "tests/unit/unit.h"

#include "tests/pools/containers.hpp"
#include "tests/pools/modes.h"

#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <stack>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#if __has_include(<boost/container/list.hpp>)
#include <boost/container/deque.hpp>
#include <boost/container/flat_map.hpp>
#include <boost/container/list.hpp>
#include <boost/container/map.hpp>
#include <boost/container/set.hpp>
#include <boost/container/slist.hpp>
#include <boost/container/vector.hpp>
#include <boost/unordered_map.hpp>
#define HAS_BOOST
#endif

using less = std::less<int>;
using hash = std::hash<int>;
using same = std::equal_to<int>;

TEST(containers_of_std_with_nodes_have_them_in_a_fitting_pool) {
    check_sequence<std::list<int, of<int>>, std::list<int>>(true);
    check_sequence<std::list<wide, of<wide>>, std::list<wide>>(true);
    check_front<std::forward_list<long, of<long>>, std::forward_list<long>>(true);
    check_keys<std::set<int, less, of<int>>, std::set<int>>(true);
    check_keys<std::multiset<int, less, of<int>>, std::multiset<int>>(true);
    check_pairs<std::map<int, text, less, of<entry>>, std::map<int, text>>(true);
    check_pairs<std::multimap<int, text, less, of<entry>>, std::multimap<int, text>>(true);
    check_keys<std::unordered_set<int, hash, same, of<int>>, std::unordered_set<int>>(true);
    check_keys<std::unordered_multiset<int, hash, same, of<int>>, std::unordered_multiset<int>>(
        true);
    check_pairs<std::unordered_map<int, text, hash, same, of<entry>>,
                std::unordered_map<int, text>>(true);
    check_pairs<std::unordered_multimap<int, text, hash, same, of<entry>>,
                std::unordered_multimap<int, text>>(true);
}

TEST(containers_of_std_without_nodes_work_on_slices) {
    check_sequence<std::vector<int, of<int>>, std::vector<int>>(false);
    check_sequence<std::vector<bool, of<bool>>, std::vector<bool>>(false);
    check_sequence<std::vector<wide, of<wide>>, std::vector<wide>>(false);
    check_sequence<std::deque<int, of<int>>, std::deque<int>>(false);
    check_sequence<std::basic_string<char, std::char_traits<char>, of<char>>, std::string>(false);
}

TEST(adaptors_take_the_allocator_of_their_container) {
    std::stack<int, std::list<int, of<int>>> stack;
    std::queue<int, std::deque<int, of<int>>> queue;
    std::priority_queue<int, std::vector<int, of<int>>> highest;
    for (int i = 0; i < 1000; i++) {
        stack.push(i);
        queue.push(i);
        highest.push(i * 7 % 1000);
    }
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(stack.top(), 999 - i);
        CHECK_EQ(queue.front(), i);
        CHECK_EQ(highest.top(), 999 - i);
        stack.pop();
        queue.pop();
        highest.pop();
    }
}

TEST(objects_of_shared_pointers_lie_in_the_pool) {
    of<wide> allocator;
    std::vector<std::shared_ptr<wide>> pointers;
    for (int i = 0; i < 100; i++) {
        pointers.push_back(std::allocate_shared<wide>(allocator, i));
        CHECK_EQ(reinterpret_cast<std::uintptr_t>(pointers.back().get()) % alignof(wide), 0);
    }
    CHECK_EQ(used(allocator), 100);
    pointers.resize(40);
    CHECK_EQ(used(allocator), 40);
    allocator = of<wide>(); /* the pool ends with the last pointer */
    CHECK(*pointers[39] == wide(39));
}

TEST(a_container_that_is_copied_has_a_pool_of_its_own) {
    std::list<int, of<int>> first = {1, 2, 3};
    auto copy = first;
    CHECK(copy.get_allocator() != first.get_allocator());
    auto moved = std::move(first);
    first = {7};
    CHECK(moved.get_allocator() == first.get_allocator()); /* as std says of moved-from ones */
    swap(copy, moved);
    CHECK(copy.get_allocator() == first.get_allocator());
    copy.splice(copy.begin(), first);
    CHECK_EQ(copy.front(), 7);
    moved = copy;
    copy = std::move(moved);
    CHECK_EQ(copy.size(), 4);
}

TEST(options_reach_the_pool) {
    NEEDS_CHUNKS();
    ps_source_account account;
    ps_source_account_init(&account, nullptr, 0);
    ps_pool_options options = {};
    options.chunks.source = &account.source;
    options.max_items = 5;
    {
        std::list<int, of<int>> limited{of<int>(options)};
        limited.assign(5, 1);
        CHECK_CMP(ps_source_account_used(&account), >, 0);
        bool is_refused = false;
        try {
            limited.push_back(6);
        } catch (const std::bad_alloc &) {
            is_refused = true;
        }
        CHECK(is_refused);
        CHECK_EQ(limited.size(), 5);
    }
    CHECK_EQ(ps_source_account_used(&account), 0);
}

template <class Container> static void check_node_size() {
    Container container;
    typename Container::allocator_type allocator = container.get_allocator();
    container.insert(container.begin(), typename Container::value_type());
    CHECK(allocator.c_pool() != nullptr);
    CHECK_EQ(allocator.stats().size_bytes, ps::node_size<Container>::bytes);
    CHECK_EQ(ps::node_size<Container>::bytes % ps::node_size<Container>::align, 0);
}

TEST(node_size_is_what_the_container_asks_for) {
    check_node_size<std::list<int, of<int>>>();
    check_node_size<std::list<wide, of<wide>>>();
    check_node_size<std::set<char, std::less<char>, of<char>>>();
    check_node_size<std::map<int, text, less, of<entry>>>();
    check_node_size<std::multimap<int, text, less, of<entry>>>();
    check_node_size<std::unordered_set<int, hash, same, of<int>>>();
    check_node_size<std::unordered_map<int, text, hash, same, of<entry>>>();
    using forward = std::forward_list<short, of<short>>;
    forward list = {1};
    CHECK_EQ(list.get_allocator().stats().size_bytes, ps::node_size<forward>::bytes);
}

TEST(a_pool_by_hand_fits_by_node_size) {
    using list = std::list<int, ps::allocator<int, ps::node_pool>>;
    ps::node_pool pool(ps::node_size<list>::bytes, ps::node_size<list>::align);
    list numbers{list::allocator_type(pool)};
    for (int i = 0; i < 1000; i++) {
        numbers.push_back(i);
    }
    CHECK_EQ(pool.stats().used_count, 1000);
    CHECK_EQ(pool.stats().size_bytes, ps::node_size<list>::bytes);
}

TEST(a_pool_of_a_type_still_serves_what_fits_it) {
    ps::pool<int> pool;
    std::vector<int, ps::allocator<int, ps::pool<int>>> numbers{
        ps::allocator<int, ps::pool<int>>(pool)};
    ps::pool<wide> wides;
    std::deque<wide, ps::allocator<wide, ps::pool<wide>>> deque{
        ps::allocator<wide, ps::pool<wide>>(wides)};
    deque.emplace_back(3);
    CHECK(deque.front() == wide(3));
}

#ifdef HAS_BOOST
TEST(containers_of_boost_have_their_nodes_in_a_fitting_pool) {
    namespace bc = boost::container;
    check_sequence<bc::list<int, of<int>>, std::list<int>>(true);
    check_front<bc::slist<long, of<long>>, std::forward_list<long>>(true);
    check_keys<bc::set<int, less, of<int>>, std::set<int>>(true);
    check_keys<bc::multiset<int, less, of<int>>, std::multiset<int>>(true);
    check_pairs<bc::map<int, text, less, of<entry>>, std::map<int, text>>(true);
    check_pairs<boost::unordered_map<int, text, hash, same, of<entry>>,
                std::unordered_map<int, text>>(true);
    check_sequence<bc::vector<int, of<int>>, std::vector<int>>(false);
    check_sequence<bc::deque<int, of<int>>, std::deque<int>>(false);
    using flat = std::pair<int, text>;
    check_pairs<bc::flat_map<int, text, less, of<flat>>, std::map<int, text>>(false);
    check_node_size<bc::list<int, of<int>>>();
    check_node_size<bc::set<int, less, of<int>>>();
    check_node_size<bc::map<int, text, less, of<entry>>>();
}
#endif

UNIT_MAIN
