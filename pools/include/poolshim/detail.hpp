// SPDX-License-Identifier: MIT
// detail.hpp - the library's own: the common parts of its C++ wrappers.
#ifndef POOLSHIM_DETAIL_HPP
#define POOLSHIM_DETAIL_HPP

#include <poolshim/common.h>

#include <memory>
#include <new>
#include <utility>

namespace ps::detail {

// The result of a C function. Throws std::bad_alloc where it is NULL.
template <class T> T *checked(T *pointer) {
    if (__builtin_expect(pointer == nullptr, 0)) {
        throw std::bad_alloc();
    }
    return pointer;
}

// Owns an object of C, and ends it by End. Moved from, it owns nothing.
template <auto End> struct ender {
    template <class T> void operator()(T *owned) const noexcept { End(owned); }
};
template <class T, auto End> using handle = std::unique_ptr<T, ender<End>>;

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
