// SPDX-License-Identifier: MIT
// stack.hpp: frames end by return and by exception, moves leave blocks where they are, exhaustion
// throws, and containers of the standard library live in frames.
#include "tests/pools/modes.h"
#include "tests/pools/throws.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <poolshim/stack.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace {

int failures;

void check(bool is_true, const char *text, int line) {
    if (!is_true) {
        std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, line, text);
        failures++;
    }
}
#define CHECK(condition) check((condition), #condition, __LINE__)

std::size_t used_bytes_of_thread() {
    ps::stack_stats stats;
    ps_stack_stats(ps_t(), &stats);
    return stats.used_bytes;
}

void throw_from(int depth) {
    ps::scope scope;
    PS_SCOPE;
    std::memset(scope.allocate(50000), depth, 50000);
    if (depth == 0) {
        throw std::runtime_error("out");
    }
    throw_from(depth - 1);
}

void exceptions_close_frames() {
    ps::scope outer;
    const char *kept = outer.strdup("kept");
    for (int depth = 0; depth < 20; depth++) {
        bool is_caught = false;
        try {
            ps::scope inner;
            throw_from(depth);
        } catch (const std::runtime_error &) {
            is_caught = true;
        }
        CHECK(is_caught && outer.is_innermost());
    }
    CHECK(std::strcmp(kept, "kept") == 0);
}

struct Throws {
    explicit Throws(bool is_throwing) {
        if (is_throwing) {
            throw std::runtime_error("constructor");
        }
    }
    long value = 3;
};

void objects_and_arrays() {
    NEEDS_CHUNKS();
    ps::scope scope;
    CHECK(scope.make<Throws>(false)->value == 3);
    CHECK(throws<std::runtime_error>([&] { scope.make<Throws>(true); }));
    double *numbers = scope.make_array<double>(100);
    std::fill_n(numbers, 100, 1.0);
    CHECK(scope.make_array<int>(0) != nullptr);
    struct alignas(64) Line {
        char bytes[64];
    };
    CHECK(reinterpret_cast<std::uintptr_t>(scope.make<Line>()) % 64 == 0);
    for (std::size_t count : {SIZE_MAX, SIZE_MAX / 8 + 1, SIZE_MAX / 2}) {
        CHECK(throws<std::bad_alloc>([&] { scope.make_array<double>(count); }));
    }
    CHECK(scope.try_allocate(SIZE_MAX) == nullptr);
    char *block = static_cast<char *>(scope.allocate(10, 1));
    CHECK(scope.reallocate(block, 10, 100, 1) == block);
    scope.deallocate(block, 100, 1);
    CHECK(scope.allocate(1, 1) == block && scope.owns(block));
}

void stacks_of_ones_own() {
    NEEDS_CHUNKS();
    static_assert(std::is_nothrow_move_constructible_v<ps::stack>);
    static_assert(std::is_nothrow_move_assignable_v<ps::stack>);
    static_assert(!std::is_copy_constructible_v<ps::stack>);
    static_assert(!std::is_move_constructible_v<ps::scope>);
    static_assert(std::is_empty_v<ps::t_stack>);
    ps::stack_options options = {};
    options.chunks.name = "mine";
    ps::stack first(options);
    char *text = first.strdup("text");
    ps::stack second(std::move(first));
    CHECK(second.owns(text) && std::strcmp(text, "text") == 0);
    first = ps::stack();
    first = std::move(second);
    CHECK(first.owns(text) && std::strcmp(first.name(), "mine") == 0);
    ps::stack_mark mark = first.mark();
    std::memset(first.allocate(1000000), 1, 1000000);
    first.rewind(mark);
    CHECK(first.trim_to(0) > 0);
    CHECK(first.stats().chunk_count == 1);
    {
        ps::scope scope(first);
        ps::scope inner(first);
        CHECK(!scope.is_innermost() && inner.is_innermost());
        CHECK(inner.make<int>(5) != nullptr);
    }
    CHECK(first.stats().frame_count == 0);
    first.reset();
    CHECK(first.stats().used_bytes == 0);
    first.check();
}

// A standard allocator in a few lines; adapters.hpp has the complete one.
template <class T> struct InFrame {
    using value_type = T;
    InFrame() = default;
    template <class U> InFrame(const InFrame<U> &) {}
    T *allocate(std::size_t count) {
        return static_cast<T *>(ps::t_stack().allocate(count * sizeof(T), alignof(T)));
    }
    void deallocate(T *array, std::size_t count) {
        ps::t_stack().deallocate(array, count * sizeof(T), alignof(T));
    }
    bool operator==(const InFrame &) const { return true; }
    bool operator!=(const InFrame &) const { return false; }
};

void containers_live_in_frames() {
    ps::scope scope;
    std::vector<int, InFrame<int>> numbers;
    std::basic_string<char, std::char_traits<char>, InFrame<char>> text;
    for (int i = 0; i < 10000; i++) {
        numbers.push_back(i);
        text += 'x';
    }
    CHECK(numbers[9999] == 9999 && text.size() == 10000);
    CHECK(ps::t_stack().owns(numbers.data()) && ps::t_stack() == ps::t_stack());
}

void *refuse(ps_source *, std::size_t, std::size_t) { return nullptr; }
void never(ps_source *, void *, std::size_t) {}

void a_source_that_refuses_throws() {
    ps_source source = {refuse, never};
    ps::stack_options options = {};
    options.chunks.source = &source;
    CHECK(throws<std::bad_alloc>([&] { ps::stack stack(options); }));
}

struct Refused {};

int throw_refused(void *, std::size_t) { throw Refused(); }

void the_oom_handler_may_throw() {
    NEEDS_CHUNKS();
    alignas(16) static char room[4096];
    ps_source_buffer buffer;
    ps_source_buffer_init(&buffer, room, sizeof room);
    ps::stack_options options = {};
    options.chunks.source = &buffer.source;
    options.chunks.first_bytes = 4096;
    options.chunks.oom = throw_refused;
    ps::stack stack(options);
    ps::scope scope(stack);
    char *kept = scope.strdup("kept");
    for (int i = 0; i < 3; i++) {
        CHECK(throws<Refused>([&] { CHECK(scope.allocate(100000) == nullptr); }));
    }
    CHECK(std::strcmp(kept, "kept") == 0 && scope.allocate(8) != nullptr);
}

static void marks_are_ordered() {
    ps::stack stack;
    ps::stack_mark first = stack.mark();
    stack.allocate(100);
    ps::stack_mark second = stack.mark();
    CHECK(stack.compare(first, second) == -1);
    CHECK(stack.compare(second, first) == 1);
    CHECK(stack.compare(first, first) == 0);
    stack.set_growth(1 << 20, 1 << 20);
    stack.set_retain(1 << 20);
    std::size_t left = stack.capacity_left();
    stack.allocate(16, 8);
    CHECK(left == 0 || stack.capacity_left() == left - 16 - canary_bytes());
}

} // namespace

int main() {
    exceptions_close_frames();
    objects_and_arrays();
    stacks_of_ones_own();
    containers_live_in_frames();
    a_source_that_refuses_throws();
    the_oom_handler_may_throw();
    CHECK(used_bytes_of_thread() == 0);
    marks_are_ordered();
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
