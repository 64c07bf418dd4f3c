/* SPDX-License-Identifier: MIT */
/*
 * ps::shared: what the wrapper adds to shared.h.
 */
#include <poolshim/shared.hpp>

#include "tests/pools/new_shared.h"
#include "tests/pools/throws.hpp"

#include <cerrno>

struct entry {
    ps::offset_ptr<entry> next;
    int value = 0;
};

struct list {
    explicit list(int wanted) : number(wanted) { made++; }
    ~list() { made--; }
    ps::offset_ptr<entry> first;
    int number;
    static int made;
};
int list::made;

TEST(objects_refer_to_each_other_at_any_address) {
    int fd = shared_file();
    ps::shared writer(fd, PS_SHARED_CREATE, &shared_options);
    list *entries = writer.find_or_create<list>("entries", 7);
    for (int i = 0; i < 200; i++) {
        entry *fresh = writer.create<entry>();
        fresh->value = i;
        fresh->next = entries->first;
        entries->first = fresh;
    }
    ps::shared reader(fd, PS_SHARED_READ);
    const list *seen = reader.root<list>("entries");
    CHECK(seen != entries && reader.owns(seen));
    int expected = 199;
    for (const entry *at = seen->first.get(); at != nullptr; at = at->next.get()) {
        CHECK_EQ(at->value, expected--);
    }
    CHECK_EQ(expected, -1);
    CHECK_EQ(writer.stats().used_count, 201);
    CHECK(writer.check() == nullptr);
    CHECK_EQ(writer.at<list>(reader.offset(seen))->number, 7);
    close(fd);
}

TEST(a_name_is_created_once) {
    int fd = shared_file();
    ps::shared one(fd, PS_SHARED_CREATE, &shared_options);
    ps::shared other(fd);
    list::made = 0;
    list *first = one.find_or_create<list>("list", 1);
    CHECK_EQ(other.find_or_create<list>("list", 2)->number, 1);
    CHECK_EQ(list::made, 1);
    one.set_root("list", nullptr);
    one.destroy(first);
    one.destroy<list>(nullptr);
    CHECK_EQ(list::made, 0);
    CHECK(one.root<list>("list") == nullptr);
    bool is_thrown = false;
    try {
        (void)one.find_or_create<list>("", 3);
    } catch (const ps::shared_error &error) {
        is_thrown = error.error() == EINVAL;
    }
    CHECK(is_thrown);
    CHECK_EQ(list::made, 0);
    CHECK_EQ(one.stats().used_count, 0);
    ps::shared moved(std::move(one));
    CHECK(moved.get() != nullptr && one.get() == nullptr);
    close(fd);
}

struct thrower {
    thrower() { throw 7; }
};

TEST(failures_throw_and_leave_nothing) {
    bool is_thrown = false;
    try {
        ps::shared none(std::string("no such file"));
    } catch (const ps::shared_error &error) {
        is_thrown = error.status() == PS_SHARED_SYSTEM && error.error() == ENOENT;
    }
    CHECK(is_thrown);
    int fd = shared_file();
    ps::shared heap(fd, PS_SHARED_CREATE, &shared_options);
    try {
        (void)heap.create<thrower>();
        CHECK(false);
    } catch (int value) {
        CHECK_EQ(value, 7);
    }
    CHECK(throws<std::bad_alloc>([&] { (void)heap.allocate(std::size_t(1) << 40); }));
    CHECK_EQ(reinterpret_cast<std::uintptr_t>(heap.allocate(10, 256)) % 256, 0);
    CHECK_EQ(heap.stats().used_count, 1);
    close(fd);
}

UNIT_MAIN
