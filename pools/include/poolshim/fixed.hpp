// SPDX-License-Identifier: MIT
// fixed.hpp - a fixed number of objects inside memory of the program: fixed.h in C++17.
//
//     ps::fixed<T, N>           for one thread at a time
//     ps::shared_fixed<T, N>    for any thread and for signal handlers, lock-free
//     ps::unchecked_fixed<T, N> for one thread at a time; misuse is not found, see below
//
//     static ps::fixed<Message, 16> messages;       // zeros: no code runs before main
//     Message *message = messages.create("text");   // nullptr: all 16 are in use
//     messages.destroy(message);
//
// No allocation, no library, nothing at run time to construct the pool but its links (4 bytes per
// object). In C++20 create, destroy and all else but allocate may be part of a constant expression,
// of a pool that lives in it: there a misuse is an error of the compiler. Neither copied nor moved:
// the objects are inside. The destructor destroys the objects in use; for a T with a trivial one it
// is trivial, too, so a static pool may be used until the process ends.
//
// create() of a shared pool may run in a signal handler if the constructor of T may; size(),
// reset(), each() and the destructor are for one thread alone. A second destroy, or one of a
// pointer that is no object's, ends the program with a line that says so.
#ifndef POOLSHIM_FIXED_HPP
#define POOLSHIM_FIXED_HPP

#include <poolshim/common.h>
#include <poolshim/detail.hpp>
#include <poolshim/fixed.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace ps {

namespace detail {

#ifdef __cpp_lib_constexpr_dynamic_alloc // C++20: std::construct_at, for constant evaluation too
#define PS_CONSTEXPR_20 constexpr
template <class T, class... Arguments> constexpr T *construct(T *place, Arguments &&...arguments) {
    return std::construct_at(place, std::forward<Arguments>(arguments)...);
}
template <class T> constexpr void begin_in_constant(T &room) noexcept { construct(&room); }
#else
#define PS_CONSTEXPR_20
template <class T, class... Arguments> T *construct(T *place, Arguments &&...arguments) {
    return ::new (static_cast<void *>(place)) T(std::forward<Arguments>(arguments)...);
}
template <class T> constexpr void begin_in_constant(T &) noexcept {}
#endif

// Memory of a T, which its constructor does not touch; without a destructor where T has none.
template <class T, bool IsTrivial> union fixed_room {
    constexpr fixed_room() noexcept : none() {}
    struct {
    } none;
    T value;
};
template <class T> union fixed_room<T, false> {
    constexpr fixed_room() noexcept : none() {}
    PS_CONSTEXPR_20 ~fixed_room() {}
    struct {
    } none;
    T value;
};

// Zeros are an empty pool. The rooms are one union: gcc clears the memory of an array of unions
// when the pool is made. In constant evaluation there is neither an address to compute with nor an
// atomic: what fixed.h does by them is done by comparisons and plain steps there.
template <class T, std::size_t N, bool IsTrivial> class fixed_storage {
    static_assert(N > 0 && N <= PS_FIXED_COUNT_MAX && N * sizeof(T) <= 0xffffffff,
                  "1 to 2^31 - 1 objects in 4 GiB");

  protected:
    constexpr fixed_storage() noexcept = default;

    constexpr T *place(std::size_t index) noexcept {
        return std::addressof(memory_.value.rooms[index].value);
    }
    constexpr T *object(std::size_t index) noexcept { return std::launder(place(index)); }
    constexpr bool is_in_use(std::size_t index) const noexcept {
        return x_next_[index] == PS_FIXED_IN_USE;
    }
    constexpr std::size_t used_count() const noexcept {
        std::size_t count = 0;
        for (std::size_t index = 0; index < N; index++) {
            count += is_in_use(index);
        }
        return count;
    }
    // N: no place begins there.
    constexpr std::size_t find(const void *address) const noexcept {
        std::size_t index = 0;
        while (index < N && std::addressof(memory_.value.rooms[index].value) != address) {
            index++;
        }
        return index;
    }
    // Ends the program unless an object in use is there; ends a constant evaluation, too, which
    // cannot call ps_fixed_misuse.
    constexpr std::uint32_t index_in_use(const void *address) const noexcept {
        if (__builtin_is_constant_evaluated()) {
            std::size_t index = find(address);
            if (index == N) {
                PS_FIXED_MISUSE("free of a foreign pointer in a fixed pool");
            }
            if (!is_in_use(index)) {
                PS_FIXED_MISUSE("double free in a fixed pool");
            }
            return static_cast<std::uint32_t>(index);
        }
        std::uint32_t index =
            ps_fixed_index(reinterpret_cast<const char *>(&memory_), N, sizeof(T), address);
        ps_fixed_check(x_next_, index);
        return index;
    }
    constexpr bool has(const void *address) const noexcept {
        return __builtin_is_constant_evaluated()
                   ? find(address) != N
                   : reinterpret_cast<std::uintptr_t>(address) -
                             reinterpret_cast<std::uintptr_t>(&memory_) <
                         sizeof memory_;
    }

    template <bool IsShared> constexpr std::uint32_t take() noexcept {
        if (__builtin_is_constant_evaluated()) {
            if (used_count() == 0) { // not in the constructor: of an array of a million that is
                begin_in_constant(memory_.value); // more than a compiler does for a static pool
            }
            auto index = static_cast<std::uint32_t>(x_head_);
            if (index != N) { // as ps_fixed_take
                x_head_ = index + 1 + x_next_[index];
                x_next_[index] = PS_FIXED_IN_USE;
            }
            return index;
        }
        return IsShared ? ps_fixed_take_shared(&x_head_, x_next_, N)
                        : ps_fixed_take(&x_head_, x_next_, N);
    }
    template <bool IsShared> constexpr void put(std::uint32_t index) noexcept {
        if (__builtin_is_constant_evaluated()) { // as ps_fixed_put
            x_next_[index] = static_cast<std::uint32_t>(x_head_) - (index + 1);
            x_head_ = index;
        } else if constexpr (IsShared) {
            ps_fixed_put_shared(&x_head_, x_next_, index);
        } else {
            ps_fixed_put(&x_head_, x_next_, index);
        }
    }

    // Destroys the objects in use, but does not free them.
    constexpr void end_all() noexcept {
        for (std::size_t index = 0; index < N; index++) {
            if (is_in_use(index)) {
                object(index)->~T();
            }
        }
    }

    std::uint64_t x_head_ = 0;
    std::uint32_t x_next_[N] = {};
    struct array {
        constexpr array() noexcept {}
        fixed_room<T, IsTrivial> rooms[N];
    };
    fixed_room<array, IsTrivial> memory_;
};

// With a destructor only where it has anything to do.
template <class T, std::size_t N, bool IsTrivial>
class fixed_owner : protected fixed_storage<T, N, true> {};

template <class T, std::size_t N>
class fixed_owner<T, N, false> : protected fixed_storage<T, N, false> {
  protected:
    constexpr fixed_owner() noexcept = default;
    PS_CONSTEXPR_20 ~fixed_owner() { this->end_all(); }
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
    template <class... Arguments> constexpr T *create(Arguments &&...arguments) {
        guard guarded{*this, this->template take<IsShared>()};
        if (__builtin_expect(guarded.index == N, 0)) {
            return nullptr;
        }
        T *object =
            detail::construct(this->place(guarded.index), std::forward<Arguments>(arguments)...);
        guarded.index = N;
        return object;
    }

    // The destructor, then the memory. nullptr does nothing.
    constexpr void destroy(T *object) noexcept {
        if (object != nullptr) {
            std::uint32_t index = this->index_in_use(object);
            object->~T();
            this->template put<IsShared>(index);
        }
    }

    // Memory alone, for adapters: up to sizeof(T) bytes. Throws std::bad_alloc.
    static constexpr std::size_t slot_bytes = sizeof(T);
    static constexpr std::size_t slot_align = alignof(T);
    void *allocate(std::size_t bytes = sizeof(T), std::size_t align = alignof(T)) {
        std::uint32_t index =
            bytes <= sizeof(T) && align <= alignof(T) ? this->template take<IsShared>() : N;
        if (__builtin_expect(index == N, 0)) {
            PS_THROW(std::bad_alloc());
        }
        return this->place(index);
    }
    void deallocate(void *memory, std::size_t = 0, std::size_t = 0) noexcept {
        if (memory != nullptr) {
            this->template put<IsShared>(this->index_in_use(memory));
        }
    }

    constexpr bool owns(const void *address) const noexcept { return this->has(address); }

    // Objects in use. O(N).
    constexpr std::size_t size() const noexcept { return this->used_count(); }

    // visit(T &) for each object in use, in order of address; it may destroy that object.
    template <class Visit> constexpr void each(Visit &&visit) {
        for (std::size_t index = 0; index < N; index++) {
            if (this->is_in_use(index)) {
                visit(*this->object(index));
            }
        }
    }

    // Destroys all objects.
    constexpr void reset() noexcept {
        each([this](T &object) { destroy(std::addressof(object)); });
    }
    [[deprecated("use reset")]] constexpr void clear() noexcept { reset(); }

  private:
    // Returns the place unless the constructor has returned.
    struct guard {
        basic_fixed &pool;
        std::uint32_t index;
        PS_CONSTEXPR_20 ~guard() {
            if (index != N) {
                pool.template put<IsShared>(index);
            }
        }
    };
};

// Without marks: create and destroy are as short as a list's. It does not know which objects are in
// use: no size, each or reset, no destructor, so objects in use are forgotten at its end. destroy
// takes no nullptr, deallocate neither. Not for constant expressions, but constant-initialised.
template <class T, std::size_t N> class unchecked_fixed {
  public:
    using value_type = T;

    constexpr unchecked_fixed() noexcept : free_(nullptr), touched_(0) {}
    unchecked_fixed(const unchecked_fixed &) = delete;
    unchecked_fixed &operator=(const unchecked_fixed &) = delete;

    static constexpr std::size_t capacity() noexcept { return N; }

    // T(arguments...), or nullptr: all are in use. Throws what the constructor throws.
    template <class... Arguments> T *create(Arguments &&...arguments) {
        struct guard {
            unchecked_fixed &pool;
            void *place;
            ~guard() {
                if (place != nullptr) {
                    pool.put(place);
                }
            }
        } guarded{*this, take()};
        if (__builtin_expect(guarded.place == nullptr, 0)) {
            return nullptr;
        }
        T *object = ::new (guarded.place) T(std::forward<Arguments>(arguments)...);
        guarded.place = nullptr;
        return object;
    }
    void destroy(T *object) noexcept {
        object->~T();
        put(object);
    }

    // As those of ps::fixed.
    static constexpr std::size_t slot_bytes = sizeof(T);
    static constexpr std::size_t slot_align = alignof(T);
    void *allocate(std::size_t bytes = sizeof(T), std::size_t align = alignof(T)) {
        void *place = bytes <= sizeof(T) && align <= alignof(T) ? take() : nullptr;
        if (__builtin_expect(place == nullptr, 0)) {
            PS_THROW(std::bad_alloc());
        }
        return place;
    }
    void deallocate(void *memory, std::size_t = 0, std::size_t = 0) noexcept { put(memory); }

    bool owns(const void *address) const noexcept {
        return reinterpret_cast<std::uintptr_t>(address) -
                   reinterpret_cast<std::uintptr_t>(&memory_) <
               sizeof memory_;
    }

  private:
    struct link {
        link *next;
    };
    struct room {
        alignas(T) alignas(
            link) unsigned char bytes[sizeof(T) > sizeof(link) ? sizeof(T) : sizeof(link)];
    };
    union rooms {
        constexpr rooms() noexcept : none() {}
        struct {
        } none;
        room all[N];
    };

    void *take() noexcept {
        link *first = free_;
        if (__builtin_expect(first != nullptr, 1)) {
            free_ = first->next;
            return first;
        }
        return touched_ != N ? &memory_.all[touched_++] : nullptr;
    }
    void put(void *place) noexcept { free_ = ::new (place) link{free_}; }

    link *free_;
    std::size_t touched_; // rooms from here on were never used
    rooms memory_;
};

template <class T, std::size_t N> using fixed = basic_fixed<T, N, false>;
template <class T, std::size_t N> using shared_fixed = basic_fixed<T, N, true>;

} // namespace ps

#endif
