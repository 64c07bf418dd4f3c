// SPDX-License-Identifier: MIT
// ps::fifo: ownership, objects, exceptions, containers on the adapters.
#include "tests/unit/unit.h"

#include "tests/pools/modes.h"
#include "tests/pools/throws.hpp"

#include <list>
#include <poolshim/adapters.hpp>
#include <poolshim/fifo.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

static_assert(!std::is_copy_constructible_v<ps::fifo> && !std::is_copy_assignable_v<ps::fifo>);
static_assert(std::is_nothrow_move_constructible_v<ps::fifo>);
static_assert(std::is_nothrow_move_assignable_v<ps::fifo>);
static_assert(sizeof(ps::fifo) == sizeof(void *));

static int alive;

struct alignas(64) counted {
    explicit counted(int value) : value_(value) {
        if (value < 0) {
            throw std::runtime_error("constructor");
        }
        alive++;
    }
    ~counted() { alive--; }
    int value_;
};

TEST(objects_are_made_and_destroyed) {
    ps::fifo fifo;
    auto *object = fifo.create<counted>(7);
    CHECK_EQ(object->value_, 7);
    CHECK_EQ(reinterpret_cast<uintptr_t>(object) % 64, 0);
    CHECK(fifo.owns(object));
    CHECK_EQ(alive, 1);
    CHECK(throws<std::runtime_error>([&] { fifo.create<counted>(-1); }));
    CHECK_EQ(fifo.stats().live_count, 1);
    fifo.check();
    fifo.destroy(object);
    fifo.destroy(static_cast<counted *>(nullptr));
    CHECK_EQ(alive, 0);
    CHECK_EQ(fifo.stats().live_count, 0);
    CHECK_EQ(fifo.trim_to(0), 0);
}

TEST(a_fifo_moves_with_its_blocks) {
    ps::fifo first;
    void *block = first.allocate(100);
    ps::fifo second(std::move(first));
    CHECK(second.owns(block));
    CHECK(first.get() == nullptr);
    first = std::move(second);
    CHECK(first.owns(block));
    ps::fifo third;
    CHECK(third.allocate(100) != nullptr);
    third = std::move(first);
    CHECK(third.owns(block));
    third.deallocate(block, 100, 16);
}

TEST(an_abandoned_fifo_ends_with_its_last_block) {
    ps::fifo empty;
    CHECK(empty.abandon() == nullptr);
    ps::fifo fifo;
    void *block = fifo.allocate(100);
    ps_fifo *left = fifo.abandon();
    CHECK(fifo.get() == nullptr);
    ps_fifo_free(left, block);
}

TEST(memory_that_is_out_is_bad_alloc) {
    NEEDS_CHUNKS();
    alignas(4096) static char room[8192];
    ps_source_buffer buffer;
    ps_source_buffer_init(&buffer, room, sizeof room);
    ps_fifo_options options = {};
    options.chunks.source = &buffer.source;
    options.chunks.max_bytes = 4096;
    ps::fifo fifo(&options);
    for (std::size_t bytes : {std::size_t(100000), SIZE_MAX, SIZE_MAX / 2}) {
        CHECK(throws<std::bad_alloc>([&] { fifo.allocate(bytes); }));
    }
    CHECK(throws<std::bad_alloc>([&] { fifo.allocate(1, 1 << 20); }));
    CHECK(throws<std::bad_alloc>([&] {
        ps::fifo second(&options);
        ps::fifo third(&options);
    }));
}

struct gone {};

static int throw_out(void *, std::size_t) { throw gone(); }

TEST(an_oom_handler_may_throw_through_allocate) {
    NEEDS_CHUNKS();
    alignas(4096) static char room[8192];
    ps_source_buffer buffer;
    ps_source_buffer_init(&buffer, room, sizeof room);
    ps_fifo_options options = {};
    options.chunks = {&buffer.source, 0, 4096, throw_out, nullptr, nullptr};
    ps::fifo fifo(&options);
    void *block = fifo.allocate(10);
    for (int i = 0; i < 3; i++) {
        CHECK(throws<gone>([&] { fifo.allocate(100000); }));
    }
    CHECK_EQ(fifo.stats().live_count, 1);
    fifo.deallocate(block);
}

TEST(containers_work_on_the_adapters) {
    ps::fifo fifo;
    {
        ps::resource<ps::fifo> resource(fifo);
        std::pmr::list<std::pmr::string> queue(&resource);
        std::vector<int, ps::allocator<int, ps::fifo>> numbers{ps::allocator<int, ps::fifo>(fifo)};
        for (int i = 0; i < 20000; i++) {
            queue.emplace_back(std::to_string(i) + " and some text that is longer");
            numbers.push_back(i);
            if (queue.size() > 50) {
                queue.pop_front();
            }
        }
        CHECK_EQ(std::stoi(std::string(queue.front())), 19950);
        CHECK_EQ(numbers[12345], 12345);
        CHECK_EQ(fifo.stats().live_count, 101);
    }
    CHECK_EQ(fifo.stats().live_count, 0);
}

UNIT_MAIN
