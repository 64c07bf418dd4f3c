// SPDX-License-Identifier: MIT
// The C++ face of regions: ownership, objects and their destructors, callbacks, make_root, frames,
// bad_alloc where C gives NULL.
#include "tests/pools/modes.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <poolshim/frames.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

int failures;

void check(bool is_good, const char *text, int line) {
    if (!is_good) {
        std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, line, text);
        failures++;
    }
}
#define CHECK(condition) check((condition), #condition, __LINE__)

template <class Exception, class Function> bool throws(Function function) {
    try {
        function();
    } catch (const Exception &) {
        return true;
    }
    return false;
}

std::string journal;

struct Noted {
    explicit Noted(const char *name) : name(name) {}
    Noted(const Noted &) = delete;
    ~Noted() { journal += name; }
    std::string name;
};

struct Thrower {
    Thrower() { throw std::runtime_error("no"); }
    ~Thrower() { journal += "never"; }
};

struct alignas(64) Wide {
    char bytes[64];
};

void objects_are_destroyed_newest_first() {
    journal.clear();
    volatile std::size_t all = SIZE_MAX; // the compiler must not see it coming
    {
        ps::region region;
        region.make<Noted>("a");
        region.make<Noted>("b");
        int *number = region.make<int>(7);
        CHECK(*number == 7);
        CHECK(region.owns(number));
        auto *wide = region.make<Wide>();
        CHECK(reinterpret_cast<std::uintptr_t>(wide) % 64 == 0);
        CHECK(throws<std::runtime_error>([&] { region.make<Thrower>(); }));
        auto *numbers = region.make_array<long>(100);
        CHECK(numbers[0] == 0 && numbers[99] == 0);
        auto *strings = region.make_array<std::string>(10);
        strings[9] = "a text that is too long to stand inside the string";
        CHECK(throws<std::bad_alloc>([&] { region.make_array<long>(all / 4); }));
    }
    CHECK(journal == "ba");
}

void regions_move() {
    journal.clear();
    ps::region region;
    region.make<Noted>("a");
    ps::region other(std::move(region));
    ps::region third;
    third.make<Noted>("b");
    third = std::move(other);
    CHECK(journal == "b");
    auto &alias = third;
    third = std::move(alias);
    CHECK(journal == "b");
    ps_region *released = third.release();
    CHECK(journal == "b");
    { ps::region taken = ps::region::take(released); }
    CHECK(journal == "ba");
}

void children_end_with_their_parent_or_are_detached() {
    journal.clear();
    ps::region kept = [] {
        ps::region parent;
        parent.make<Noted>("p");
        ps::region_ref child = parent.make_child();
        child.make<Noted>("c");
        ps::region_ref other = parent.make_child();
        other.make<Noted>("o");
        return ps::region::detach(other);
    }();
    CHECK(journal == "cp");
    kept.reset();
    CHECK(journal == "cpo");
    CHECK(kept.stats().used_bytes == 0);
}

void callbacks_run_and_can_be_cancelled() {
    int count = 0;
    {
        ps::region region;
        region.on_destroy([&count] { count += 1; });
        auto *second = region.on_destroy([&count] { count += 10; });
        auto *third = region.on_destroy([&count] { count += 100; });
        region.cancel(second);
        region.run_now(third);
        CHECK(count == 100);
    }
    CHECK(count == 101);
}

void texts_and_memory() {
    NEEDS_CHUNKS();
    char buffer[4096];
    ps::region region(buffer, sizeof buffer);
    std::string_view copy = region.copy("text");
    CHECK(copy == "text" && copy.data()[4] == '\0');
    CHECK(region.copy({}).empty());
    CHECK(std::string(region.printf("%d-%s", 1, "x")) == "1-x");
    CHECK(std::string(region.printf("plain")) == "plain");
    CHECK(region.stats().reserved_bytes == 0);
    void *block = region.allocate(100, 32);
    block = region.reallocate(block, 100, 200, 32);
    region.deallocate(block, 200, 32);
    void *large = region.allocate(5000000);
    CHECK(region.stats().large_count == 1);
    region.deallocate(large, 5000000, 16);
    CHECK(region.stats().large_count == 0);
    region.check();
    CHECK(throws<std::bad_alloc>([&] { region.deallocate(region.allocate(SIZE_MAX), 0, 1); }));
    CHECK(throws<std::bad_alloc>([&] { ps::region none(buffer, 10); }));
}

// An object that lives in the region that it owns.
struct Document {
    Document(ps::region_ref region, int size) : region(region), first(region.make<Noted>("first")) {
        words = static_cast<int *>(region.allocate(sizeof(int) * static_cast<std::size_t>(size)));
        words[size - 1] = size;
    }
    ~Document() { journal += "document(" + first->name + ")"; }
    ps::region_ref region;
    Noted *first;
    int *words;
};

void a_root_and_its_parts_share_one_block() {
    NEEDS_CHUNKS();
    journal.clear();
    {
        auto document = ps::make_root_with<Document>(sizeof(int) * 500, nullptr, 500);
        CHECK(document->words[499] == 500);
        document.region().make<Noted>("late");
        CHECK(document.region().stats().chunk_count == 1);
        CHECK(document.region().stats().large_count == 0);
        ps::root<Document> moved = std::move(document);
        CHECK(!document && moved);
        document = std::move(moved);
        CHECK(document.get() == &*document);
    }
    CHECK(journal == "latedocument(first)first");
    CHECK(throws<std::runtime_error>([] { ps::make_root<Thrower>(); }));
    auto wide = ps::make_root<Wide>();
    CHECK(reinterpret_cast<std::uintptr_t>(wide.get()) % 64 == 0);
    auto text = ps::make_root<std::string>("a text that is too long to stand inside the string");
    CHECK(text->size() == 50);
    CHECK(throws<std::bad_alloc>([] { ps::make_root_with<int>(SIZE_MAX, nullptr); }));
}

int throw_bad_alloc(void *, std::size_t) { throw std::runtime_error("out of memory"); }

// The oom handler may throw through the library; the region is as it was.
void the_oom_handler_may_throw() {
    NEEDS_CHUNKS();
    alignas(16) static char room[6000];
    ps_source_buffer source;
    ps_source_buffer_init(&source, room, sizeof room);
    ps_region_options options = {};
    options.chunks.source = &source.source;
    options.chunks.oom = throw_bad_alloc;
    ps::region region(&options);
    char *text = region.printf("kept");
    CHECK(throws<std::runtime_error>([&] { region.deallocate(region.allocate(10000), 0, 1); }));
    CHECK(std::string(text) == "kept");
    CHECK(region.allocate(10) != nullptr);
}

void frames_rotate() {
    journal.clear();
    ps::frames frames(2);
    frames.next().make<Noted>("1");
    frames.next().make<Noted>("2");
    CHECK(journal.empty());
    ps::frames other = std::move(frames);
    other.next();
    CHECK(journal == "1");
    void *block = other.allocate(10);
    CHECK(other.current().owns(block));
    other.deallocate(block, 10, 16);
    other.trim_to(0);
    other = ps::frames(1);
    CHECK(journal == "12");
    CHECK(throws<std::bad_alloc>([] { ps::frames none(0); }));
}

static void room_and_chunks_are_told() {
    NEEDS_CHUNKS();
    ps::region region;
    bool starts_chunk = true;
    region.allocate_reporting(region.capacity_left(), 1, starts_chunk);
    CHECK(!starts_chunk);
    region.set_growth(64 << 10);
    region.set_retain(1);
    region.allocate_reporting(1, 1, starts_chunk);
    CHECK(starts_chunk);
    CHECK(region.capacity_left() > 60 << 10);
}

void forgotten_objects_are_not_destroyed() {
    journal.clear();
    bool is_thrown;
    {
        ps::region region;
        CHECK(std::string(region.make_forgotten<ps::region_ref>(region)->copy("a")) == "a");
        region.make_forgotten<Thrower *>(nullptr);
        is_thrown = throws<std::runtime_error>([&] { region.make_forgotten<Thrower>(); });
        struct Ends {
            ~Ends() { journal += "ended"; }
        };
        region.make_forgotten<Ends>();
    }
    CHECK(is_thrown);
    CHECK(journal.empty());
}

// The room that a text does not need serves the next one.
void texts_are_written_in_place() {
    ps::region region;
    auto write = [](std::string_view text) {
        return [text](char *out) { return text.copy(out, text.size()); };
    };
    std::string_view first = region.write_text(1000, write("first"));
    std::size_t left = region.capacity_left();
    std::string_view second = region.write_text(6, write("second"));
    CHECK(first == "first" && second == "second");
    CHECK(region.write_text(0, write("")).empty());
    CHECK(region.write_text(100000, write("long")) == "long");
    auto too_long = [&] { region.write_text(SIZE_MAX, write("")); };
    CHECK(throws<std::bad_alloc>(too_long));
    if (!is_malloc_mode()) {
        CHECK(second.data() == first.data() + first.size() || has_canaries());
        CHECK(left > 2000);
    }
}

} // namespace

int main() {
    objects_are_destroyed_newest_first();
    regions_move();
    children_end_with_their_parent_or_are_detached();
    callbacks_run_and_can_be_cancelled();
    texts_and_memory();
    a_root_and_its_parts_share_one_block();
    the_oom_handler_may_throw();
    frames_rotate();
    room_and_chunks_are_told();
    forgotten_objects_are_not_destroyed();
    texts_are_written_in_place();
    return failures == 0 ? 0 : 1;
}
