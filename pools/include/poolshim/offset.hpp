/* SPDX-License-Identifier: MIT */
/*
 * offset.hpp - ps::offset_ptr<T>, the pointer type for objects of an arena (arena.hpp) or in a
 * shared heap (shared.hpp), whose headers include this one. C++17, header only.
 *
 *     struct entry { ps::offset_ptr<entry> next; int value; };
 *     for (const entry *at = first; at != nullptr; at = at->next.get()) { ... }
 *
 * An offset_ptr takes a T * as it is, but does not turn into one by itself: where a T * is needed,
 * get() makes it. Between offset_ptrs, and by * and ->, no get() is needed.
 */
#ifndef POOLSHIM_OFFSET_HPP
#define POOLSHIM_OFFSET_HPP

#include <poolshim/offset.h>

#include <cstddef>
#include <string_view> // a category of iterators, std::hash; <iterator> is twice as long
#include <type_traits>

namespace ps {

/*
 * A pointer by its distance from itself: it is right wherever the memory is mapped, as long as it
 * and its target move together. All zero is nullptr. The same in memory as struct ps_link, but
 * copies may be assigned. A random access iterator.
 */
template <class T> class offset_ptr {
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using difference_type = std::ptrdiff_t;
    using pointer = offset_ptr;
    using reference = std::add_lvalue_reference_t<T>;
    using iterator_category = std::string_view::const_reverse_iterator::iterator_category;
    template <class U> using rebind = offset_ptr<U>;

    offset_ptr() noexcept = default;
    offset_ptr(std::nullptr_t) noexcept {}
    offset_ptr(T *target) noexcept { set(target); }
    offset_ptr(const offset_ptr &other) noexcept { set(other.get()); }
    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *>>>
    offset_ptr(const offset_ptr<U> &other) noexcept {
        set(other.get());
    }
    offset_ptr &operator=(const offset_ptr &other) noexcept {
        set(other.get());
        return *this;
    }
    offset_ptr &operator=(T *target) noexcept {
        set(target);
        return *this;
    }

    T *get() const noexcept { return static_cast<T *>(ps_link_get(&link_)); }
    T *operator->() const noexcept { return get(); }
    reference operator*() const noexcept { return *get(); }
    reference operator[](difference_type index) const noexcept { return get()[index]; }
    explicit operator bool() const noexcept { return link_.way != 0; }

    /* For std::pointer_traits. */
    template <class U = T>
    static std::enable_if_t<!std::is_void_v<U>, offset_ptr> pointer_to(U &target) noexcept {
        return offset_ptr(__builtin_addressof(target));
    }

    offset_ptr &operator+=(difference_type count) noexcept { return *this = get() + count; }
    offset_ptr &operator-=(difference_type count) noexcept { return *this = get() - count; }
    offset_ptr &operator++() noexcept { return *this += 1; }
    offset_ptr &operator--() noexcept { return *this -= 1; }
    offset_ptr operator++(int) noexcept {
        offset_ptr old(*this);
        *this += 1;
        return old;
    }
    offset_ptr operator--(int) noexcept {
        offset_ptr old(*this);
        *this -= 1;
        return old;
    }
    friend offset_ptr operator+(const offset_ptr &a, difference_type count) noexcept {
        return offset_ptr(a.get() + count);
    }
    friend offset_ptr operator+(difference_type count, const offset_ptr &a) noexcept {
        return offset_ptr(a.get() + count);
    }
    friend offset_ptr operator-(const offset_ptr &a, difference_type count) noexcept {
        return offset_ptr(a.get() - count);
    }
    friend difference_type operator-(const offset_ptr &a, const offset_ptr &b) noexcept {
        return a.get() - b.get();
    }
    friend bool operator==(const offset_ptr &a, const offset_ptr &b) noexcept {
        return a.get() == b.get();
    }
    friend bool operator!=(const offset_ptr &a, const offset_ptr &b) noexcept {
        return a.get() != b.get();
    }
    friend bool operator<(const offset_ptr &a, const offset_ptr &b) noexcept {
        return reinterpret_cast<std::uintptr_t>(a.get()) <
               reinterpret_cast<std::uintptr_t>(b.get());
    }
    friend bool operator>(const offset_ptr &a, const offset_ptr &b) noexcept { return b < a; }
    friend bool operator<=(const offset_ptr &a, const offset_ptr &b) noexcept { return !(b < a); }
    friend bool operator>=(const offset_ptr &a, const offset_ptr &b) noexcept { return !(a < b); }

  private:
    void set(T *target) noexcept {
        ps_link_set(&link_, const_cast<const void *>(static_cast<const volatile void *>(target)));
    }

    struct ps_link link_ = {0};
};

} // namespace ps

template <class T> struct std::hash<ps::offset_ptr<T>> {
    std::size_t operator()(const ps::offset_ptr<T> &pointer) const noexcept {
        return std::hash<T *>()(pointer.get());
    }
};

#endif
