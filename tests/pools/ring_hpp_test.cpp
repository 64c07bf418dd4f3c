// SPDX-License-Identifier: MIT
// ps::ring, ps::ring_frame and ps::thread_ring: ownership, exceptions, other threads, containers on
// the adapters.
#include "tests/unit/unit.h"

#include "tests/pools/modes.h"
#include "tests/pools/throws.hpp"

#include <poolshim/adapters.hpp>
#include <poolshim/ring.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

static_assert(!std::is_copy_constructible_v<ps::ring> && !std::is_copy_assignable_v<ps::ring>);
static_assert(std::is_nothrow_move_constructible_v<ps::ring>);
static_assert(std::is_nothrow_move_assignable_v<ps::ring>);
static_assert(!std::is_copy_constructible_v<ps::ring_frame>);
static_assert(std::is_nothrow_move_constructible_v<ps::ring_frame>);
static_assert(std::is_nothrow_move_assignable_v<ps::ring_frame>);
static_assert(std::is_empty_v<ps::thread_ring>);
static_assert(sizeof(ps::ring) == sizeof(void *));

struct point {
    int x;
    int y;
};

TEST(a_frame_is_released_at_the_end_of_its_owner) {
    ps::ring ring;
    {
        ps::ring_frame frame = ring.begin();
        CHECK(frame.is_open());
        auto *made = ring.make<point>(point{1, 2});
        CHECK_EQ(made->x + made->y, 3);
        frame.seal();
        CHECK(!frame.is_open() && frame);
        CHECK_EQ(ring.stats().frame_count, 1);
        ps::ring_frame other = std::move(frame);
        CHECK(!frame);
        frame = std::move(other);
        CHECK(frame && !other);
    }
    CHECK_EQ(ring.stats().frame_count, 0);
}

TEST(an_exception_drops_the_open_frame) {
    ps::ring ring;
    CHECK(throws<std::runtime_error>([&] {
        ps::ring_frame frame = ring.begin();
        CHECK(ring.allocate(100) != nullptr);
        throw std::runtime_error("half way");
    }));
    CHECK_EQ(ring.stats().frame_count, 0);
    CHECK(ring.begin());
}

TEST(a_frame_may_be_detached_and_taken_over) {
    ps::ring ring;
    ps::ring_frame frame = ring.begin();
    ps_ring_frame *raw = frame.detach();
    CHECK(!frame);
    CHECK_EQ(ring.stats().frame_count, 1);
    frame = ps::ring_frame(raw);
    frame.reset();
    frame.reset();
    CHECK_EQ(ring.stats().frame_count, 0);
}

TEST(a_frame_is_rewound_to_its_checkpoint) {
    ps::ring ring;
    ps::ring_frame frame = ring.begin();
    auto *kept = ring.make<int>(7);
    auto checkpoint = frame.checkpoint();
    CHECK(!frame.is_open());
    for (int i = 0; i < 100; i++) {
        ps::ring_frame attempt = ring.begin();
        CHECK(ring.allocate(3000) != nullptr);
        attempt.detach();
    }
    CHECK_EQ(ring.stats().frame_count, 101);
    frame.rewind(checkpoint);
    CHECK(frame.is_open());
    CHECK_EQ(ring.stats().frame_count, 1);
    CHECK_EQ(*kept + *ring.make<int>(1), 8);
}

TEST(frames_outlive_their_ring_and_end_in_other_threads) {
    std::vector<ps::ring_frame> frames;
    std::vector<int *> numbers;
    {
        ps::ring first;
        ps::ring ring(std::move(first));
        first = ps::ring();
        first = std::move(ring);
        for (int i = 0; i < 1000; i++) {
            frames.push_back(first.begin());
            numbers.push_back(first.make<int>(i));
            CHECK(first.allocate(500) != nullptr);
            frames.back().seal();
        }
    }
    std::thread thread([&frames, &numbers] {
        for (int i = 0; i < 1000; i += 2) {
            CHECK_EQ(*numbers[static_cast<std::size_t>(i)], i);
            frames[static_cast<std::size_t>(i)].reset();
        }
    });
    for (int i = 1; i < 1000; i += 2) {
        CHECK_EQ(*numbers[static_cast<std::size_t>(i)], i);
        frames[static_cast<std::size_t>(i)].reset();
    }
    thread.join();
}

TEST(memory_that_is_out_is_bad_alloc) {
    NEEDS_CHUNKS();
    alignas(64) static char room[8192];
    ps_source_buffer buffer;
    ps_source_buffer_init(&buffer, room, sizeof room);
    ps_ring_options options = {};
    options.chunks.source = &buffer.source;
    options.chunks.first_bytes = 4096;
    ps::ring ring(&options);
    ps::ring_frame frame = ring.begin();
    for (std::size_t bytes : {std::size_t(100000), SIZE_MAX, SIZE_MAX / 2}) {
        CHECK(throws<std::bad_alloc>([&] { ring.allocate(bytes); }));
    }
    CHECK(throws<std::bad_alloc>([&] {
        ps::ring second(&options);
        ps::ring third(&options);
    }));
}

TEST(containers_work_on_the_adapters) {
    ps::ring ring;
    ps::ring_frame frame = ring.begin();
    ps::resource<ps::ring> resource(ring);
    std::pmr::vector<std::pmr::string> words(&resource);
    for (int i = 0; i < 1000; i++) {
        words.emplace_back(std::to_string(i) + " and some text that is longer");
    }
    CHECK_EQ(std::stoi(std::string(words[999])), 999);
    std::vector<int, ps::allocator<int, ps::ring>> numbers{ps::allocator<int, ps::ring>(ring)};
    numbers.assign(1000, 7);
    CHECK_EQ(numbers[999], 7);
}

TEST(the_ring_of_a_thread_needs_no_object) {
    ps::ring_frame frame;
    std::size_t length = 0;
    const char *text = nullptr;
    std::thread thread([&] {
        ps::thread_ring ring;
        frame = ring.begin();
        ps::resource<ps::thread_ring> resource;
        auto *made = static_cast<char *>(resource.allocate(1000, 1));
        memset(made, 'x', 999);
        made[999] = '\0';
        text = made;
        frame.seal();
    });
    thread.join();
    length = strlen(text);
    CHECK_EQ(length, 999);
    frame.reset();
}

UNIT_MAIN
