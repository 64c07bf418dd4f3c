// SPDX-License-Identifier: MIT
// The sources of source.hpp: they work as options of C++ pools, end with their scope, and what C
// refuses is thrown.
#include <poolshim/pool.hpp>
#include <poolshim/region.hpp>
#include <poolshim/source.hpp>

#include "tests/pools/modes.h"
#include "tests/pools/throws.hpp"
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
    CHECK(throws<std::bad_alloc>([&] { ps::reserved_source all(PTRDIFF_MAX); }));
}

// The error of a source that is made so, 0 for none.
template <class Source, class... Arguments> int error_of(Arguments... arguments) {
    try {
        [[maybe_unused]] Source source(arguments...);
    } catch (const std::system_error &error) {
        return error.code().value();
    }
    return 0;
}

TEST(a_pool_in_huge_pages_or_what_takes_their_place) {
    CHECK_EQ(error_of<ps::huge_source>(std::size_t(3) << 20), EINVAL);
    int error = error_of<ps::huge_source>();
    CHECK(error == 0 || error == ENOSYS);
    if (error != 0) {
        return; // a kernel without
    }
    NEEDS_CHUNKS();
    ps::huge_source memory;
    ps::pool_options options{};
    options.chunks.source = memory;
    options.chunks.first_bytes = memory.page_bytes();
    ps::pool<int> ints(options);
    ints.destroy(ints.create(1));
    CHECK_EQ(memory.stats().page_bytes, memory.page_bytes());
    CHECK_EQ(memory.stats().huge_count + memory.stats().refused_count, 1);
}

TEST(a_pool_on_a_node) {
    std::uint64_t nodes = ps_numa_nodes();
    if (nodes == 0) {
        int why = errno;
        CHECK_EQ(error_of<ps::numa_source>(PS_NUMA_PREFERRED, std::uint64_t(0)), why);
        return;
    }
    CHECK_EQ(error_of<ps::numa_source>(PS_NUMA_BIND, std::uint64_t(0)), EINVAL);
    ps::numa_source memory(PS_NUMA_INTERLEAVE, nodes, PS_MMAP_GUARD);
    ps::pool_options options{};
    options.chunks.source = memory;
    ps::pool<int> ints(options);
    ints.destroy(ints.create(1));
}

} // namespace

UNIT_MAIN
