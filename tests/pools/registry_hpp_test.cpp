// SPDX-License-Identifier: MIT
// The registry in C++: every class is listed, moves preserve the listing, and objects that a
// ps::object_pool destroys are no leak.
#include <poolshim/bounded.hpp>
#include <poolshim/fifo.hpp>
#include <poolshim/pool.hpp>
#include <poolshim/pools.hpp>
#include <poolshim/region.hpp>
#include <poolshim/registry.hpp>
#include <poolshim/ring.hpp>
#include <poolshim/slots.hpp>
#include <poolshim/stack.hpp>

#include "tests/pools/throws.hpp"
#include "tests/unit/fresh.h"

#include <set>
#include <string>

namespace {

std::multiset<std::string> families() {
    std::multiset<std::string> found;
    ps::pools_each([&](const ps::pool_info &info) { found.insert(info.family); });
    return found;
}

using words = std::multiset<std::string>;

FRESH_TEST(every_class_is_listed) {
    {
        ps::region region;
        ps::stack stack;
        ps::fifo fifo;
        ps::ring ring;
        ps::node_pool nodes(24);
        ps::pool<int> ints;
        ps::object_pool<std::string> texts;
        ps::size_pools sizes;
        ps::slots<int> handles;
        ps::enlist(region);
        ps::enlist(stack);
        ps::enlist(fifo);
        ps::enlist(ring);
        ps::enlist(nodes);
        ps::enlist(ints);
        ps::enlist(texts);
        ps::enlist(sizes);
        ps::enlist(handles);
        CHECK((families() ==
               words{"region", "stack", "fifo", "ring", "pool", "pool", "pool", "pools", "slots"}));
        ps::pool<int> moved(std::move(ints));
        ps::slots<int> moved_handles(std::move(handles));
        ps::size_pools moved_sizes(std::move(sizes));
        CHECK_EQ(families().size(), 9u);
    }
    CHECK(families().empty());
}

FRESH_TEST(what_a_visit_throws_passes_through) {
    ps::region region;
    ps::enlist(region);
    CHECK(throws<int>([&] { ps::pools_each([](const ps::pool_info &) { throw 1; }); }));
    CHECK_EQ(families().size(), 1u); // the lock is free
}

FRESH_TEST(objects_that_their_pool_destroys_are_no_leak) {
    struct unit_child child = unit_child_start();
    if (child.pid == 0) {
        setenv("PS_DEBUG", "leaks", 1);
        {
            ps::object_pool<std::string> texts;
            texts.create("destroyed by its pool");
            ps::object_pool<std::string> others;
            others.create("destroyed by the assignment");
            others = std::move(texts);
            ps::pool<int> ints;
            ints.create(1);
        }
        exit(0);
    }
    char output[1024] = "";
    std::size_t length = 0;
    for (ssize_t got; (got = read(child.stderr_fd, output + length, 1023 - length)) > 0;) {
        length += static_cast<std::size_t>(got);
    }
    close(child.stderr_fd);
    waitpid(child.pid, nullptr, 0);
    CHECK_STR_EQ(output, "poolshim: leak: pool 'pool' destroyed with 1 live block of 4 bytes\n");
}

} // namespace

UNIT_MAIN
