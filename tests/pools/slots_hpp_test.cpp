// SPDX-License-Identifier: MIT
// ps::slots: objects and their ends, constructors that throw, handles as values, iterators.
#include "tests/unit/unit.h"

#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"
#include "tests/pools/session.hpp"
#include "tests/pools/throws.hpp"

#include <poolshim/slots.hpp>
#include <unordered_set>
#include <vector>

TEST(objects_live_from_insert_to_remove) {
    ps::slots<session> sessions;
    ps::slots<session>::handle first = sessions.insert(1);
    ps::slots<session>::handle second = sessions.insert(2);
    CHECK_EQ(living, 2);
    CHECK_EQ(sessions.size(), 2);
    CHECK_EQ(sessions.get(first)->number, 1);
    CHECK(sessions.handle_of(*sessions.get(second)) == second);
    CHECK(sessions.remove(first));
    CHECK(!sessions.remove(first));
    CHECK_EQ(living, 1);
    CHECK(sessions.get(first) == nullptr && !sessions.contains(first));
    CHECK(sessions.contains(second));
    CHECK(!sessions.contains({}));
    sessions.reset();
    CHECK_EQ(living, 0);
    CHECK(sessions.empty() && sessions.get(second) == nullptr);
}

TEST(live_objects_end_with_the_map) {
    {
        ps::slots<session> sessions;
        for (int i = 0; i < 100; i++) {
            sessions.insert(i);
        }
        ps::slots<session> moved(std::move(sessions));
        CHECK_EQ(living, 100);
        CHECK(sessions.empty());
        sessions = ps::slots<session>();
        sessions.insert(5);
        sessions = std::move(moved);
        CHECK_EQ(living, 100);
        CHECK_EQ(sessions.size(), 100);
    }
    CHECK_EQ(living, 0);
}

TEST(a_throwing_constructor_leaves_no_object) {
    ps::slots<session> sessions;
    for (int i = 0; i < 10; i++) {
        CHECK(throws<std::runtime_error>([&] { sessions.insert(-1); }));
        CHECK(sessions.empty());
        CHECK(sessions.begin() == sessions.end());
    }
    CHECK(sessions.check());
    CHECK_EQ(living, 0);
}

TEST(a_full_map_says_so) {
    ps::slots_options options = {};
    options.max_items = 3;
    ps::slots<session> sessions(options);
    for (int i = 0; i < 3; i++) {
        CHECK(static_cast<bool>(sessions.try_insert(i)));
    }
    CHECK(!sessions.try_insert(4));
    CHECK(throws<std::bad_alloc>([&] { sessions.insert(4); }));
    CHECK_EQ(living, 3);
}

template <class Map> static void visit_in_order(Map &map) {
    std::vector<typename Map::handle> handles;
    for (int i = 0; i < 1000; i++) {
        handles.push_back(map.insert(i));
    }
    for (int i = 0; i < 1000; i++) {
        if (i % 3 != 0) {
            CHECK(map.remove(handles[static_cast<std::size_t>(i)]));
        }
    }
    int expected = 0;
    const Map &constant = map;
    for (const auto &object : constant) {
        CHECK_EQ(object.number, expected);
        CHECK(constant.get(constant.handle_of(object)) == &object);
        expected += 3;
    }
    CHECK_CMP(expected, >=, 1000);
    for (auto &object : map) {
        CHECK(map.remove(map.handle_of(object)));
    }
    CHECK(map.empty() && map.check());
    map.reserve(100);
    map.trim_to(0);
    CHECK_EQ(map.stats().used_count, 0);
}

struct alignas(64) wide {
    explicit wide(int n) : number(n) {}
    int number;
    char rest[100];
};

TEST(iteration_is_in_order_for_every_kind_of_handle) {
    ps::slots<session> usual;
    visit_in_order(usual);
    ps::slots<wide> aligned;
    visit_in_order(aligned);
    ps::slots<wide, std::uint32_t> small;
    visit_in_order(small);
    ps::slots<session, std::uint32_t, 12> smaller;
    visit_in_order(smaller);
}

/* By iterators and by each: the same objects, in the same order. */
template <class Map> static void check_each(Map &map) {
    std::vector<int> expected;
    std::vector<int> visited;
    std::vector<int> visited_constant;
    for (const auto &object : map) {
        expected.push_back(object.number);
    }
    map.each([&](auto &object) { visited.push_back(object.number); });
    const Map &constant = map;
    constant.each([&](const auto &object) { visited_constant.push_back(object.number); });
    CHECK_EQ(visited.size(), map.size());
    CHECK(visited == expected && visited_constant == expected);
}

template <class Map> static void visit_each(std::size_t chunk_bytes) {
    ps::slots_options options = {};
    options.chunks.max_bytes = chunk_bytes;
    Map map(options);
    check_each(map);
    std::vector<typename Map::handle> handles;
    for (int i = 0; i < 3000; i++) {
        handles.push_back(map.insert(i));
        if (i % 500 == 63) {
            check_each(map);
        }
    }
    check_each(map);
    WHEN("objects die that a run of living ones had ahead, and the visited ones");
    std::vector<int> visited;
    map.each([&](auto &object) {
        visited.push_back(object.number);
        if (object.number % 7 == 0 && object.number + 3 < 3000) {
            CHECK(map.remove(handles[static_cast<std::size_t>(object.number) + 3]));
            CHECK(map.remove(handles[static_cast<std::size_t>(object.number)]));
        }
    });
    THEN("those are not visited, and all others are");
    CHECK_EQ(visited.size(), 3000 - 429);
    for (std::size_t i = 0; i < visited.size(); i++) {
        CHECK_NE(visited[i] % 7, 3);
    }
    check_each(map);
    for (std::size_t i = 1000; i < 2000; i++) {
        map.remove(handles[i]);
    }
    check_each(map);
    map.trim_to(0);
    check_each(map);
    for (int i = 0; i < 700; i++) {
        map.insert(3000 + i);
    }
    check_each(map);
    map.reset();
    check_each(map);
    CHECK(map.check());
}

TEST(each_visits_what_iterators_do) {
    visit_each<ps::slots<session>>(0);
    visit_each<ps::slots<session>>(1 << 20);
    visit_each<ps::slots<session>>(128);
    visit_each<ps::slots<wide, std::uint32_t>>(0);
}

TEST(handles_are_values) {
    using handle = ps::slots<int>::handle;
    static_assert(!handle() && sizeof(handle) == 8);
    static_assert(sizeof(ps::slots<int, std::uint32_t>::handle) == 4);
    ps::slots<int> numbers;
    std::unordered_set<handle> seen;
    for (int i = 0; i < 100; i++) {
        handle given = numbers.insert(i);
        CHECK(seen.insert(given).second);
        CHECK_EQ(*numbers.get(handle(given.value())), i);
        CHECK(numbers.remove(given));
    }
}

DEBUG_ALL(everything_holds_in_checked_mode, "check")

DEBUG_ALL(everything_holds_in_malloc_mode, "malloc")

UNIT_MAIN
