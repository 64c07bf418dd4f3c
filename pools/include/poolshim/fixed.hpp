// SPDX-License-Identifier: MIT
// fixed.hpp - a fixed number of objects inside of an object of yours: fixed.h in C++17.
//
//     ps::fixed<T, N>           for one thread at a time
//     ps::shared_fixed<T, N>    for any thread and for signal handlers, lock-free
//
//     static ps::fixed<Message, 16> messages;     // constant-initialised zeros: no code before
//     main Message *message = messages.create("text"); // nullptr: all 16 are in use
//     messages.destroy(message);
//
// No allocation, no library, nothing at run time to construct the pool but its links (4 bytes per
// object). Neither copied nor moved: the objects are inside. The destructor destroys the objects in
// use; for a T with a trivial one it is trivial, too, so a static pool may be used until the
// process ends.
//
// create() of a shared pool may run in a signal handler if the constructor of T may; size(),
// clear(), each() and the destructor are for one thread alone. A second destroy, or one of a
// pointer that is no object's, ends the program with a line that says so.
#ifndef POOLSHIM_FIXED_HPP
#define POOLSHIM_FIXED_HPP

#include <poolshim/common.h>
#include <poolshim/fixed.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace ps {

namespace detail {

// Zeros are an empty pool. Trivially destructible, whatever T is.
template <class T, std::size_t N> class fixed_storage {
    static_assert(N > 0 && N <= PS_FIXED_COUNT_MAX && N * sizeof(T) <= 0xffffffff,
                  "1 to 2^31 - 1 objects in 4 GiB");

  protected:
    constexpr fixed_storage() noexcept : none_() {}

    T *object(std::size_t index) noexcept {
        return std::launder(reinterpret_cast<T *>(bytes_ + index * sizeof(T)));
    }
    const T *object(std::size_t index) const noexcept {
        return std::launder(reinterpret_cast<const T *>(bytes_ + index * sizeof(T)));
    }
    void *place(std::size_t index) noexcept { return bytes_ + index * sizeof(T); }
    bool is_in_use(std::size_t index) const noexcept { return x_next_[index] == PS_FIXED_IN_USE; }
    std::uint32_t index_of(const void *place) const noexcept {
        return ps_fixed_index(reinterpret_cast<const char *>(bytes_), N, sizeof(T), place);
    }
    bool has(const void *place) const noexcept {
        return reinterpret_cast<std::uintptr_t>(place) - reinterpret_cast<std::uintptr_t>(bytes_) <
               sizeof bytes_;
    }

    // Destroys the objects in use, which stay marked so.
    void end_all() noexcept {
        for (std::size_t index = 0; index < N; index++) {
            if (is_in_use(index)) {
                object(index)->~T();
            }
        }
    }

    std::uint64_t x_head_ = 0;
    std::uint32_t x_next_[N] = {};
    union {
        char none_; // what the constructor initialises: the objects' memory is not touched
        alignas(T) unsigned char bytes_[N * sizeof(T)];
    };
};

// With a destructor only where it has anything to do.
template <class T, std::size_t N, bool IsTrivial>
class fixed_owner : protected fixed_storage<T, N> {};

template <class T, std::size_t N> class fixed_owner<T, N, false> : protected fixed_storage<T, N> {
  protected:
    constexpr fixed_owner() noexcept = default;
    ~fixed_owner() { this->end_all(); }
};

} // namespace detail

template <class T, std::size_t N, bool IsShared>
class basic_fixed : detail::fixed_owner<T, N, std::is_trivially_destructible_v<T>> {
  public:
    using value_type = T;

    constexpr basic_fixed() noexcept = default;
    basic_fixed(const basic_fixed &) = delete;
    basic_fixed &operator=(const basic_fixed &) = delete;

    static constexpr std::size_t capacity() noexcept { return N; }

    // T(arguments...), or nullptr: all are in use. Throws what the constructor throws.
    template <class... Arguments> T *create(Arguments &&...arguments) {
        struct guard {
            basic_fixed &pool;
            std::uint32_t index;
            ~guard() {
                if (index != N) {
                    pool.put(index);
                }
            }
        } guarded{*this, take()};
        if (__builtin_expect(guarded.index == N, 0)) {
            return nullptr;
        }
        T *object = ::new (this->place(guarded.index)) T(std::forward<Arguments>(arguments)...);
        guarded.index = N;
        return object;
    }

    // The destructor, then the memory. nullptr does nothing.
    void destroy(T *object) noexcept {
        if (object != nullptr) {
            std::uint32_t index = this->index_of(object);
            ps_fixed_check(this->x_next_, index);
            object->~T();
            put(index);
        }
    }

    // Memory alone, for adapters: up to sizeof(T) bytes. Throws std::bad_alloc.
    void *allocate(std::size_t bytes = sizeof(T), std::size_t align = alignof(T)) {
        std::uint32_t index = bytes <= sizeof(T) && align <= alignof(T) ? take() : N;
        if (__builtin_expect(index == N, 0)) {
            throw std::bad_alloc();
        }
        return this->place(index);
    }
    void deallocate(void *memory, std::size_t = 0, std::size_t = 0) noexcept {
        if (memory != nullptr) {
            std::uint32_t index = this->index_of(memory);
            ps_fixed_check(this->x_next_, index);
            put(index);
        }
    }

    bool owns(const void *address) const noexcept { return this->has(address); }

    // Objects in use. O(N).
    std::size_t size() const noexcept {
        std::size_t count = 0;
        for (std::size_t index = 0; index < N; index++) {
            count += this->is_in_use(index);
        }
        return count;
    }

    // visit(T &) for each object in use, in order of address; it may destroy that object.
    template <class Visit> void each(Visit &&visit) {
        for (std::size_t index = 0; index < N; index++) {
            if (this->is_in_use(index)) {
                visit(*this->object(index));
            }
        }
    }

    // Destroys all objects.
    void clear() noexcept {
        each([this](T &object) { destroy(std::addressof(object)); });
    }

  private:
    std::uint32_t take() noexcept {
        return IsShared ? ps_fixed_take_shared(&this->x_head_, this->x_next_, N)
                        : ps_fixed_take(&this->x_head_, this->x_next_, N);
    }
    void put(std::uint32_t index) noexcept {
        if constexpr (IsShared) {
            ps_fixed_put_shared(&this->x_head_, this->x_next_, index);
        } else {
            ps_fixed_put(&this->x_head_, this->x_next_, index);
        }
    }
};

template <class T, std::size_t N> using fixed = basic_fixed<T, N, false>;
template <class T, std::size_t N> using shared_fixed = basic_fixed<T, N, true>;

} // namespace ps

#endif
