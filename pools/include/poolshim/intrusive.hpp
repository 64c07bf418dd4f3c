// SPDX-License-Identifier: MIT
//
// intrusive.hpp - ps::intrusive_pool<T> and its handles: intrusive.h in C++17.
//
//     struct Session : ps::intrusive_item<> {
//         void init(int descriptor);
//         void destroy();
//     };
//     ps::intrusive_pool<Session, ps::reuse_destroy> pool;
//     ps::ref<Session> session = pool.allocate_through_init(7);
//
// Policy: what happens to the object at the ends of each use.
//     ps::per_use         constructed by allocate(args...), destroyed with the last reference
//     ps::reuse           constructed once, with T(), recycled as it is, destroyed with the memory
//     ps::reuse_destroy   as reuse, and object.destroy() ends each use
//     one of your own     derived from ps::reuse, with static void recycle(T &) noexcept
//   set_recycle() sets another function at run time, for pools of reuse without a recycle of
//   theirs.
//
// Count: ps::plain_count (one thread), or ps::atomic_count: references may be copied and dropped by
// any thread, also after the pool's end. The pool itself remains one thread's at a time.
//
// T may derive from ps::intrusive_item<Count>, and must not virtually; then references convert to
// ps::ref<Base> along with the pointers if Base does so too, and a raw pointer or *this becomes a
// reference again. Without that base the count lies in front of the object. Copying an object does
// not copy its count. No virtual functions, no dynamic_cast, no allocation but the pool's growth.
//
// A pool that is exhausted (max_items) gives an empty reference; std::bad_alloc means that there is
// no memory. When a constructor, init() or a function throws, the item is back in the pool, and the
// pool is as it was; recycle is not called for it. recycle and destructors must not throw.
//
// An object that ps::reuse keeps while it is free keeps what it refers to. Let it drop references
// to objects of its own pool when it is recycled, else they keep the pool's memory alive.
#ifndef POOLSHIM_INTRUSIVE_HPP
#define POOLSHIM_INTRUSIVE_HPP

#include <poolshim/intrusive.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
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
        // acquire: 1 means that this is the only reference, and what the others did is visible.
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
            // Of a base that is not virtual, so the same for all; no object is looked at.
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

// The only reference to an object; a count that is never counted. Converts to ref<T> when moved.
template <class T, class Count = plain_count> class unique_ref;

// A counted reference to an object of a pool, or empty. One pointer wide.
template <class T, class Count = plain_count> class ref {
  public:
    using element_type = T;

    constexpr ref() noexcept = default;
    constexpr ref(std::nullptr_t) noexcept {}
    // Takes a reference to an object that has one; is_taken: takes over one that was detached.
    explicit ref(T *object) noexcept : object_(object) { take(); }
    static ref adopt(T *object) noexcept {
        ref result;
        result.object_ = object;
        return result;
    }
    ref(const ref &other) noexcept : object_(other.object_) { take(); }
    ref(ref &&other) noexcept : object_(other.detach()) {}
    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *>>>
    ref(const ref<U, Count> &other) noexcept : object_(converted(other.get())) {
        take();
    }
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

template <class T, class U, class Count>
bool operator==(const ref<T, Count> &a, const ref<U, Count> &b) noexcept {
    return a.get() == b.get();
}
template <class T, class U, class Count>
bool operator!=(const ref<T, Count> &a, const ref<U, Count> &b) noexcept {
    return a.get() != b.get();
}
template <class T, class Count>
bool operator<(const ref<T, Count> &a, const ref<T, Count> &b) noexcept {
    return std::less<T *>()(a.get(), b.get());
}

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

struct per_use {
    static constexpr bool is_reused = false;
};
struct reuse {
    static constexpr bool is_reused = true;
};
struct reuse_destroy : reuse {
    template <class T> static void recycle(T &object) noexcept { object.destroy(); }
};

struct intrusive_options {
    std::size_t reserve_items = 0; // as in intrusive.h
    std::size_t step_items = 0;
    std::size_t max_items = 0;
    ps_chunk_options chunks = {};
};

template <class T, class Policy = per_use, class Count = plain_count> class intrusive_pool {
    using place = detail::placement<T, Count>;
    static_assert(place::align <= 4096, "objects are aligned to a page at most");
    template <class P, class = void> struct has_recycle : std::false_type {};
    template <class P>
    struct has_recycle<P, std::void_t<decltype(P::recycle(std::declval<T &>()))>> : std::true_type {
    };

  public:
    using value_type = T;
    using ref_type = ref<T, Count>;

    // Throws std::bad_alloc when the reserve is not to be had.
    explicit intrusive_pool(const intrusive_options &wanted = {}) {
        ps_intrusive_options options = {};
        options.chunks = wanted.chunks;
        options.bytes = place::in_front + sizeof(T);
        options.align = place::align;
        options.item_offset = place::item_offset();
        options.reserve_items = wanted.reserve_items;
        options.step_items = wanted.step_items;
        options.max_items = wanted.max_items;
        options.is_shared = Count::is_shared;
        options.last = is_plain ? nullptr : last;
        options.end = Policy::is_reused && !std::is_trivially_destructible_v<T> ? end : nullptr;
        if (!ps_intrusive_init(&pool_, &options)) {
            throw std::bad_alloc();
        }
    }
    intrusive_pool(intrusive_pool &&other) noexcept { ps_intrusive_move(&pool_, &other.pool_); }
    intrusive_pool &operator=(intrusive_pool &&other) noexcept {
        if (this != &other) {
            ps_intrusive_destroy(&pool_);
            ps_intrusive_move(&pool_, &other.pool_);
        }
        return *this;
    }
    // Objects that live keep the memory until the last of them goes.
    ~intrusive_pool() { ps_intrusive_destroy(&pool_); }

    // per_use: T(arguments...). reuse: the object as it was left, the first time T().
    template <class... Arguments> ref_type allocate(Arguments &&...arguments) {
        static_assert(!Policy::is_reused || sizeof...(Arguments) == 0,
                      "a reused object takes its arguments by allocate_through_init");
        return obtain([](T &) {}, std::forward<Arguments>(arguments)...);
    }

    // allocate(), then object.init(arguments...).
    template <class... Arguments> ref_type allocate_through_init(Arguments &&...arguments) {
        return obtain([&](T &object) { object.init(std::forward<Arguments>(arguments)...); });
    }

    // allocate(), then function(object). The function may destroy the object and construct it
    // again, if it leaves one.
    template <class Function> ref_type allocate_through_function(Function &&function) {
        return obtain([&](T &object) { std::forward<Function>(function)(object); });
    }

    // From now on `function` ends each use: Function(T &) or Function(T &, void *).
    template <auto Function> void set_recycle(void *context = nullptr) noexcept {
        static_assert(Policy::is_reused && is_plain, "the policy has an end of its own");
        ps_intrusive_set_recycle(
            &pool_,
            [](ps_intrusive_item *item, void *its_context) noexcept {
                if constexpr (std::is_invocable_v<decltype(Function), T &, void *>) {
                    Function(*object_of(item), its_context);
                } else {
                    Function(*object_of(item));
                }
            },
            context);
    }
    // Any callable, also a std::function; it must live as long as the last object.
    template <class Callable> void set_recycle(Callable &callable) noexcept {
        static_assert(Policy::is_reused && is_plain, "the policy has an end of its own");
        ps_intrusive_set_recycle(
            &pool_,
            [](ps_intrusive_item *item, void *context) noexcept {
                (*static_cast<Callable *>(context))(*object_of(item));
            },
            &callable);
    }
    void clear_recycle() noexcept { ps_intrusive_set_recycle(&pool_, nullptr, nullptr); }

    void clear() noexcept { ps_intrusive_clear(&pool_); }
    void reserve(std::size_t items) {
        if (!ps_intrusive_reserve(&pool_, items)) {
            throw std::bad_alloc();
        }
    }

    struct ps_intrusive_stats stats() const noexcept {
        struct ps_intrusive_stats result;
        ps_intrusive_stats(&pool_, &result);
        return result;
    }
    bool check() const noexcept { return ps_intrusive_check(&pool_); }
    bool is_exhausted() const noexcept { return ps_intrusive_is_exhausted(&pool_); }
    bool is_limited() const noexcept { return pool_.options.max_items != 0; }
    bool is_bounded() const noexcept {
        return is_limited() && pool_.options.max_items == pool_.options.reserve_items;
    }

  private:
    // Nothing happens at the end of a use, or a function that was set at run time.
    static constexpr bool is_plain =
        Policy::is_reused ? !has_recycle<Policy>::value : std::is_trivially_destructible_v<T>;

    static T *object_of(ps_intrusive_item *item) noexcept {
        return place::object_of(item, place::item_offset());
    }

    // Gives the item back when a function throws.
    struct returner {
        ps_intrusive_state *state;
        ps_intrusive_item *item;
        T *object;
        bool is_constructed;

        ~returner() {
            if (item == nullptr) {
                return;
            }
            if (!is_constructed) {
                *item = {};
                item->count = 1;
                ps_intrusive_undo(state, item);
                return;
            }
            intrusive_pool::settle(state, item);
            if constexpr (Policy::is_reused) {
                ps_intrusive_undo(state, item);
            } else {
                Count::drop(item);
            }
        }
    };

    // A constructor that ran has zeroed an item inside the object, but for the references that it
    // took itself.
    static void settle(ps_intrusive_state *state, ps_intrusive_item *item) noexcept {
        if (place::is_inside && item->link.owner == nullptr) {
            item->link.owner = state;
            Count::take(item);
        }
        item->is_built = Policy::is_reused;
    }

    template <class Function, class... Arguments>
    ref_type obtain(Function &&prepare, Arguments &&...arguments) {
        ps_intrusive_item *item = ps_intrusive_alloc(&pool_);
        if (item == nullptr) {
            if (!is_exhausted()) {
                throw std::bad_alloc();
            }
            return {};
        }
        ps_intrusive_state *state = item->link.owner;
        bool is_built = Policy::is_reused && item->is_built != 0;
        returner guard{state, item, object_of(item), is_built};
        if (!is_built) {
            ::new (static_cast<void *>(guard.object)) T(std::forward<Arguments>(arguments)...);
            guard.is_constructed = true;
            settle(state, item);
        }
        prepare(*guard.object);
        settle(state, item);
        guard.item = nullptr;
        return ref_type::adopt(guard.object);
    }

    static void last(ps_intrusive_state *state, ps_intrusive_item *item) {
        T *object = object_of(item);
        if constexpr (!Policy::is_reused) {
            object->~T();
            ps_intrusive_put(state, item);
        } else if constexpr (has_recycle<Policy>::value) {
            static_assert(noexcept(Policy::recycle(*object)), "recycle must be noexcept");
            Policy::recycle(*object);
            ps_intrusive_undo(state, item);
        }
    }

    static void end(ps_intrusive_item *item, void *) { object_of(item)->~T(); }

    ps_intrusive pool_;
};

} // namespace ps

template <class T, class Count> struct std::hash<ps::ref<T, Count>> {
    std::size_t operator()(const ps::ref<T, Count> &reference) const noexcept {
        return std::hash<T *>()(reference.get());
    }
};

#endif
