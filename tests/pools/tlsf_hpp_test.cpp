/* SPDX-License-Identifier: MIT */
/*
 * ps::tlsf: what the wrapper adds to tlsf.h.
 */
#include <poolshim/tlsf.hpp>

#include "tests/pools/throws.hpp"
#include "tests/unit/unit.h"

#include <stdexcept>
#include <string>
#include <vector>

alignas(4096) static char room[1 << 20];

static int alive;

struct counted {
    int value;
    explicit counted(int v) : value(v) {
        if (v < 0) {
            throw std::runtime_error("negative");
        }
        alive++;
    }
    virtual ~counted() { alive--; }
};

struct padded {
    char bytes[40];
};

struct derived : padded, counted {
    derived() : padded(), counted(1) {}
};

struct alignas(256) wide {
    char bytes[300];
};

TEST(objects_are_made_and_ended) {
    ps::tlsf pool(room, sizeof room);
    counted *object = pool.create<counted>(5);
    CHECK_EQ(object->value, 5);
    CHECK_EQ(alive, 1);
    pool.destroy(object);
    CHECK_EQ(alive, 0);
    wide *large = pool.create<wide>();
    CHECK_EQ(reinterpret_cast<uintptr_t>(large) % 256, 0);
    pool.destroy(large);
    pool.destroy(static_cast<counted *>(nullptr));
    CHECK_EQ(pool.stats().used_count, 0);
}

TEST(an_object_is_freed_by_a_base_that_is_not_at_its_start) {
    ps::tlsf pool(room, sizeof room);
    counted *object = pool.create<derived>();
    pool.destroy(object);
    CHECK_EQ(alive, 0);
    CHECK_EQ(pool.stats().used_count, 0);
}

TEST(a_constructor_that_throws_leaves_nothing) {
    ps::tlsf pool(room, sizeof room);
    CHECK(throws<std::runtime_error>([&] { pool.create<counted>(-1); }));
    CHECK_EQ(pool.stats().used_count, 0);
}

TEST(memory_that_is_out_is_bad_alloc) {
    ps::tlsf pool(room, sizeof room);
    CHECK(throws<std::bad_alloc>([&] { (void)pool.allocate(sizeof room); }));
    CHECK(pool.try_allocate(sizeof room) == nullptr);
    CHECK(throws<std::bad_alloc>([&] { ps::tlsf tiny(room, 100); }));
}

TEST(pools_move) {
    static_assert(std::is_nothrow_move_constructible_v<ps::tlsf>);
    static_assert(std::is_nothrow_move_assignable_v<ps::tlsf>);
    static_assert(!std::is_copy_constructible_v<ps::tlsf>);
    ps::tlsf first;
    void *block = first.allocate(100, 128);
    ps::tlsf second(std::move(first));
    CHECK(second.owns(block) || second.stats().used_count == 1);
    second.deallocate(block, 100, 128);
    first = std::move(second);
    CHECK_EQ(first.stats().used_count, 0);
    CHECK(first.check() == nullptr);
    CHECK_STR_EQ(first.name(), "tlsf");
}

TEST(walk_takes_any_function_and_lets_it_throw) {
    ps::tlsf pool(room, sizeof room / 2);
    void *block = pool.allocate(100);
    CHECK_CMP(pool.usable_size(block), >=, 100);
    std::size_t used = 0;
    pool.walk([&](void *payload, std::size_t, bool is_used) {
        used += is_used;
        CHECK(!is_used || payload == block);
    });
    CHECK_EQ(used, 1);
    CHECK(throws<int>([&] { pool.walk([](void *, std::size_t, bool) { throw 1; }); }));
    CHECK(pool.add(room + sizeof room / 2, sizeof room / 2));
    CHECK(pool.remove(room + sizeof room / 2));
    CHECK_EQ(pool.trim_to(0), 0);
    pool.reset();
    CHECK_EQ(pool.stats().used_count, 0);
}

UNIT_MAIN
