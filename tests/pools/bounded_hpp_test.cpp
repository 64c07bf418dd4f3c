// SPDX-License-Identifier: MIT
// ps::bounded: objects and their ends, owners, constructors that throw, threads.
#include "tests/unit/fresh.h"

#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"
#include "tests/pools/session.hpp"
#include "tests/pools/throws.hpp"

#include <poolshim/bounded.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

TEST(objects_live_from_create_to_destroy) {
    ps::bounded<session> pool(20);
    std::vector<session *> sessions;
    for (int i = 0; i < 20; i++) {
        sessions.push_back(pool.create(i));
        REQUIRE(sessions.back() != nullptr);
    }
    CHECK(pool.create(20) == nullptr);
    CHECK_EQ(living, 20);
    CHECK_EQ(pool.stats().used_count, 20);
    for (session *each : sessions) {
        pool.destroy(each);
    }
    pool.destroy(nullptr);
    CHECK_EQ(living, 0);
    CHECK(pool.check());
}

TEST(owners_destroy_their_objects) {
    ps::bounded<session> pool(2);
    {
        ps::bounded<session>::pointer one = pool.make(1);
        auto two = pool.make(2);
        CHECK_EQ(one->number + two->number, 3);
        CHECK(pool.make(3) == nullptr);
        CHECK_EQ(living, 2);
    }
    CHECK_EQ(living, 0);
}

TEST(a_throwing_constructor_leaves_no_object) {
    ps::bounded<session> pool(1);
    for (int i = 0; i < 5; i++) {
        CHECK(throws<std::runtime_error>([&] { pool.create(-1); }));
    }
    session *one = pool.create(1);
    CHECK(one != nullptr);
    pool.destroy(one);
}

TEST(a_pool_moves_and_memory_alone_is_bounded) {
    ps::bounded_options options = {};
    options.is_exact = true;
    ps::bounded<session> first(1, options);
    ps::bounded<session> pool(std::move(first));
    void *memory = pool.allocate();
    for (std::size_t bytes : {sizeof(session), sizeof(session) + 1}) {
        CHECK(throws<std::bad_alloc>([&] { pool.allocate(bytes); }));
    }
    pool.deallocate(memory);
    CHECK(throws<std::bad_alloc>([&] { ps::bounded<session> none(0); }));
}

TEST(objects_end_in_other_threads) {
    ps::bounded<session> pool(500);
    for (int round = 0; round < 20; round++) {
        std::vector<session *> sessions;
        for (int i = 0; i < 400; i++) {
            sessions.push_back(pool.create(i));
            REQUIRE(sessions.back() != nullptr);
        }
        std::thread([&] {
            for (session *each : sessions) {
                pool.destroy(each);
            }
        }).join();
        CHECK_EQ(living, 0);
    }
    pool.flush();
    CHECK(pool.check());
}

DEBUG_ALL(everything_holds_in_checked_mode, "check")

DEBUG_ALL(everything_holds_in_malloc_mode, "malloc")

UNIT_MAIN
