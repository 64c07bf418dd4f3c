// SPDX-License-Identifier: MIT
// Adapters: containers of std over a pool that verifies every call, and over the library's pools;
// traits of allocators, deleters, compositions, slices by type.
#include "tests/unit/unit.h"

#include "tests/pools/modes.h"
#include "tests/pools/throws.hpp"

#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <poolshim/adapters.hpp>
#include <poolshim/frames.hpp>
#include <poolshim/pool.hpp>
#include <poolshim/region.hpp>
#include <poolshim/slice.hpp>
#include <poolshim/stack.hpp>
#include <poolshim/tlsf.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

// Verifies that every block comes back with its size and alignment; refuses beyond a limit.
class strict_pool {
  public:
    explicit strict_pool(std::size_t limit = ~std::size_t(0)) : limit_(limit) {}
    strict_pool(const strict_pool &) = delete;
    strict_pool &operator=(const strict_pool &) = delete;
    ~strict_pool() { CHECK(blocks_.empty()); }

    void *allocate(std::size_t bytes, std::size_t align) {
        if (blocks_.size() >= limit_) {
            throw std::bad_alloc();
        }
        void *block = ::operator new(bytes, std::align_val_t(align));
        blocks_[block] = {bytes, align};
        return block;
    }
    void deallocate(void *block, std::size_t bytes, std::size_t align) noexcept {
        auto found = blocks_.find(block);
        REQUIRE(found != blocks_.end());
        CHECK_EQ(found->second.first, bytes);
        CHECK_EQ(found->second.second, align);
        blocks_.erase(found);
        ::operator delete(block, std::align_val_t(align));
    }
    bool owns(const void *block) const { return blocks_.count(const_cast<void *>(block)) != 0; }
    std::size_t live() const { return blocks_.size(); }

  private:
    std::map<void *, std::pair<std::size_t, std::size_t>> blocks_;
    std::size_t limit_;
};

template <class Map> static void move_about(Map &map) {
    auto moved = std::move(map);
    auto copy = moved;
    CHECK(copy == moved && copy.get_allocator() == moved.get_allocator());
    copy.swap(moved);
}

template <class Pool> static void use_containers(Pool &pool) {
    std::vector<int, ps::allocator<int, Pool>> numbers{ps::allocator<int, Pool>(pool)};
    std::list<std::string, ps::allocator<std::string, Pool>> names{
        ps::allocator<std::string, Pool>(pool)};
    using pair = std::pair<const int, std::string>;
    std::map<int, std::string, std::less<int>, ps::allocator<pair, Pool>> map{
        ps::allocator<pair, Pool>(pool)};
    std::unordered_map<int, std::string, std::hash<int>, std::equal_to<int>,
                       ps::allocator<pair, Pool>>
        table{ps::allocator<pair, Pool>(pool)};
    std::deque<long, ps::allocator<long, Pool>> deque{ps::allocator<long, Pool>(pool)};
    using text = std::basic_string<char, std::char_traits<char>, ps::allocator<char, Pool>>;
    text line{ps::allocator<char, Pool>(pool)};
    for (int i = 0; i < 1000; i++) {
        numbers.push_back(i);
        names.push_back(std::to_string(i) + " is longer than the small buffer");
        map[i % 300] = std::to_string(i);
        table[i * 7] = std::to_string(i);
        deque.push_back(i);
        line += "some text ";
        if (i % 3 == 0) {
            map.erase(i % 77);
            table.erase(i % 101);
            names.pop_front();
            deque.pop_front();
        }
    }
    CHECK_EQ(numbers[999], 999);
    CHECK_EQ(table.count(6993), 1);
    CHECK(names.back() == "999 is longer than the small buffer");
    CHECK_EQ(deque.back(), 999);
    CHECK_EQ(line.size(), 10000);
    move_about(map);
}

template <class Pool> static void use_pmr(Pool &pool) {
    ps::resource<Pool> resource(pool);
    std::pmr::vector<std::pmr::string> words(&resource);
    std::pmr::unordered_map<int, std::pmr::string> table(&resource);
    std::pmr::map<int, std::pmr::vector<int>> map(&resource);
    for (int i = 0; i < 500; i++) {
        words.emplace_back("a word that is longer than the small buffer");
        table[i] = "a word that is longer than the small buffer";
        map[i % 50].push_back(i);
    }
    CHECK(words.back().get_allocator().resource() == &resource);
    CHECK_EQ(map[49].size(), 10);
    ps::resource<Pool> same(pool);
    CHECK(resource == same);
    CHECK(resource != *std::pmr::new_delete_resource());
    struct alignas(256) wide {
        char bytes[256];
    };
    std::pmr::list<wide> wides(&resource);
    for (int i = 0; i < 20; i++) {
        wides.emplace_back();
        CHECK_EQ(reinterpret_cast<uintptr_t>(&wides.back()) % 256, 0);
    }
}

TEST(containers_over_a_pool_that_verifies_every_call) {
    strict_pool pool;
    use_containers(pool);
    use_pmr(pool);
    CHECK_EQ(pool.live(), 0);
    strict_pool other;
    ps::resource<strict_pool> a(pool);
    ps::resource<strict_pool> b(other);
    CHECK(a != b);
}

TEST(containers_over_slices) {
    ps::slices pool;
    use_containers(pool);
    use_pmr(pool);
    std::vector<int, ps::allocator<int, ps::slices>> by_default(100, 7);
    std::map<int, int, std::less<>, ps::allocator<std::pair<const int, int>, ps::slices>> map;
    map[by_default[3]] = 1;
    ps::resource<ps::slices> resource;
    std::pmr::vector<int> numbers(1000, 3, &resource);
    CHECK_EQ(numbers[999], 3);
}

TEST(containers_over_tlsf_and_regions) {
    ps::tlsf tlsf;
    use_containers(tlsf);
    use_pmr(tlsf);
    ps::region region;
    use_containers(region);
    use_pmr(region);
    ps::region another;
    std::vector<int, ps::allocator<int, ps::region>> in_first(
        10, 1, ps::allocator<int, ps::region>(region));
    std::vector<int, ps::allocator<int, ps::region>> in_second(
        20, 2, ps::allocator<int, ps::region>(another));
    in_first = in_second; // a copy retains its pool
    CHECK(in_first.get_allocator() != in_second.get_allocator());
    const int *data = in_second.data();
    in_first = std::move(in_second); // a move takes the other's
    CHECK_PTR_EQ(in_first.data(), data);
    CHECK(in_first.get_allocator() == (ps::allocator<char, ps::region>(another)));
}

template <class Pool> static void use_resource(Pool pool) {
    ps::resource<Pool> resource(pool);
    ps::resource<Pool> same(pool);
    CHECK(resource.is_equal(same));
    std::pmr::map<int, std::pmr::string> map(&resource);
    std::pmr::vector<std::pmr::string> lines(&resource);
    for (int i = 0; i < 1000; i++) {
        map.emplace(i, std::to_string(i) + " is longer than the small buffer");
        lines.emplace_back(map[i]);
    }
    map.erase(500);
    CHECK(map.size() == 999 && lines[999] == map[999] && map[7][0] == '7');
}

TEST(what_dies_as_a_whole_is_not_freed_before) {
    ps::region region;
    use_resource(ps::no_free(region));
    use_resource(ps::no_free(ps::region_ref(region)));
    CHECK(region.stats().used_bytes > 2000 * 40);
    ps::frames frames(2);
    use_resource(ps::no_free(frames));
    use_resource(ps::no_free(frames.next()));
    ps::stack stack;
    {
        ps::scope scope(stack);
        use_resource(ps::no_free(scope));
    }
    ps::t_stack thread;
    ps::scope of_thread;
    use_resource(ps::no_free(thread));
    strict_pool strict;
    ps::no_free over_strict(strict);
    void *block = over_strict.allocate(24, 8);
    over_strict.deallocate(block, 24, 8);
    CHECK(strict.live() == 1 && over_strict.owns(block));
    strict.deallocate(block, 24, 8);
}

TEST(two_regions_are_not_the_same_pool) {
    ps::region one;
    ps::region two;
    ps::no_free of_one(one);
    ps::no_free of_two(two);
    ps::resource<decltype(of_one)> first(of_one);
    ps::resource<decltype(of_two)> second(of_two);
    CHECK(!first.is_equal(second));
    ps::region moved = std::move(one); // the resource goes on with the region
    use_resource(of_one);
    CHECK(moved.stats().used_bytes > 2000 * 40);
}

TEST(blocks_that_are_not_freed_are_aligned_and_lie_side_by_side) {
    ps::region region;
    ps::no_free pool(region);
    char *first = static_cast<char *>(pool.allocate(3, 1));
    char *text = static_cast<char *>(pool.allocate(1, 1));
    auto *number = static_cast<std::uint64_t *>(pool.allocate(8, 8));
    *number = ~std::uint64_t(0);
    auto *page = static_cast<char *>(pool.allocate(64, 4096));
    CHECK(reinterpret_cast<std::uintptr_t>(number) % 8 == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(page) % 4096 == 0);
    std::memset(first, 1, 3);
    *text = 2;
    CHECK(first[2] == 1 && *number == ~std::uint64_t(0));
    CHECK(pool.owns(number) && !pool.owns(&pool));
    char *large = static_cast<char *>(pool.allocate(100000, 1));
    std::memset(large, 3, 100000);
    for (std::size_t bytes : {~std::size_t(0), ~std::size_t(0) - 6, ~std::size_t(0) / 2 + 1}) {
        (void)pool.allocate(1, 1); // what follows needs a gap
        CHECK(throws<std::bad_alloc>([&] { pool.allocate(bytes, 8); }));
    }
    void *after = region.allocate(100, 16);
    std::memset(after, 4, 100);
    region.deallocate(after, 100, 16);
    ps::region other; // one that is watched shows the inline path no room, and marks its blocks
    if (other.get()->at != other.get()->end) {
        CHECK(text == first + 3);
        CHECK(reinterpret_cast<char *>(number) == first + 8); // a first block is aligned to 16
    }
}

TEST(nodes_over_pools_of_one_size) {
    ps::node_pool pool(64);
    std::list<long, ps::allocator<long, ps::node_pool>> list{
        ps::allocator<long, ps::node_pool>(pool)};
    for (long i = 0; i < 5000; i++) {
        list.push_back(i);
        if (i % 3 == 0) {
            list.pop_front();
        }
    }
    CHECK_EQ(list.back(), 4999);
}

TEST(sizes_that_overflow_are_refused) {
    strict_pool pool;
    ps::allocator<long, strict_pool> memory(pool);
    CHECK(throws<std::bad_array_new_length>([&] { (void)memory.allocate(~std::size_t(0) / 4); }));
}

static int live_objects;
struct tracked {
    explicit tracked(int v = 0) : value(v) {
        if (v < 0 || (throw_at != 0 && live_objects + 1 == throw_at)) {
            throw std::runtime_error("constructor");
        }
        live_objects++;
    }
    ~tracked() { live_objects--; }
    int value;
    static inline int throw_at = 0;
};

TEST(unique_pointers_give_back_to_their_pool) {
    strict_pool pool;
    {
        ps::unique_ptr<tracked, strict_pool> one = ps::make_unique<tracked>(pool, 5);
        CHECK_EQ(one->value, 5);
        auto many = ps::make_unique<tracked[]>(pool, 10);
        CHECK_EQ(live_objects, 11);
        CHECK_EQ(pool.live(), 2);
        auto none = ps::make_unique<tracked[]>(pool, 0);
        auto moved = std::move(one);
        CHECK(!one && moved);
    }
    CHECK_EQ(live_objects, 0);
    CHECK_EQ(pool.live(), 0);
    for (int way = 0; way < 2; way++) {
        tracked::throw_at = way == 0 ? 0 : 6;
        CHECK(throws<std::runtime_error>([&] {
            way == 0 ? (void)ps::make_unique<tracked>(pool, -1)
                     : (void)ps::make_unique<tracked[]>(pool, 10);
        }));
        CHECK_EQ(live_objects, 0);
        CHECK_EQ(pool.live(), 0);
    }
    tracked::throw_at = 0;
    ps::slices slices;
    auto slice = ps::make_unique<tracked>(slices, 3);
    CHECK_EQ(sizeof slice, sizeof(void *));
}

TEST(slices_by_type) {
    struct alignas(64) wide {
        int value = 3;
    };
    tracked *object = ps::slice_new<tracked>(4);
    CHECK_EQ(object->value, 4);
    ps::slice_delete(object);
    ps::slice_delete(static_cast<tracked *>(nullptr));
    CHECK_EQ(live_objects, 0);
    ps::slice_ptr<const wide> pointer = ps::make_slice<const wide>();
    CHECK_EQ(reinterpret_cast<uintptr_t>(pointer.get()) % 64, 0);
    CHECK(throws<std::runtime_error>([&] { ps::slice_new<tracked>(-1); }));
    ps::slice_ptr<std::string> text;
    std::thread maker([&] { text = ps::make_slice<std::string>(1000, 'x'); });
    maker.join();
    CHECK_EQ(text->size(), 1000);
    text.reset();
}

TEST(fallback_serves_what_the_first_refuses) {
    NEEDS_CHUNKS();
    strict_pool first(5);
    strict_pool second;
    ps::fallback<strict_pool, strict_pool> both(first, second);
    std::vector<void *> blocks;
    for (std::size_t i = 1; i <= 12; i++) {
        blocks.push_back(both.allocate(i, 16));
    }
    CHECK_EQ(first.live(), 5);
    CHECK_EQ(second.live(), 7);
    CHECK(both.owns(blocks[0]) && both.owns(blocks[11]) && !both.owns(&blocks));
    for (std::size_t i = 12; i >= 1; i--) {
        both.deallocate(blocks[i - 1], i, 16);
    }
    use_containers(both);
    use_pmr(both);

    alignas(16) static char room[65536];
    ps::tlsf small(room, sizeof room);
    ps::slices large;
    ps::fallback<ps::tlsf, ps::slices> in_room_first(small, large);
    use_containers(in_room_first);
    void *in_room = in_room_first.allocate(1000);
    CHECK(static_cast<char *>(in_room) >= room && static_cast<char *>(in_room) < room + 65536);
    in_room_first.deallocate(in_room, 1000);
    strict_pool none(0);
    ps::fallback<strict_pool, strict_pool> nothing(none, none);
    CHECK(nothing.try_allocate(10) == nullptr);
}

TEST(segregator_parts_by_size) {
    strict_pool small;
    strict_pool large;
    ps::segregator<64, strict_pool, strict_pool> both(small, large);
    void *a = both.allocate(64);
    void *b = both.allocate(65);
    CHECK_EQ(small.live(), 1);
    CHECK_EQ(large.live(), 1);
    CHECK(both.owns(a) && both.owns(b));
    both.deallocate(a, 64);
    both.deallocate(b, 65);
    use_containers(both);
    strict_pool huge;
    ps::segregator<4096, decltype(both), strict_pool> three(both, huge);
    use_pmr(three);
}

using over_slices = ps::allocator<int, ps::slices>;
using over_strict = ps::allocator<int, strict_pool>;
using strict_traits = std::allocator_traits<over_strict>;
static_assert(std::is_same_v<strict_traits::rebind_alloc<long>, ps::allocator<long, strict_pool>>,
              "rebind");
static_assert(!strict_traits::is_always_equal::value, "with state");
static_assert(std::allocator_traits<over_slices>::is_always_equal::value, "without state");
static_assert(strict_traits::propagate_on_container_move_assignment::value, "moves take the pool");
static_assert(!std::is_default_constructible_v<over_strict>, "a pool with state is named");
static_assert(std::is_default_constructible_v<over_slices>, "slices need no object");
static_assert(sizeof(std::vector<int, over_slices>) == sizeof(std::vector<int>), "no room");
static_assert(std::is_nothrow_copy_constructible_v<over_strict>, "copies cannot fail");

UNIT_MAIN
