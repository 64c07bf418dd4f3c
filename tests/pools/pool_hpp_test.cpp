// SPDX-License-Identifier: MIT
// The C++ pools of poolshim/pool.hpp: construction and destruction, exceptions, moves.
#include "tests/pools/modes.h"
#include "tests/pools/throws.hpp"

#include <cstdio>
#include <poolshim/pool.hpp>
#include <set>
#include <string>
#include <vector>

namespace {

int failures;

void check(bool condition, const char *text, int line) {
    if (!condition) {
        std::fprintf(stderr, "pool_hpp_test.cpp:%d: %s is false\n", line, text);
        failures++;
    }
}
#define CHECK(condition) check((condition), #condition, __LINE__)

struct Counted {
    static inline int live = 0;
    static inline int throw_at = -1; // the object that throws, counted down
    int value;
    char padding[20];
    explicit Counted(int start = 7) : value(start) {
        if (throw_at >= 0 && throw_at-- == 0) {
            throw std::string("constructor");
        }
        live++;
    }
    Counted(const Counted &) = delete;
    ~Counted() { live--; }
};

struct alignas(64) Aligned {
    double values[3];
};

static_assert(std::is_nothrow_move_constructible_v<ps::node_pool>);
static_assert(std::is_nothrow_move_assignable_v<ps::node_pool>);
static_assert(std::is_nothrow_move_constructible_v<ps::pool<Counted>>);
static_assert(std::is_nothrow_move_constructible_v<ps::unchecked_pool<Counted>>);
static_assert(std::is_nothrow_move_assignable_v<ps::unchecked_node_pool>);
static_assert(std::is_nothrow_move_assignable_v<ps::object_pool<Counted>>);
static_assert(!std::is_copy_constructible_v<ps::pool<Counted>>);
static_assert(!std::is_copy_constructible_v<ps::object_pool<Counted>>);
static_assert(!std::is_polymorphic_v<ps::object_pool<Counted>>);

// In each mode of PS_DEBUG: it does not concern them.
void unchecked_pools_reuse_the_newest() {
    ps::unchecked_pool<Counted> pool;
    Counted *one = pool.create(1);
    Counted *two = pool.create(2);
    CHECK(two == one + 1 && Counted::live == 2);
    pool.destroy(one);
    pool.destroy(two);
    CHECK(Counted::live == 0);
    ps::unchecked_pool<Counted> moved(std::move(pool));
    CHECK(moved.create(3) == two && moved.create(4) == one);
    moved.destroy(one);
    moved.destroy(two);
    ps::unchecked_node_pool nodes(24);
    void *array = nodes.allocate(96, 8);
    void *node = nodes.allocate(24, 8);
    nodes.deallocate(node, 24, 8);
    CHECK(nodes.get() == node);
    nodes.put(node);
    nodes.deallocate(array, 96, 8);
    CHECK(nodes.stats().used_count == 0);
}

void live_objects_are_destroyed_and_no_others() {
    {
        ps::object_pool<Counted> pool;
        std::vector<Counted *> objects;
        for (int i = 0; i < 1000; i++) {
            objects.push_back(pool.create(i));
        }
        for (int i = 0; i < 1000; i += 3) {
            pool.destroy(objects[i]);
        }
        CHECK(Counted::live == 666);
        pool.destroy(nullptr);
        int sum = 0;
        pool.each([&sum](const Counted &object) { sum += object.value % 3 != 0; });
        CHECK(sum == 666);
        Counted *array = pool.create_n(5);
        CHECK(array[4].value == 7 && Counted::live == 671);
        pool.destroy_n(array, 5);
        pool.create_n(3);
    }
    CHECK(Counted::live == 0);
    ps::object_pool<Counted> pool;
    pool.create(1);
    pool.reset();
    CHECK(Counted::live == 0 && pool.stats().used_count == 0);
}

template <class Pool> void a_constructor_that_throws_changes_nothing() {
    Pool pool;
    Counted *kept = pool.create(1);
    Counted::throw_at = 0;
    bool is_caught = false;
    try {
        pool.create(2);
    } catch (const std::string &) {
        is_caught = true;
    }
    CHECK(is_caught && Counted::live == 1 && pool.stats().used_count == 1);
    Counted::throw_at = 3;
    is_caught = false;
    try {
        pool.create_n(5);
    } catch (const std::string &) {
        is_caught = true;
    }
    Counted::throw_at = -1;
    CHECK(is_caught && Counted::live == 1 && pool.stats().used_count == 1);
    pool.destroy(kept);
    CHECK(Counted::live == 0);
}

template <class Pool> void memory_that_is_out_is_bad_alloc() {
    ps::pool_options options{};
    options.max_items = 2;
    Pool pool(options);
    Counted *one = pool.create();
    Counted *two = pool.create();
    bool is_caught = false;
    try {
        pool.create();
    } catch (const std::bad_alloc &) {
        is_caught = true;
    }
    CHECK(is_caught && Counted::live == 2);
    pool.destroy(one);
    pool.destroy(two);
}

void a_moved_pool_takes_its_objects_along() {
    ps::object_pool<Counted> from;
    Counted *object = from.create(42);
    ps::object_pool<Counted> to(std::move(from));
    CHECK(to.owns(object) && !from.owns(object) && object->value == 42);
    from.create(1); // a pool that was moved from is empty, and works
    CHECK(Counted::live == 2);
    from = std::move(to);
    CHECK(Counted::live == 1 && from.owns(object));
    from.destroy(object);
    CHECK(Counted::live == 0);
}

void handles_destroy() {
    ps::pool<Counted> pool;
    {
        auto handle = pool.make_unique(3);
        CHECK(handle->value == 3 && Counted::live == 1);
    }
    CHECK(Counted::live == 0 && pool.stats().used_count == 0);
}

void alignment_is_that_of_the_type() {
    ps::pool<Aligned> pool;
    ps::object_pool<Aligned> ordered;
    for (int i = 0; i < 100; i++) {
        CHECK(reinterpret_cast<std::uintptr_t>(pool.create()) % 64 == 0);
        CHECK(reinterpret_cast<std::uintptr_t>(ordered.create()) % 64 == 0);
    }
}

void node_pools_serve_adapters() {
    NEEDS_CHUNKS();
    ps::node_pool pool(24, 8);
    void *one = pool.allocate(24, 8);
    void *small = pool.allocate(3, 1);
    void *array = pool.allocate(24 * 10 + 1, 8);
    CHECK(pool.stats().used_count == 13);
    CHECK(throws<std::bad_alloc>([&] { (void)pool.allocate(24, 4096); }));
    pool.deallocate(array, 24 * 10 + 1, 8);
    pool.deallocate(small, 3, 1);
    pool.deallocate(one, 24, 8);
    CHECK(pool.stats().used_count == 0 && pool.trim_to(0) > 0);
    CHECK(throws<std::invalid_argument>([&] { ps::node_pool bad(24, 3); }));
    CHECK(pool.try_get_kept() == nullptr && pool.try_get() != nullptr);
}

void random_objects_live_and_die() {
    std::vector<std::string *> live;
    ps::object_pool<std::string> pool;
    unsigned random = 12345;
    for (unsigned i = 0; i < 20000; i++) {
        random = random * 1664525u + 1013904223u;
        if (live.empty() || random >> 31 != 0) {
            live.push_back(pool.create(std::to_string(i) + " is longer than a short string"));
        } else {
            std::size_t index = (random >> 8) % live.size();
            CHECK(live[index]->find(" is longer") != std::string::npos);
            pool.destroy(live[index]);
            live[index] = live.back();
            live.pop_back();
        }
    }
    std::set<std::string *> seen;
    pool.each([&seen](std::string &text) { seen.insert(&text); });
    CHECK(seen == std::set<std::string *>(live.begin(), live.end()));
}

static void options_change_while_the_pool_lives() {
    ps::pool_options options{};
    options.max_items = 2;
    ps::pool<int> ints(options);
    ints.create(1);
    ints.create(2);
    CHECK(!ints.set_max_items(1));
    CHECK(ints.set_max_items(3));
    ints.create(3);
    ints.set_growth(8192);
    CHECK(ints.stats().next_bytes == 8192);
    CHECK(ints.stats().max_items == 3);
}

} // namespace

int main() {
    unchecked_pools_reuse_the_newest();
    live_objects_are_destroyed_and_no_others();
    a_constructor_that_throws_changes_nothing<ps::pool<Counted>>();
    a_constructor_that_throws_changes_nothing<ps::object_pool<Counted>>();
    memory_that_is_out_is_bad_alloc<ps::pool<Counted>>();
    memory_that_is_out_is_bad_alloc<ps::object_pool<Counted>>();
    a_moved_pool_takes_its_objects_along();
    handles_destroy();
    alignment_is_that_of_the_type();
    node_pools_serve_adapters();
    random_objects_live_and_die();
    options_change_while_the_pool_lives();
    return failures == 0 ? 0 : 1;
}
