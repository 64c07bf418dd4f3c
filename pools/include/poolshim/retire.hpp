// SPDX-License-Identifier: MIT
// retire.hpp - ps::retire_domain and its scopes: retire.h in C++17.
//
//     ps::retire_domain domain;
//     {
//         ps::retire_scope scope(domain);               // a reader
//         const Config *config = current.load(std::memory_order_acquire);
//         ...
//     }
//     Config *old = current.exchange(fresh, std::memory_order_acq_rel);
//     domain.retire(old);                               // deletes it when no reader is left
//     domain.retire(node, pool);                        // pool.destroy(node), then
//
// The pool must allow its destroy in any thread (ps::bounded, ps::shared_fixed), or serve one
// thread alone, and outlive the domain. Threads, bounds and the meaning of false are those of
// retire.h.
#ifndef POOLSHIM_RETIRE_HPP
#define POOLSHIM_RETIRE_HPP

#include <poolshim/detail.hpp>
#include <poolshim/retire.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

namespace ps {

using retire_options = ::ps_retire_options;

class retire_domain {
  public:
    // Throws std::bad_alloc, also for options out of range.
    explicit retire_domain(const retire_options &options = {})
        : domain_(detail::checked(ps_retire_create(&options))) {}

    // delete object, when no reader is left. False: the object is the caller's still.
    template <class T> [[nodiscard]] bool retire(T *object) {
        return ps_retire(
            get(), address_of(object),
            [](void *retired, void *) noexcept { delete static_cast<T *>(retired); }, nullptr);
    }

    // pool.destroy(object), when no reader is left.
    template <class T, class Pool> [[nodiscard]] bool retire(T *object, Pool &pool) {
        return ps_retire(
            get(), address_of(object),
            [](void *retired, void *context) noexcept {
                static_cast<Pool *>(context)->destroy(static_cast<T *>(retired));
            },
            __builtin_addressof(pool));
    }

    // False: the thread is inside.
    bool wait() { return ps_retire_wait(get()); }
    std::size_t collect() { return ps_retire_collect(get()); }
    struct ps_retire_stats stats() const noexcept {
        struct ps_retire_stats result;
        ::ps_retire_stats(get(), &result);
        return result;
    }
    struct ::ps_retire *get() const noexcept { return domain_.get(); }

  private:
    template <class T> static void *address_of(T *object) {
        return const_cast<void *>(static_cast<const volatile void *>(object));
    }

    detail::handle<struct ::ps_retire, ps_retire_destroy> domain_;
};

// Inside, until the end of the block. Throws std::system_error when the domain has no place for the
// thread.
class retire_scope {
  public:
    explicit retire_scope(const retire_domain &domain) : domain_(domain.get()) {
        if (!ps_retire_enter(domain_)) {
            PS_THROW(std::system_error(EAGAIN, std::generic_category(), "ps::retire_scope"));
        }
    }
    ~retire_scope() { ps_retire_leave(domain_); }
    retire_scope(const retire_scope &) = delete;
    retire_scope &operator=(const retire_scope &) = delete;

  private:
    struct ::ps_retire *domain_;
};

} // namespace ps

#endif
