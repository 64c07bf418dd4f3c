// SPDX-License-Identifier: MIT
// ps::ref and ps::unique_ref: conversions, bases, copies of objects, alignment, atomic counts,
// boost::intrusive_ptr on the same objects.
#include "tests/unit/unit.h"

#include "tests/pools/respawn.h"

#include <memory>
#include <poolshim/intrusive.hpp>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>
#if __has_include(<boost/smart_ptr/intrusive_ptr.hpp>)
#include <boost/smart_ptr/intrusive_ptr.hpp>
#define HAS_BOOST 1
#else
#define HAS_BOOST 0
#endif

struct plain {
    explicit plain(int v) : value(v) {}
    int value;
};

// With a virtual function, so that the count is not at the start.
struct shape : ps::intrusive_item<> {
    virtual ~shape() = default;
    virtual int corners() const { return 0; }
};
struct named {
    std::string name = "a name that is longer than the small buffer of a string";
};
struct square : named, shape {
    int corners() const override { return 4; }
};

template <class Pool> static void check_empty(const Pool &pool) {
    CHECK_EQ(pool.stats().live_items, 0);
    CHECK(pool.check());
}

TEST(references_convert_to_bases_and_compare) {
    ps::intrusive_pool<square> pool;
    ps::ref<square> derived = pool.allocate();
    ps::ref<shape> base = derived;
    ps::ref<const shape> constant = base;
    CHECK(base == derived && constant == base && base != nullptr);
    CHECK_EQ(derived->use_count(), 3);
    ps::ref<shape> moved = std::move(derived);
    CHECK(!derived);
    CHECK_EQ(moved.use_count(), 3);
    CHECK(!(moved < base) && !(base < moved));
    std::unordered_set<ps::ref<shape>> set{moved, base};
    CHECK_EQ(set.size(), 1);
    swap(moved, base);
    ps::ref<shape> &alias = moved;
    moved = alias;
    CHECK_EQ(moved.use_count(), 4);
    set.clear();
    base.reset();
    constant.reset();
    CHECK_EQ(moved.use_count(), 1);
    moved.reset();
    check_empty(pool);
}

TEST(a_unique_reference_takes_over_only_what_is_alone) {
    ps::intrusive_pool<plain> pool;
    ps::ref<plain> shared = pool.allocate(1);
    ps::ref<plain> second = shared;
    ps::unique_ref<plain> none(std::move(shared));
    CHECK(!none && shared);
    second.reset();
    ps::unique_ref<plain> alone(std::move(shared));
    CHECK(alone && !shared && alone->value == 1);
    ps::unique_ref<plain> other = std::move(alone);
    ps::ref<plain> again = std::move(other);
    CHECK(!other && again.use_count() == 1);
    ps::unique_ref<plain> last(pool.allocate(2));
    last.reset();
    again.reset();
    check_empty(pool);
}

TEST(copies_of_objects_do_not_copy_counts) {
    ps::intrusive_pool<square> pool;
    ps::ref<square> a = pool.allocate();
    ps::ref<square> b = pool.allocate();
    *b = *a;
    square on_the_stack = *a;
    {
        ps::ref<square> to_the_stack(&on_the_stack);
        CHECK_EQ(on_the_stack.use_count(), 1);
    }
    CHECK(a.use_count() == 1 && b.use_count() == 1 && on_the_stack.use_count() == 0);
}

struct node {
    ps::ref<node> next;
    int value = 0;
};
struct alignas(128) wide {
    char byte = 1;
};

TEST(objects_may_refer_to_their_like_and_be_aligned) {
    ps::intrusive_pool<node> pool;
    ps::ref<node> head;
    for (int i = 0; i < 1000; i++) {
        ps::ref<node> item = pool.allocate();
        item->next = std::move(head);
        item->value = i;
        head = std::move(item);
    }
    head.reset();
    check_empty(pool);
    ps::intrusive_pool<wide> wides;
    std::vector<ps::ref<wide>> refs;
    for (int i = 0; i < 50; i++) {
        refs.push_back(wides.allocate());
        CHECK_EQ(reinterpret_cast<uintptr_t>(refs.back().get()) % 128, 0);
    }
}

struct job : ps::intrusive_item<ps::atomic_count> {
    long sum = 0;
};

template <class Job> static void share_between_threads() {
    using reference = ps::ref<Job, ps::atomic_count>;
    std::vector<std::thread> threads;
    {
        ps::intrusive_pool<Job, ps::per_use, ps::atomic_count> pool;
        for (int round = 0; round < 20; round++) {
            std::vector<reference> jobs;
            for (int i = 0; i < 50; i++) {
                jobs.push_back(pool.allocate());
            }
            for (int i = 0; i < 2; i++) {
                threads.emplace_back([jobs] {
                    for (int j = 0; j < 100; j++) {
                        reference copy = jobs[static_cast<std::size_t>(j) % jobs.size()];
                        reference moved = std::move(copy);
                    }
                });
            }
        }
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

TEST(atomic_references_may_be_dropped_anywhere_and_after_the_pool) {
    share_between_threads<job>();
    share_between_threads<node>();
}

TEST(boost_intrusive_ptr_works_on_the_same_objects) {
#if HAS_BOOST
    ps::intrusive_pool<square> pool;
    boost::intrusive_ptr<square> pointer(pool.allocate().detach(), false);
    boost::intrusive_ptr<shape> base = pointer;
    ps::ref<shape> reference(base.get());
    CHECK_EQ(reference.use_count(), 3);
    pointer.reset();
    base.reset();
    CHECK_EQ(reference.use_count(), 1);
    reference.reset();
    check_empty(pool);
#endif
    ps::intrusive_pool<square> own;
    square *object = own.allocate().detach();
    intrusive_ptr_add_ref(object);
    CHECK_EQ(object->use_count(), 2);
    intrusive_ptr_release(object);
    intrusive_ptr_release(object);
    check_empty(own);
}

DEBUG_ALL(checked_pools_behave_the_same, "check")
DEBUG_ALL(with_malloc_they_behave_the_same, "malloc")

static_assert(sizeof(ps::ref<node>) == sizeof(void *), "a reference is one pointer");
static_assert(std::is_nothrow_move_constructible_v<ps::ref<node>>, "moves cannot fail");
static_assert(std::is_nothrow_move_constructible_v<ps::intrusive_pool<node>>, "moves cannot fail");
static_assert(!std::is_copy_constructible_v<ps::intrusive_pool<node>>, "pools are not copied");

UNIT_MAIN
