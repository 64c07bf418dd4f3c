// SPDX-License-Identifier: MIT
// bounded.hpp - ps::bounded<T>: the pool of bounded.h in C++17.
//
//     ps::bounded<Packet> pool(4096);
//     Packet *packet = pool.create(bytes);     // nullptr: all are in use
//     pool.destroy(packet);                    // by any thread
//     ps::bounded<Packet>::pointer owned = pool.make(bytes);   // destroys it at its end
//
// Objects that are alive at the end of the pool are not destroyed. The pool may be moved while no
// thread uses it and no owning pointer exists, since those refer to the place of the pool. Threads,
// caches and costs are those of bounded.h. Functions that throw say so.
#ifndef POOLSHIM_BOUNDED_HPP
#define POOLSHIM_BOUNDED_HPP

#include <poolshim/bounded.h>
#include <poolshim/detail.hpp>

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace ps {

using bounded_options = ::ps_bounded_options;

template <class T> class bounded {
    static_assert(alignof(T) <= 4096, "objects are aligned to a page at most");

  public:
    using value_type = T;

    // Throws std::bad_alloc, also for a count or options out of range.
    explicit bounded(std::size_t count, const bounded_options &options = {})
        : pool_(detail::checked(ps_bounded_create(sizeof(T), alignof(T), count, &options))) {}
    bounded(bounded &&) noexcept = default;
    bounded &operator=(bounded &&) noexcept = default;

    // T(arguments...), or nullptr: all are in use. Throws what the constructor throws.
    template <class... Arguments> T *create(Arguments &&...arguments) {
        struct guard {
            ::ps_bounded *pool;
            void *memory;
            ~guard() { ps_bounded_free(pool, memory); }
        } guarded{get(), ps_bounded_alloc(get())};
        if (__builtin_expect(guarded.memory == nullptr, 0)) {
            return nullptr;
        }
        T *object = ::new (guarded.memory) T(std::forward<Arguments>(arguments)...);
        guarded.memory = nullptr;
        return object;
    }

    // The destructor, then the memory. nullptr does nothing.
    void destroy(T *object) noexcept {
        if (object != nullptr) {
            object->~T();
            ps_bounded_free(get(), object);
        }
    }

    class deleter {
      public:
        explicit deleter(::ps_bounded *pool = nullptr) noexcept : pool_(pool) {}
        void operator()(T *object) const noexcept {
            object->~T();
            ps_bounded_free(pool_, object);
        }

      private:
        ::ps_bounded *pool_;
    };
    using pointer = std::unique_ptr<T, deleter>;
    // As create, with an owner.
    template <class... Arguments> pointer make(Arguments &&...arguments) {
        return pointer(create(std::forward<Arguments>(arguments)...), deleter(get()));
    }

    // Memory alone, for adapters: up to sizeof(T) bytes. Throws std::bad_alloc.
    static constexpr std::size_t slot_bytes = sizeof(T);
    static constexpr std::size_t slot_align = alignof(T);
    void *allocate(std::size_t bytes = sizeof(T), std::size_t align = alignof(T)) {
        bool fits = bytes <= sizeof(T) && align <= alignof(T);
        return detail::checked(fits ? ps_bounded_alloc(get()) : nullptr);
    }
    void deallocate(void *memory, std::size_t = 0, std::size_t = 0) noexcept {
        ps_bounded_free(get(), memory);
    }

    // Makes the cached objects of the calling thread available to all.
    void flush() noexcept { ps_bounded_flush(get()); }
    struct ps_bounded_stats stats() const noexcept {
        struct ps_bounded_stats result;
        ::ps_bounded_stats(get(), &result);
        return result;
    }
    bool check() const noexcept { return ps_bounded_check(get()); }
    ::ps_bounded *get() const noexcept { return pool_.get(); }

  private:
    detail::handle<::ps_bounded, ps_bounded_destroy> pool_;
};

} // namespace ps

#endif
