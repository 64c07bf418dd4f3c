// SPDX-License-Identifier: MIT
// The sources of source.hpp: they work as options of C++ pools, end with their scope, and what C
// refuses is thrown.
#include <poolshim/pool.hpp>
#include <poolshim/region.hpp>
#include <poolshim/source.hpp>

#include "tests/pools/modes.h"
#include "tests/unit/unit.h"

#include <cerrno>
#include <cstdint>

namespace {

TEST(a_pool_in_a_reserved_range) {
    NEEDS_CHUNKS();
    ps::reserved_source memory(std::size_t(1) << 30);
    {
        ps::pool_options options{};
        options.chunks.source = memory;
        ps::pool<int> ints(options);
        int *first = ints.create(1);
        CHECK(memory.owns(first) && !memory.owns(&first));
        CHECK_CMP(memory.used_bytes(), >, 0);
        CHECK(reinterpret_cast<char *>(first) >= memory.base());
        ints.destroy(first);
    }
    CHECK_EQ(memory.used_bytes(), 0);
}

TEST(what_c_refuses_is_thrown) {
    int caught = 0;
    try {
        ps::reserved_source none(0);
    } catch (const std::system_error &error) {
        caught = error.code().value();
    }
    CHECK_EQ(caught, EINVAL);
    bool is_out = false;
    try {
        ps::reserved_source all(PTRDIFF_MAX);
    } catch (const std::bad_alloc &) {
        is_out = true;
    }
    CHECK(is_out);
}

} // namespace

UNIT_MAIN
