/* SPDX-License-Identifier: MIT */
/*
 * ps::arena and ps::offset_ptr: what the wrapper adds to arena.h.
 */
#include <poolshim/arena.hpp>

#include "tests/pools/throws.hpp"
#include "tests/unit/unit.h"

#include <algorithm>
#include <stdexcept>
#include <type_traits>

static const char *const path = "wrapper.arena";

struct entry {
    ps::offset_ptr<entry> next;
    ps::offset_ptr<const char> name;
    int value = 0;
};

static void remove_files() {
    unlink(path);
    unlink("wrapper.arena-journal");
}

TEST(objects_refer_to_each_other_at_any_address) {
    remove_files();
    ps::arena writer(path, PS_ARENA_CREATE);
    for (int i = 0; i < 200; i++) {
        entry *fresh = writer.create<entry>();
        char *name = static_cast<char *>(writer.allocate(20));
        snprintf(name, 20, "entry %d", i);
        fresh->name = name;
        fresh->value = i;
        fresh->next = writer.root<entry>();
        writer.set_root(fresh);
    }
    writer.commit();
    ps::arena reader(std::string(path), PS_ARENA_READ | PS_ARENA_VERIFY);
    CHECK(reader.root<entry>() != writer.root<entry>());
    CHECK_EQ(reader.sequence(), writer.sequence());
    int expected = 199;
    for (ps::offset_ptr<entry> at = reader.root<entry>(); at; at = at->next) {
        char name[20];
        snprintf(name, sizeof name, "entry %d", expected);
        CHECK_STR_EQ(at->name.get(), name);
        CHECK(reader.owns(at.get()));
        CHECK_EQ(at->value, expected--);
    }
    CHECK_EQ(expected, -1);
    CHECK(writer.check() == nullptr);
    CHECK_EQ(writer.stats().used_count, 400);
}

TEST(offset_pointers_are_pointers) {
    static_assert(sizeof(ps::offset_ptr<int>) == sizeof(void *));
    static_assert(std::is_convertible_v<ps::offset_ptr<int>, ps::offset_ptr<const int>>);
    static_assert(!std::is_convertible_v<ps::offset_ptr<const int>, ps::offset_ptr<int>>);
    static_assert(std::is_same_v<std::pointer_traits<ps::offset_ptr<int>>::rebind<char>,
                                 ps::offset_ptr<char>>);
    int numbers[10] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    ps::offset_ptr<int> first(numbers), last = first + 10;
    std::sort(first, last);
    CHECK_EQ(numbers[0], 0);
    CHECK_EQ(first[9], 9);
    CHECK_EQ(last - first, 10);
    CHECK(first < last && last > first && first <= first && first != last);
    CHECK_EQ(*first++, 0);
    CHECK_EQ(*first--, 1);
    CHECK_EQ(*++first, 1);
    ps::offset_ptr<const int> constant = first;
    CHECK(constant.get() == numbers + 1);
    ps::offset_ptr<int> none, zero = nullptr;
    CHECK(!none && none == zero && none.get() == nullptr);
    first = nullptr;
    CHECK(!first);
    CHECK(std::pointer_traits<ps::offset_ptr<int>>::pointer_to(numbers[3]).get() == numbers + 3);
    CHECK_EQ(std::hash<ps::offset_ptr<int>>()(last), std::hash<int *>()(numbers + 10));
    ps::offset_ptr<void> any = last;
    CHECK(any.get() == numbers + 10);
    ps::offset_ptr<ps::offset_ptr<int>> self;
    self = reinterpret_cast<ps::offset_ptr<int> *>(&self);
    CHECK(self && static_cast<void *>(self.get()) == &self);
    alignas(ps::offset_ptr<int>) char zeros[sizeof(ps::offset_ptr<int>)] = {};
    CHECK(!*reinterpret_cast<ps::offset_ptr<int> *>(zeros));
}

TEST(failures_throw) {
    remove_files();
    ps_arena_status status = PS_ARENA_OK;
    int error = 0;
    try {
        ps::arena none(path);
    } catch (const ps::arena_error &failure) {
        status = failure.status();
        error = failure.error();
    }
    CHECK_EQ(status, PS_ARENA_SYSTEM);
    CHECK_EQ(error, ENOENT);
    ps::arena first(path, PS_ARENA_CREATE);
    try {
        ps::arena second(path);
    } catch (const ps::arena_error &failure) {
        status = failure.status();
    }
    CHECK_EQ(status, PS_ARENA_LOCKED);
    CHECK(throws<std::bad_alloc>([&] { (void)first.allocate(static_cast<std::size_t>(1) << 60); }));
    struct thrower {
        thrower() { throw std::runtime_error("no"); }
    };
    try {
        first.create<thrower>();
    } catch (const std::runtime_error &) {
        CHECK_EQ(first.stats().used_count, 0);
    }
}

TEST(arenas_move_and_roll_back) {
    static_assert(std::is_nothrow_move_constructible_v<ps::arena>);
    static_assert(!std::is_copy_constructible_v<ps::arena>);
    remove_files();
    ps::arena first(path, PS_ARENA_CREATE);
    entry *kept = first.create<entry>();
    first.set_root(kept);
    first.commit();
    ps::arena second(std::move(first));
    second.destroy(kept);
    second.set_root(nullptr);
    CHECK(second.extend(1 << 20));
    second.rollback();
    CHECK(second.root<entry>() == kept);
    CHECK(second.at<entry>(second.offset(kept)) == kept);
    CHECK_CMP(second.usable_size(kept), >=, sizeof *kept);
    second.refresh();
    first = std::move(second);
    first.destroy(kept);
    CHECK_EQ(first.stats().used_count, 0);
}

UNIT_MAIN
