// SPDX-License-Identifier: MIT
// slice.hpp - slices in C++: slice.h by type, and as a pool for the adapters of adapters.hpp.
//
//     point *p = ps::slice_new<point>(1, 2);
//     ps::slice_delete(p);
//     ps::slice_ptr<point> q = ps::make_slice<point>(1, 2);
//     std::map<int, int, std::less<int>, ps::allocator<std::pair<const int, int>, ps::slices>> map;
//
// Any thread may delete what any thread made. The type at slice_delete is the one of slice_new,
// not a base of it. std::bad_alloc when there is no memory; when a constructor throws, the slice is
// free again.
#ifndef POOLSHIM_SLICE_HPP
#define POOLSHIM_SLICE_HPP

#include <poolshim/detail.hpp>
#include <poolshim/slice.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace ps {

// All slices of the process as a pool: empty, and all objects of it are equal.
struct slices {
    // align: up to 64 KiB.
    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        return detail::checked(try_allocate(bytes, align));
    }
    void *try_allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) noexcept {
        return align <= PS_ALIGN_DEFAULT ? ps_slice_alloc(bytes)
                                         : ps_slice_alloc_aligned(bytes, align);
    }
    void deallocate(void *slice, std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) noexcept {
        if (align <= PS_ALIGN_DEFAULT) {
            ps_slice_free(bytes, slice);
        } else {
            ps_slice_free_aligned(bytes, align, slice);
        }
    }
};

template <class T, class... Arguments> T *slice_new(Arguments &&...arguments) {
    return detail::construct<T>(slices(), std::forward<Arguments>(arguments)...);
}

// Destroys and frees; nullptr does nothing.
template <class T> void slice_delete(T *object) noexcept {
    if (object != nullptr) {
        object->~T();
        using bare = std::remove_cv_t<T>;
        slices().deallocate(const_cast<bare *>(object), sizeof(T), alignof(T));
    }
}

template <class T> struct slice_deleter {
    void operator()(T *object) const noexcept { slice_delete(object); }
};
template <class T> using slice_ptr = std::unique_ptr<T, slice_deleter<T>>;
template <class T, class... Arguments> slice_ptr<T> make_slice(Arguments &&...arguments) {
    return slice_ptr<T>(slice_new<T>(std::forward<Arguments>(arguments)...));
}

} // namespace ps

#endif
