// SPDX-License-Identifier: MIT
// ref.hpp - references to the objects of intrusive pools: ps::ref<T>, which counts, and
// ps::unique_ref<T>, which need not; the base ps::intrusive_item of objects that carry their count.
// The manual is that of intrusive.hpp, which has the pool.
#ifndef POOLSHIM_REF_HPP
#define POOLSHIM_REF_HPP

#include <poolshim/intrusive.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <typeindex> // std::hash
#include <utility>

namespace ps {

struct plain_count {
    static constexpr bool is_shared = false;
    static void take(ps_intrusive_item *item) noexcept { ps_intrusive_take(item); }
    static void drop(ps_intrusive_item *item) noexcept { ps_intrusive_drop(item); }
    static std::uint32_t get(const ps_intrusive_item *item) noexcept { return item->count; }
};

struct atomic_count {
    static constexpr bool is_shared = true;
    static void take(ps_intrusive_item *item) noexcept { ps_intrusive_take_shared(item); }
    static void drop(ps_intrusive_item *item) noexcept { ps_intrusive_drop_shared(item); }
    static std::uint32_t get(const ps_intrusive_item *item) noexcept {
        __asm__("" : "+r"(item)); // gcc 12 warns of null pointers that it imagines
        // acquire: 1 means that this is the only reference, and the writes of the others are
        // visible.
        return __atomic_load_n(&item->count, __ATOMIC_ACQUIRE);
    }
};

namespace detail {

// The item of classes that derive from intrusive_item, whatever their count.
class item_base {
  public:
    ps_intrusive_item *ps_item() const noexcept { return &item_; }

  protected:
    item_base() noexcept : item_() {}
    item_base(const item_base &) noexcept : item_() {}
    item_base &operator=(const item_base &) noexcept { return *this; }
    ~item_base() = default;

  private:
    mutable ps_intrusive_item item_;
};

} // namespace detail

// Base of objects that carry their own count.
template <class Count = plain_count> class intrusive_item : public detail::item_base {
  public:
    // How many references there are; 0 for objects of no pool without one.
    std::uint32_t use_count() const noexcept { return Count::get(ps_item()); }

  protected:
    intrusive_item() = default;
    intrusive_item(const intrusive_item &) = default;
    intrusive_item &operator=(const intrusive_item &) = default;
    ~intrusive_item() = default;
};

// What boost::intrusive_ptr<T> calls.
template <class Count> void intrusive_ptr_add_ref(const intrusive_item<Count> *object) noexcept {
    Count::take(object->ps_item());
}
template <class Count> void intrusive_ptr_release(const intrusive_item<Count> *object) noexcept {
    Count::drop(object->ps_item());
}

namespace detail {

// Where the item of a T is: in it, or in the 16 bytes in front of it.
template <class T, class Count> struct placement {
    static constexpr bool is_inside = std::is_base_of_v<item_base, T>;
    static_assert(!is_inside || std::is_base_of_v<intrusive_item<Count>, T>,
                  "the object's base and its references differ in their Count");
    static constexpr std::size_t align = alignof(T) > alignof(ps_intrusive_item)
                                             ? alignof(T)
                                             : alignof(ps_intrusive_item);
    static constexpr std::size_t in_front =
        is_inside ? 0 : (sizeof(ps_intrusive_item) + align - 1) / align * align;

    static ps_intrusive_item *item_of(const T *object) noexcept {
        if constexpr (is_inside) {
            return object->ps_item();
        } else {
            auto *bytes = reinterpret_cast<char *>(const_cast<T *>(object));
            return reinterpret_cast<ps_intrusive_item *>(bytes - sizeof(ps_intrusive_item));
        }
    }
    static std::size_t item_offset() noexcept {
        if constexpr (is_inside) {
            // Of a base that is not virtual, so the same for all; no object is read.
            alignas(T) static char place[sizeof(T)];
            const T *object = reinterpret_cast<const T *>(place);
            const item_base *base = object;
            return static_cast<std::size_t>(reinterpret_cast<const char *>(base) - place);
        } else {
            return in_front - sizeof(ps_intrusive_item);
        }
    }
    // From the item's address, whether the object is constructed or not.
    static T *object_of(ps_intrusive_item *item, std::size_t offset) noexcept {
        return reinterpret_cast<T *>(reinterpret_cast<char *>(item) - offset + in_front);
    }
};

} // namespace detail

template <class T, class Count = plain_count> class ref;

template <class T, class U, class C>
bool operator==(const ref<T, C> &a, const ref<U, C> &b) noexcept {
    return a.get() == b.get();
}
template <class T, class U, class C>
bool operator!=(const ref<T, C> &a, const ref<U, C> &b) noexcept {
    return a.get() != b.get();
}
template <class T, class C> bool operator<(const ref<T, C> &a, const ref<T, C> &b) noexcept {
    return a.is_before(b);
}

// The only reference to an object; a count that is never counted. Converts to ref<T> when moved.
template <class T, class Count = plain_count> class unique_ref;

// A counted reference to an object of a pool, or empty. One pointer wide.
template <class T, class Count> class ref {
  public:
    using element_type = T;

    constexpr ref() noexcept = default;
    constexpr ref(std::nullptr_t) noexcept {}
    // Takes a reference to an object that has one.
    explicit ref(T *object) noexcept : object_(object) { take(); }
    // Takes over a reference that was detached.
    static ref adopt(T *object) noexcept {
        ref result;
        result.object_ = object;
        return result;
    }
    ref(const ref &other) noexcept : object_(other.object_) { take(); }
    ref(ref &&other) noexcept : object_(other.detach()) {}
    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *>>>
    ref(const ref<U, Count> &other) noexcept : ref(converted(other.get())) {}
    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *>>>
    ref(ref<U, Count> &&other) noexcept : object_(converted(other.detach())) {}
    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *>>>
    ref(unique_ref<U, Count> &&other) noexcept : object_(converted(other.detach())) {}
    ~ref() { drop(); }

    ref &operator=(const ref &other) noexcept {
        ref(other).swap(*this);
        return *this;
    }
    ref &operator=(ref &&other) noexcept {
        ref(std::move(other)).swap(*this);
        return *this;
    }

    T *get() const noexcept { return object_; }
    T &operator*() const noexcept { return *object_; }
    T *operator->() const noexcept { return object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    void reset() noexcept { ref().swap(*this); }
    void swap(ref &other) noexcept { std::swap(object_, other.object_); }
    // The pointer with its reference: for boost::intrusive_ptr<T>(p, false), or adopt.
    T *detach() noexcept { return std::exchange(object_, nullptr); }
    std::uint32_t use_count() const noexcept { return object_ ? Count::get(item()) : 0; }

    bool is_before(const ref &other) const noexcept {
        return reinterpret_cast<std::uintptr_t>(object_) <
               reinterpret_cast<std::uintptr_t>(other.object_);
    }

    friend void swap(ref &a, ref &b) noexcept { a.swap(b); }
    friend bool operator==(const ref &a, std::nullptr_t) noexcept { return !a; }
    friend bool operator!=(const ref &a, std::nullptr_t) noexcept { return bool(a); }

  private:
    template <class U> static T *converted(U *object) noexcept {
        using from = std::remove_cv_t<U>;
        using to = std::remove_cv_t<T>;
        static_assert(std::is_same_v<from, to> || (std::is_base_of_v<detail::item_base, from> &&
                                                   std::is_base_of_v<detail::item_base, to>),
                      "references to a base need the count in the base");
        return object;
    }
    ps_intrusive_item *item() const noexcept {
        return detail::placement<std::remove_cv_t<T>, Count>::item_of(object_);
    }
    void take() noexcept {
        if (object_) {
            Count::take(item());
        }
    }
    void drop() noexcept {
        if (object_) {
            Count::drop(item());
        }
    }

    T *object_ = nullptr;
};

template <class T, class Count> class unique_ref {
  public:
    using element_type = T;

    constexpr unique_ref() noexcept = default;
    constexpr unique_ref(std::nullptr_t) noexcept {}
    // Takes over `other` if it is the only reference; otherwise this is empty and other unchanged.
    explicit unique_ref(ref<T, Count> &&other) noexcept
        : object_(other.use_count() == 1 ? other.detach() : nullptr) {}
    unique_ref(unique_ref &&other) noexcept : object_(other.detach()) {}
    unique_ref &operator=(unique_ref &&other) noexcept {
        unique_ref(std::move(other)).swap(*this);
        return *this;
    }
    ~unique_ref() { ref<T, Count>::adopt(object_); }

    T *get() const noexcept { return object_; }
    T &operator*() const noexcept { return *object_; }
    T *operator->() const noexcept { return object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    void reset() noexcept { unique_ref().swap(*this); }
    void swap(unique_ref &other) noexcept { std::swap(object_, other.object_); }
    T *detach() noexcept { return std::exchange(object_, nullptr); }

  private:
    T *object_ = nullptr;
};

} // namespace ps

template <class T, class Count> struct std::hash<ps::ref<T, Count>> {
    std::size_t operator()(const ps::ref<T, Count> &reference) const noexcept {
        return std::hash<T *>()(reference.get());
    }
};

#endif
