// SPDX-License-Identifier: MIT
// detail.hpp - the library's own: the common parts of its C++ wrappers.
#ifndef POOLSHIM_DETAIL_HPP
#define POOLSHIM_DETAIL_HPP

#include <poolshim/common.h>

#include <new>
#include <type_traits>
#include <unistd.h>
#include <utility>

// With -fno-exceptions a function that would throw ends the program instead, with one line that
// names the exception. Those called try_... return nullptr in any case.
#ifdef __cpp_exceptions
#define PS_TRY try
#define PS_CATCH_ALL catch (...)
#define PS_RETHROW throw
#define PS_THROW(exception) throw exception
#else
#define PS_TRY if (true)
#define PS_CATCH_ALL else
#define PS_RETHROW static_cast<void>(0)
#define PS_THROW(exception) ::ps::detail::end(#exception)
#endif

namespace ps::detail {

// "poolshim: <exception>, but exceptions are disabled", then abort. In one write, without stdio.
[[noreturn]] inline void end(const char *exception) noexcept {
    static constexpr char before[] = "poolshim: ";
    static constexpr char after[] = ", but exceptions are disabled\n";
    char line[200];
    std::size_t length = 0;
    for (const char *part : {before, exception, after}) {
        for (; *part != '\0' && length < sizeof line; part++) { // ends: each text does
            line[length++] = *part;
        }
    }
    static_cast<void>(!::write(STDERR_FILENO, line, length));
    __builtin_abort();
}

// The object as one of a derived class; without RTTI, and where it is none, nullptr.
template <class Derived, class Base> const Derived *as(const Base *object) noexcept {
#ifdef __cpp_rtti
    return dynamic_cast<const Derived *>(object);
#else
    static_cast<void>(object);
    return nullptr;
#endif
}

// allocate, with nullptr for std::bad_alloc. Without exceptions the pool ends the program itself.
template <class Pool> void *attempt(Pool &pool, std::size_t bytes, std::size_t align) noexcept {
#ifdef __cpp_exceptions
    try {
        return pool.allocate(bytes, align);
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
#else
    static_assert(!std::is_same_v<Pool, Pool>,
                  "poolshim: without exceptions a pool needs try_allocate to be refused by");
    return pool.allocate(bytes, align);
#endif
}

// The result of a C function. Throws std::bad_alloc where it is NULL.
template <class T> T *checked(T *pointer) {
    if (__builtin_expect(pointer == nullptr, 0)) {
        PS_THROW(std::bad_alloc());
    }
    return pointer;
}

// Owns an object of C, and ends it by End. Moved from, it owns nothing. Not std::unique_ptr: a
// header that includes <memory> for that takes four times as long to compile as one without.
template <class T, auto End> class handle {
  public:
    handle() noexcept = default;
    explicit handle(T *owned) noexcept : owned_(owned) {}
    handle(handle &&other) noexcept : owned_(other.release()) {}
    handle &operator=(handle &&other) noexcept {
        reset(other.release());
        return *this;
    }
    ~handle() { reset(); }

    T *get() const noexcept { return owned_; }
    T *release() noexcept { return std::exchange(owned_, nullptr); }
    void reset(T *owned = nullptr) noexcept {
        T *before = std::exchange(owned_, owned);
        if (before != nullptr) {
            End(before);
        }
    }

  private:
    T *owned_ = nullptr;
};

// An object in memory of its own; if its constructor throws, the memory is free again.
template <class T, class Pool, class... Arguments>
T *construct(Pool &&pool, Arguments &&...arguments) {
    struct guard {
        Pool &pool;
        void *memory;
        ~guard() {
            if (memory != nullptr) {
                pool.deallocate(memory, sizeof(T), alignof(T));
            }
        }
    } guarded{pool, pool.allocate(sizeof(T), alignof(T))};
    T *object = ::new (guarded.memory) T(std::forward<Arguments>(arguments)...);
    guarded.memory = nullptr;
    return object;
}

} // namespace ps::detail

#endif
