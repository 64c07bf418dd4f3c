// SPDX-License-Identifier: MIT
// pools.hpp - the pools for any size of poolshim/pools.h for C++17.
//
//     ps::size_pools pools;
//     void *text = pools.allocate(100);
//     pools.deallocate(text, 100);
//
// May be moved, since the C struct is on the heap: one allocation by new per object of this class.
// One thread at a time.
#ifndef POOLSHIM_POOLS_HPP
#define POOLSHIM_POOLS_HPP

#include <cstddef>
#include <memory>
#include <new>
#include <poolshim/detail.hpp>
#include <poolshim/pools.h>

namespace ps {

class size_pools {
  public:
    explicit size_pools(const ::ps_chunk_options &options = {}) : pools_(new ::ps_pools) {
        ps_pools_init(pools_.get(), &options);
    }

    // Any size and any alignment up to PS_POOL_ALIGN_MAX. Throws std::bad_alloc.
    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        return detail::checked(__builtin_expect(align <= PS_ALIGN_DEFAULT, 1)
                                   ? ps_pools_alloc(pools_.get(), bytes)
                                   : ps_pools_alloc_large(pools_.get(), bytes, align));
    }
    // bytes, align: as they were allocated.
    void deallocate(void *block, std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) noexcept {
        if (__builtin_expect(align <= PS_ALIGN_DEFAULT, 1)) {
            ps_pools_free(pools_.get(), block, bytes);
        } else {
            ps_pools_free_large(pools_.get(), block);
        }
    }

    void reset() noexcept { ps_pools_reset(pools_.get()); }
    std::size_t trim_to(std::size_t keep_bytes) noexcept {
        return ps_pools_trim_to(pools_.get(), keep_bytes);
    }
    [[deprecated("use trim_to")]] std::size_t trim() noexcept { return trim_to(0); }
    bool owns(const void *address) noexcept { return ps_pools_owns(pools_.get(), address); }
    struct ::ps_pools_stats stats() noexcept {
        struct ::ps_pools_stats result;
        ::ps_pools_stats(pools_.get(), &result);
        return result;
    }
    ::ps_pools *c_pools() noexcept { return pools_.get(); }

  private:
    struct destroyer {
        void operator()(::ps_pools *pools) const noexcept {
            ps_pools_destroy(pools);
            delete pools;
        }
    };
    std::unique_ptr<::ps_pools, destroyer> pools_;
};

} // namespace ps

#endif
