// SPDX-License-Identifier: MIT
// registry.hpp - the registry of poolshim/registry.h for C++17.
//
//     ps::region sessions(options);
//     ps::enlist(sessions);
//     ps::pools_each([](const ps::pool_info &info) { std::puts(info.name); });
//     ps::dump_stats(stderr);
//
// enlist takes a ps::region, stack, fifo, ring, node_pool, size_pools, slots or bounded pool, or
// the C structure, and throws std::bad_alloc where the C function returns false. A moved pool
// remains listed.
#ifndef POOLSHIM_REGISTRY_HPP
#define POOLSHIM_REGISTRY_HPP

#include <cstdio>
#include <new>
#include <poolshim/bounded.h>
#include <poolshim/detail.hpp>
#include <poolshim/fifo.h>
#include <poolshim/pools.h>
#include <poolshim/region.h>
#include <poolshim/registry.h>
#include <poolshim/ring.h>
#include <poolshim/slots.h>
#include <poolshim/stack.h>
#include <type_traits>

namespace ps {

using pool_info = ::ps_pool_info;

namespace detail {
inline void must_be_listed(bool is_listed) {
    if (!is_listed) {
        PS_THROW(std::bad_alloc());
    }
}
} // namespace detail

inline void enlist(::ps_pool *pool) { detail::must_be_listed(ps_pool_enlist(pool)); }
inline void enlist(::ps_pools *pools) { detail::must_be_listed(ps_pools_enlist(pools)); }
inline void enlist(::ps_region *region) { detail::must_be_listed(ps_region_enlist(region)); }
inline void enlist(::ps_stack *stack) { detail::must_be_listed(ps_stack_enlist(stack)); }
inline void enlist(::ps_fifo *fifo) { detail::must_be_listed(ps_fifo_enlist(fifo)); }
inline void enlist(::ps_ring *ring) { detail::must_be_listed(ps_ring_enlist(ring)); }
inline void enlist(::ps_slots *slots) { detail::must_be_listed(ps_slots_enlist(slots)); }
inline void enlist(::ps_bounded *pool) { detail::must_be_listed(ps_bounded_enlist(pool)); }

// The same for the classes of this library, by the C structure that they have.
template <class Pool> auto enlist(Pool &pool) -> decltype(enlist(pool.c_pool())) {
    enlist(pool.c_pool());
}
template <class Pool> auto enlist(Pool &pools) -> decltype(enlist(pools.c_pools())) {
    enlist(pools.c_pools());
}
template <class Pool> auto enlist(Pool &slots) -> decltype(enlist(slots.c_slots())) {
    enlist(slots.c_slots());
}
template <class Pool> auto enlist(Pool &pool) -> decltype(enlist(pool.get())) {
    enlist(pool.get());
}

// Calls visit(const ps::pool_info &) for each listed pool; what it throws passes through.
template <class Visitor> void pools_each(Visitor &&visit) {
    using Plain = std::remove_reference_t<Visitor>;
    ps_pools_each(
        [](const ps_pool_info *info, void *context) { (*static_cast<Plain *>(context))(*info); },
        const_cast<std::remove_const_t<Plain> *>(__builtin_addressof(visit)));
}

// False: a write failed.
inline bool dump_stats(std::FILE *file) { return ps_dump_stats(file); }

} // namespace ps

#endif
