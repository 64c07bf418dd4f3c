// SPDX-License-Identifier: MIT
// ps::fixed, ps::shared_fixed and ps::unchecked_fixed: constant initialisation, the ends of
// objects, constructors that throw, threads.
#include "tests/pools/session.hpp"
#include "tests/pools/throws.hpp"
#include "tests/unit/fresh.h"

#include <cstring>
#include <poolshim/fixed.hpp>
#include <thread>
#include <vector>

struct point {
    int x;
    int y;
    constexpr point(int own_x, int own_y) : x(own_x), y(own_y) {}
};

// A constant: its initialisation is none of run time.
static constexpr ps::fixed<point, 4> empty_points;
static_assert(empty_points.capacity() == 4 && empty_points.size() == 0);
static_assert(!empty_points.owns(nullptr));
static_assert(std::is_trivially_destructible_v<ps::fixed<point, 4>>);
static_assert(!std::is_trivially_destructible_v<ps::fixed<session, 4>>);
static_assert(!std::is_copy_constructible_v<ps::fixed<point, 4>>);

static_assert(std::is_trivially_destructible_v<ps::unchecked_fixed<session, 4>>);
static_assert(!std::is_copy_constructible_v<ps::unchecked_fixed<point, 4>>);

static constexpr ps::unchecked_fixed<point, 4> empty_unchecked;
static_assert(empty_unchecked.capacity() == 4);

static ps::fixed<point, 4> points;
static point *made_at_load;
__attribute__((constructor(101))) static void program_loaded() {
    made_at_load = points.create(1, 2);
}

TEST(a_static_pool_is_usable_before_main_and_stays_as_it_was) {
    CHECK(made_at_load != nullptr && made_at_load->y == 2);
    CHECK_EQ(points.size(), 1);
    points.destroy(made_at_load);
    CHECK_EQ(points.size(), 0);
}

template <class Pool> static void use_pool(Pool &pool) {
    std::vector<session *> sessions;
    for (int round = 0; round < 3; round++) {
        for (std::size_t i = 0; i < pool.capacity(); i++) {
            sessions.push_back(pool.create(static_cast<int>(i)));
            REQUIRE(sessions.back() != nullptr);
            CHECK(pool.owns(sessions.back()));
        }
        CHECK(pool.create(1) == nullptr);
        CHECK_EQ(pool.size(), pool.capacity());
        CHECK_EQ(living, pool.capacity());
        int expected = 0;
        pool.each(
            [&](session &each) { CHECK_EQ(each.number, round == 0 ? expected++ : each.number); });
        pool.destroy(sessions[2]);
        CHECK_EQ(living, pool.capacity() - 1);
        CHECK_PTR_EQ(pool.create(7), sessions[2]);
        pool.destroy(nullptr);
        sessions.clear();
        pool.reset();
        CHECK_EQ(living, 0);
        CHECK_EQ(pool.size(), 0);
    }
}

TEST(objects_live_from_create_to_destroy) {
    ps::fixed<session, 5> pool;
    use_pool(pool);
    ps::shared_fixed<session, 70> shared;
    use_pool(shared);
}

TEST(an_unchecked_pool_reuses_the_newest) {
    ps::unchecked_fixed<session, 5> pool;
    session *sessions[5];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 5; i++) {
            session *made = pool.create(i);
            REQUIRE(made != nullptr && pool.owns(made));
            CHECK(round == 0 || made == sessions[4 - i]);
            sessions[round == 0 ? i : 4 - i] = made;
        }
        CHECK(pool.create(1) == nullptr);
        CHECK_EQ(living, 5);
        for (session *each : sessions) {
            pool.destroy(each);
        }
        CHECK_EQ(living, 0);
    }
    CHECK(!pool.owns(&pool + 1) && !pool.owns(nullptr));
    CHECK(throws<std::runtime_error>([&] { pool.create(-1); }));
    CHECK_PTR_EQ(pool.create(1), sessions[4]);
    pool.destroy(sessions[4]);
}

TEST(an_unchecked_pool_of_small_objects_gives_memory_too) {
    static ps::unchecked_fixed<char, 3> pool;
    char *all[3];
    for (char *&each : all) {
        each = static_cast<char *>(pool.allocate());
        *each = 7;
    }
    for (std::size_t bytes : {std::size_t{1}, std::size_t{2}}) {
        CHECK(throws<std::bad_alloc>([&] { pool.allocate(bytes); }));
    }
    pool.deallocate(all[1]);
    CHECK_PTR_EQ(pool.create('x'), all[1]);
}

TEST(objects_in_use_end_with_the_pool) {
    {
        ps::fixed<session, 8> pool;
        pool.create(1);
        session *second = pool.create(2);
        pool.create(3);
        pool.destroy(second);
        CHECK_EQ(living, 2);
    }
    CHECK_EQ(living, 0);
}

TEST(a_throwing_constructor_leaves_no_object) {
    ps::fixed<session, 1> pool;
    for (int i = 0; i < 5; i++) {
        CHECK(throws<std::runtime_error>([&] { pool.create(-1); }));
        CHECK_EQ(pool.size(), 0);
    }
    CHECK(pool.create(1) != nullptr);
}

TEST(memory_alone_is_given_for_no_more_than_an_object) {
    ps::fixed<point, 2> pool;
    void *first = pool.allocate();
    void *second = pool.allocate(1, 1);
    CHECK(first != nullptr && second != nullptr);
    for (std::size_t bytes : {std::size_t{8}, std::size_t{9}}) {
        CHECK(throws<std::bad_alloc>([&] { pool.allocate(bytes); }));
    }
    pool.deallocate(first);
    pool.deallocate(second, 8, 4);
    pool.deallocate(nullptr);
    CHECK_EQ(pool.size(), 0);
}

TEST(a_pool_that_is_made_leaves_the_objects_memory_alone) {
    using pool_type = ps::fixed<point, 64>;
    alignas(pool_type) static unsigned char buffer[sizeof(pool_type)];
    std::memset(buffer, 0xa5, sizeof buffer);
    auto *pool = ::new (static_cast<void *>(buffer)) pool_type;
    for (std::size_t i = 0; i < pool->capacity(); i++) {
        unsigned char *place = static_cast<unsigned char *>(pool->allocate());
        CHECK_EQ(place[0], 0xa5);
        CHECK_EQ(place[sizeof(point) - 1], 0xa5);
    }
}

TEST(misuse_is_found) {
    static ps::fixed<session, 2> pool;
    session *one = pool.create(1);
    pool.destroy(one);
    CHECK_ABORTS(pool.destroy(one), "poolshim: double free in a fixed pool\n");
    session outside(1);
    CHECK_ABORTS(pool.destroy(&outside), "poolshim: free of a foreign pointer in a fixed pool\n");
}

TEST(threads_share_a_pool) {
    static ps::shared_fixed<point, 6> pool;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; t++) {
        threads.emplace_back([t] {
            for (int i = 0; i < 50000 / FRESH_SLOWNESS; i++) {
                point *mine = pool.create(t, i);
                point *other = pool.create(t, -i);
                CHECK(mine != nullptr && other != nullptr);
                CHECK(mine->x == t && mine->y == i && other->y == -i);
                pool.destroy(mine);
                pool.destroy(other);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK_EQ(pool.size(), 0);
}

UNIT_MAIN
