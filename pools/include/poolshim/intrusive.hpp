// SPDX-License-Identifier: MIT
// intrusive.hpp - ps::intrusive_pool<T> and its handles: intrusive.h in C++17.
//
//     struct Session : ps::intrusive_item<> {
//         void init(int descriptor);
//         void destroy();
//     };
//     ps::intrusive_pool<Session, ps::reuse_destroy> pool;
//     ps::ref<Session> session = pool.allocate_through_init(7);
//
// Policy: how an object is constructed and destroyed for each use.
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
// A free object of ps::reuse is not destroyed, and still owns its references. Let it drop
// references to objects of its own pool when it is recycled, else the pool's memory is never freed.
#ifndef POOLSHIM_INTRUSIVE_HPP
#define POOLSHIM_INTRUSIVE_HPP

#include <poolshim/detail.hpp>
#include <poolshim/intrusive.h>
#include <poolshim/ref.hpp>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace ps {

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
            PS_THROW(std::bad_alloc());
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
    // The memory is freed with the last live object.
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

    void reset() noexcept { ps_intrusive_reset(&pool_); }
    [[deprecated("use reset")]] void clear() noexcept { reset(); }
    void reserve(std::size_t items) {
        if (!ps_intrusive_reserve(&pool_, items)) {
            PS_THROW(std::bad_alloc());
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

    // A constructor that ran has zeroed an item inside the object, except the references that it
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
                PS_THROW(std::bad_alloc());
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

#endif
