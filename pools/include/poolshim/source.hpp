// SPDX-License-Identifier: MIT
// source.hpp - the sources of poolshim/source.h that have an end or may fail, for C++17.
//
//     ps::reserved_source memory(std::size_t(64) << 30);
//     ps::region_options options{};
//     options.chunks.source = memory;
//
// Not moved nor copied: pools store the address. A source outlives its pools.
#ifndef POOLSHIM_SOURCE_HPP
#define POOLSHIM_SOURCE_HPP

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <poolshim/detail.hpp>
#include <poolshim/source.h>
#include <system_error>

namespace ps {

namespace detail {
// std::bad_alloc for ENOMEM, std::system_error for any other errno.
inline void must_be_a_source(bool is_made, [[maybe_unused]] const char *what) {
    if (!is_made && errno == ENOMEM) {
        PS_THROW(std::bad_alloc());
    }
    if (!is_made) {
        PS_THROW(std::system_error(errno, std::generic_category(), what));
    }
}
} // namespace detail

// ps_source_reserve: one contiguous range for all chunks. Throws std::bad_alloc, or
// std::system_error with EINVAL for max_bytes.
class reserved_source {
  public:
    explicit reserved_source(std::size_t max_bytes) {
        detail::must_be_a_source(ps_source_reserve_init(&source_, max_bytes),
                                 "ps::reserved_source");
    }
    ~reserved_source() { ps_source_reserve_destroy(&source_); }
    reserved_source(const reserved_source &) = delete;
    reserved_source &operator=(const reserved_source &) = delete;

    operator ::ps_source *() noexcept { return &source_.source; }
    bool owns(const void *address) const noexcept {
        return ps_source_reserve_owns(&source_, address);
    }
    char *base() const noexcept { return source_.base; }
    std::size_t used_bytes() const noexcept { return source_.used_bytes; }

  private:
    struct ::ps_source_reserve source_;
};

// ps_source_huge: huge pages that the system has set aside. Throws std::system_error with EINVAL
// for page_bytes or flags, ENOSYS where the system has no huge pages of this size.
class huge_source {
  public:
    explicit huge_source(std::size_t page_bytes = 0, unsigned flags = 0) {
        detail::must_be_a_source(ps_source_huge_init(&source_, page_bytes, flags),
                                 "ps::huge_source");
    }
    huge_source(const huge_source &) = delete;
    huge_source &operator=(const huge_source &) = delete;

    operator ::ps_source *() noexcept { return &source_.source; }
    std::size_t page_bytes() const noexcept { return source_.page_bytes; }
    struct ::ps_source_huge_stats stats() const noexcept {
        struct ::ps_source_huge_stats result;
        ::ps_source_huge_stats(&source_, &result);
        return result;
    }

  private:
    struct ::ps_source_huge source_;
};

// ps_source_numa: memory of chosen NUMA nodes; ps_numa_nodes() has those there are. Throws
// std::system_error with EINVAL for the policy or the nodes, ENOSYS where the system has no NUMA,
// EPERM where a sandbox forbids the call; std::bad_alloc.
class numa_source {
  public:
    numa_source(::ps_numa_policy policy, std::uint64_t nodes, unsigned flags = 0) {
        detail::must_be_a_source(ps_source_numa_init(&source_, policy, nodes, flags),
                                 "ps::numa_source");
    }
    numa_source(const numa_source &) = delete;
    numa_source &operator=(const numa_source &) = delete;

    operator ::ps_source *() noexcept { return &source_.source; }

  private:
    struct ::ps_source_numa source_;
};

} // namespace ps

#endif
