// SPDX-License-Identifier: MIT
// ps::intrusive_pool: policies, exceptions at every place, limits, the pool's end before its
// objects', recycle functions.
#include "tests/unit/unit.h"

#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"
#include "tests/pools/throws.hpp"

#include <functional>
#include <poolshim/intrusive.hpp>
#include <stdexcept>
#include <string>
#include <vector>

static int constructed;
static int destroyed;
static int destroy_calls;

// Of an object without a base of the library.
struct plain {
    int value = 7;
    std::string text;
    explicit plain(int v = 7) : value(v), text("some text that is longer than the small buffer") {
        if (v < 0) {
            throw std::runtime_error("constructor");
        }
        constructed++;
    }
    ~plain() { destroyed++; }
    void init(int v) {
        value = v;
        if (v < 0) {
            throw std::runtime_error("init");
        }
    }
    void destroy() { destroy_calls++; }
};

// With its count inside, and a virtual function, so that the count is not at the start.
struct shape : ps::intrusive_item<> {
    virtual ~shape() { destroyed++; }
    virtual int corners() const { return 0; }
    void init(int v) {
        value = v;
        if (v < 0) {
            throw std::runtime_error("init");
        }
    }
    void destroy() { destroy_calls++; }
    int value = 0;
};
struct named {
    std::string name = "a name that is longer than the small buffer of a string";
};
struct square : named, shape {
    square() { constructed++; }
    int corners() const override { return 4; }
};

static void reset_counts() { constructed = destroyed = destroy_calls = 0; }

template <class Pool> static void check_empty(const Pool &pool) {
    CHECK_EQ(pool.stats().live_items, 0);
    CHECK(pool.check());
}

TEST(per_use_constructs_and_destroys_each_time) {
    reset_counts();
    ps::intrusive_pool<plain> pool;
    for (int i = 0; i < 10; i++) {
        ps::ref<plain> a = pool.allocate(i);
        ps::ref<plain> b = a;
        CHECK_EQ(b->value, i);
        CHECK_EQ(a.use_count(), 2);
        CHECK(a == b);
        a = nullptr;
        CHECK(b.use_count() == 1 && a == nullptr);
    }
    CHECK_EQ(constructed, 10);
    CHECK_EQ(destroyed, 10);
    check_empty(pool);
}

TEST(reuse_constructs_once_and_destroys_with_the_memory) {
    NEEDS_CHUNKS();
    reset_counts();
    {
        ps::intrusive_pool<square, ps::reuse_destroy> pool;
        ps::ref<square> first = pool.allocate();
        first->name = "kept";
        square *address = first.get();
        first.reset();
        CHECK_EQ(destroy_calls, 1);
        ps::ref<square> second = pool.allocate_through_init(5);
        CHECK_PTR_EQ(second.get(), address);
        CHECK(second->name == "kept" && second->value == 5);
        std::vector<ps::ref<square>> many;
        for (int i = 0; i < 99; i++) {
            many.push_back(pool.allocate());
        }
        CHECK_EQ(constructed, 100);
        CHECK_EQ(destroyed, 0);
    }
    CHECK_EQ(destroyed, 100);
}

TEST(constructions_equal_the_most_that_lived_at_a_time) {
    NEEDS_CHUNKS();
    reset_counts();
    ps::intrusive_options options;
    options.reserve_items = 1000;
    ps::intrusive_pool<square, ps::reuse> pool(options);
    for (int round = 0; round < 5; round++) {
        std::vector<ps::ref<square>> refs;
        for (int i = 0; i < 1000; i++) {
            refs.push_back(pool.allocate());
        }
        CHECK_EQ(constructed, 1000);
        CHECK_EQ(pool.stats().chunk_count, 1);
    }
    check_empty(pool);
}

template <class Pool> static void throw_everywhere(Pool &pool, int more) {
    for (int i = 0; i < 20; i++) {
        CHECK(throws<std::runtime_error>([&] { pool.allocate_through_init(-1); }));
        CHECK(throws<std::runtime_error>([&] {
            pool.allocate_through_function([](auto &) { throw std::runtime_error("function"); });
        }));
        check_empty(pool);
    }
    CHECK_EQ(pool.stats().touched_items, 1);
    CHECK_EQ(constructed - destroyed, more);
}

TEST(an_item_is_back_when_init_or_a_function_throws) {
    NEEDS_CHUNKS();
    reset_counts();
    ps::intrusive_pool<plain> per_use;
    throw_everywhere(per_use, 0);
    ps::intrusive_pool<plain, ps::reuse_destroy> reused;
    throw_everywhere(reused, 1);
    CHECK_EQ(destroy_calls, 0);
    reset_counts();
    ps::intrusive_pool<square> inside;
    throw_everywhere(inside, 0);
    reset_counts();
    ps::intrusive_pool<square, ps::reuse, ps::plain_count> inside_reused;
    throw_everywhere(inside_reused, 1);
}

static bool refuses;
struct picky : ps::intrusive_item<> {
    picky() {
        if (refuses) {
            throw std::runtime_error("constructor");
        }
    }
};

TEST(an_item_is_back_when_the_constructor_throws_and_is_constructed_later) {
    NEEDS_CHUNKS();
    ps::intrusive_pool<plain> pool;
    for (int i = 0; i < 10; i++) {
        CHECK(throws<std::runtime_error>([&] { pool.allocate(-1); }));
    }
    CHECK_EQ(pool.stats().touched_items, 1);
    ps::intrusive_pool<picky, ps::reuse> reused;
    refuses = true;
    for (int i = 0; i < 10; i++) {
        CHECK(throws<std::runtime_error>([&] { reused.allocate(); }));
        check_empty(reused);
    }
    refuses = false;
    CHECK(bool(reused.allocate()));
    CHECK_EQ(reused.stats().touched_items, 1);
}

TEST(a_function_may_construct_the_object_again) {
    NEEDS_CHUNKS();
    ps::intrusive_pool<square, ps::reuse> pool;
    ps::ref<square> kept;
    for (int i = 0; i < 3; i++) {
        ps::ref<square> made = pool.allocate_through_function([&](square &object) {
            object.~square();
            ::new (&object) square();
            kept = ps::ref<square>(&object);
            ps::ref<square> for_a_while(&object);
        });
        CHECK_EQ(made.use_count(), 2);
        kept.reset();
        made.reset();
        check_empty(pool);
    }
    CHECK_EQ(pool.stats().touched_items, 1);
    CHECK(throws<std::runtime_error>([&] {
        pool.allocate_through_function([&](square &object) {
            kept = ps::ref<square>(&object);
            throw std::runtime_error("with a reference outside");
        });
    }));
    CHECK_EQ(kept.use_count(), 1);
    CHECK_EQ(kept->corners(), 4);
    kept.reset();
    check_empty(pool);
}

struct shy : ps::intrusive_item<> {
    ps::ref<shy> self;
    shy() {
        ps::ref<shy> for_a_while(this);
        self = for_a_while;
    }
};

TEST(a_constructor_may_take_references_to_its_object) {
    ps::intrusive_pool<shy> pool;
    ps::ref<shy> a = pool.allocate();
    CHECK_EQ(a.use_count(), 2);
    ps::ref<shy> self = std::move(a->self);
    a.reset();
    CHECK_EQ(self.use_count(), 1);
    self.reset();
    check_empty(pool);
}

TEST(exhausted_pools_give_empty_references) {
    ps::intrusive_options options;
    options.reserve_items = options.max_items = 10;
    ps::intrusive_pool<plain> pool(options);
    CHECK(pool.is_bounded() && pool.is_limited() && !pool.is_exhausted());
    std::vector<ps::ref<plain>> refs;
    for (int i = 0; i < 10; i++) {
        refs.push_back(pool.allocate());
        CHECK(bool(refs.back()));
    }
    CHECK(!pool.allocate() && !pool.allocate_through_init(1) && pool.is_exhausted());
    refs.pop_back();
    CHECK(bool(pool.allocate()));
}

TEST(no_memory_is_bad_alloc) {
    NEEDS_CHUNKS();
    char room[8192];
    ps_source_buffer source;
    ps_source_buffer_init(&source, room, sizeof room);
    ps::intrusive_options options;
    options.chunks.source = &source.source;
    ps::intrusive_pool<plain> pool(options);
    std::vector<ps::ref<plain>> refs;
    bool is_bad = false;
    try {
        for (;;) {
            refs.push_back(pool.allocate());
        }
    } catch (const std::bad_alloc &) {
        is_bad = true;
    }
    CHECK(is_bad && refs.size() > 10);
    options.reserve_items = 1 << 20;
    CHECK(throws<std::bad_alloc>([&] { ps::intrusive_pool<plain> large(options); }));
}

TEST(objects_outlive_their_pool) {
    NEEDS_CHUNKS();
    reset_counts();
    ps::ref<shape> survivor;
    ps::ref<plain> another;
    {
        ps::intrusive_pool<square, ps::reuse> pool;
        survivor = pool.allocate();
        pool.allocate();
        ps::intrusive_pool<plain> other;
        another = other.allocate(3);
        CHECK_EQ(constructed, 3);
    }
    CHECK_EQ(destroyed, 0);
    CHECK_EQ(survivor->corners(), 4);
    CHECK_EQ(another->value, 3);
    survivor.reset();
    another.reset();
    CHECK_EQ(destroyed, 3);
}

TEST(clear_and_moves) {
    reset_counts();
    ps::intrusive_pool<plain> pool;
    ps::ref<plain> old = pool.allocate(1);
    pool.reset();
    ps::ref<plain> young = pool.allocate(2);
    CHECK_EQ(pool.stats().live_items, 1);
    ps::intrusive_pool<plain> moved(std::move(pool));
    CHECK_EQ(moved.stats().live_items, 1);
    ps::ref<plain> third = pool.allocate(3);
    pool = std::move(moved);
    CHECK(third->value == 3 && old->value == 1 && young->value == 2);
    old.reset();
    young.reset();
    third.reset();
    CHECK_EQ(destroyed, 3);
}

struct counting_policy : ps::reuse {
    static inline int calls = 0;
    static void recycle(plain &object) noexcept {
        calls++;
        object.value = 0;
    }
};

static void count_uses(plain &, void *context) { ++*static_cast<int *>(context); }

static int recycled;
static void recycle_plain(plain &object) {
    recycled++;
    object.value = -5;
}

TEST(recycle_may_be_a_policy_a_function_or_a_callable) {
    NEEDS_CHUNKS();
    ps::intrusive_pool<plain, counting_policy> fixed;
    fixed.allocate()->value = 3;
    CHECK_EQ(counting_policy::calls, 1);
    CHECK_EQ(fixed.allocate()->value, 0);

    ps::intrusive_pool<plain, ps::reuse> free_hand;
    free_hand.allocate();
    free_hand.set_recycle<recycle_plain>();
    free_hand.allocate();
    CHECK_EQ(recycled, 1);
    CHECK_EQ(free_hand.allocate()->value, -5);
    int sum = 0;
    free_hand.set_recycle<count_uses>(&sum);
    free_hand.allocate();
    CHECK_EQ(sum, 1);
    std::function<void(plain &)> callable = [&](plain &object) { sum += object.value; };
    free_hand.set_recycle(callable);
    free_hand.allocate()->value = 40;
    CHECK_EQ(sum, 41);
    free_hand.clear_recycle();
    free_hand.allocate();
    CHECK_EQ(sum, 41);
}

DEBUG_ALL(checked_pools_behave_the_same, "check")

UNIT_MAIN
