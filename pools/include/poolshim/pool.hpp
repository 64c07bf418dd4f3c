// SPDX-License-Identifier: MIT
// pool.hpp - the pools of poolshim/pool.h for C++17.
//
//     ps::node_pool       memory for objects of a size chosen at run time
//     ps::pool<T>         creates and destroys objects; those that live when the pool goes are
//                         forgotten, not destroyed: for many short lives, or trivial destructors
//     ps::object_pool<T>  an ordered pool; destroys the objects that live when it goes or is reset
//     ps::unchecked_node_pool, ps::unchecked_pool<T>  the first two, which PS_DEBUG does not
//                         concern; put and destroy are two instructions shorter and take no NULL
//
// A pool may be moved, its objects do not move. One thread at a time. Functions that throw say so:
// std::bad_alloc where the C function returns NULL, and the exceptions of a constructor; the pool
// is then as it was.
#ifndef POOLSHIM_POOL_HPP
#define POOLSHIM_POOL_HPP

#include <cstddef>
#include <memory>
#include <new>
#include <poolshim/detail.hpp>
#include <poolshim/pool.h>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace ps {

using pool_options = ::ps_pool_options;

class node_pool {
  public:
    // Throws std::invalid_argument where ps_pool_init returns false.
    explicit node_pool(std::size_t bytes, std::size_t align = 0, const pool_options &options = {}) {
        if (!ps_pool_init(&pool_, bytes, align, &options)) {
            PS_THROW(std::invalid_argument("ps::node_pool: size or alignment"));
        }
    }
    ~node_pool() { ps_pool_destroy(&pool_); }
    node_pool(node_pool &&other) noexcept { ps_pool_move(&pool_, &other.pool_); }
    node_pool &operator=(node_pool &&other) noexcept {
        if (this != &other) {
            ps_pool_destroy(&pool_);
            ps_pool_move(&pool_, &other.pool_);
        }
        return *this;
    }
    node_pool(const node_pool &) = delete;
    node_pool &operator=(const node_pool &) = delete;

    // One object, NULL when memory is exhausted.
    void *try_get() { return ps_pool_alloc(&pool_); }
    // One object, NULL when the pool would have to grow.
    void *try_get_kept() noexcept { return ps_pool_try_alloc(&pool_); }
    void *get() { return detail::checked(ps_pool_alloc(&pool_)); }
    void put(void *object) noexcept { ps_pool_free(&pool_, object); }
    void *get_n(std::size_t count) { return detail::checked(ps_pool_alloc_n(&pool_, count)); }
    void put_n(void *array, std::size_t count) noexcept { ps_pool_free_n(&pool_, array, count); }

    // For adapters: an object, or as many side by side as `bytes` take.
    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        if (__builtin_expect(bytes <= pool_.stride && align <= pool_.align, 1)) {
            return get();
        }
        if (align > pool_.align) {
            PS_THROW(std::bad_alloc());
        }
        return get_n(count_for(bytes));
    }
    void deallocate(void *memory, std::size_t bytes,
                    std::size_t align = PS_ALIGN_DEFAULT) noexcept {
        (void)align;
        if (__builtin_expect(bytes <= pool_.stride, 1)) {
            put(memory);
        } else {
            put_n(memory, count_for(bytes));
        }
    }

    bool reserve(std::size_t count) { return ps_pool_reserve(&pool_, count); }
    // False: more objects than that are in use or free for reuse.
    bool set_max_items(std::size_t max_items) noexcept {
        return ps_pool_set_max_items(&pool_, max_items);
    }
    void set_growth(std::size_t next_bytes, std::size_t max_bytes = 0) noexcept {
        ps_pool_set_growth(&pool_, next_bytes, max_bytes);
    }
    void reset() noexcept { ps_pool_reset(&pool_); }
    std::size_t trim_to(std::size_t keep_bytes) noexcept {
        return ps_pool_trim_to(&pool_, keep_bytes);
    }
    [[deprecated("use trim_to")]] std::size_t trim() noexcept { return trim_to(0); }
    bool owns(const void *address) noexcept { return ps_pool_owns(&pool_, address); }
    struct ::ps_pool_stats stats() noexcept {
        struct ::ps_pool_stats result;
        ::ps_pool_stats(&pool_, &result);
        return result;
    }
    ::ps_pool *c_pool() noexcept { return &pool_; }

  private:
    std::size_t count_for(std::size_t bytes) const noexcept {
        return bytes / pool_.stride + (bytes % pool_.stride != 0);
    }

    ::ps_pool pool_;
};

// is_unchecked of the options, always. put, deallocate: not NULL.
class unchecked_node_pool : public node_pool {
  public:
    explicit unchecked_node_pool(std::size_t bytes, std::size_t align = 0,
                                 const pool_options &options = {})
        : node_pool(bytes, align, unchecked(options)) {}

    void put(void *object) noexcept { ps_pool_free_unchecked(c_pool(), object); }
    void deallocate(void *memory, std::size_t bytes,
                    std::size_t align = PS_ALIGN_DEFAULT) noexcept {
        if (__builtin_expect(bytes <= c_pool()->stride, 1)) {
            put(memory);
        } else {
            node_pool::deallocate(memory, bytes, align);
        }
    }

  private:
    static pool_options unchecked(pool_options options) {
        options.is_unchecked = true;
        return options;
    }
};

// The common part of pool, unchecked_pool and object_pool.
template <class T, class Nodes = node_pool> class typed_pool {
  public:
    using value_type = T;

    // An object; arguments go to its constructor. Throws std::bad_alloc, and the exceptions of
    // that.
    template <class... Arguments> T *create(Arguments &&...arguments) {
        void *memory = nodes_.get();
        if constexpr (std::is_nothrow_constructible_v<T, Arguments...>) {
            return ::new (memory) T(std::forward<Arguments>(arguments)...);
        } else {
            guard back{this, memory, 1};
            T *object = ::new (memory) T(std::forward<Arguments>(arguments)...);
            back.memory = nullptr;
            return object;
        }
    }
    // NULL does nothing; in an unchecked pool it is not allowed.
    void destroy(T *object) noexcept {
        if (is_unchecked || object != nullptr) {
            object->~T();
            nodes_.put(object);
        }
    }
    // `count` objects side by side, value-initialised; 0 counts as 1. When a constructor throws,
    // those that were made before it are destroyed.
    T *create_n(std::size_t count) {
        count = count != 0 ? count : 1;
        void *memory = nodes_.get_n(count);
        guard back{this, memory, count};
        std::uninitialized_value_construct_n(static_cast<T *>(memory), count);
        back.memory = nullptr;
        return static_cast<T *>(memory);
    }
    void destroy_n(T *array, std::size_t count) noexcept {
        if (array != nullptr) {
            std::destroy_n(array, count != 0 ? count : 1);
            nodes_.put_n(array, count);
        }
    }

    // A handle that destroys the object when it goes; the pool must be there still, unmoved.
    struct deleter {
        typed_pool *pool;
        void operator()(T *object) const noexcept { pool->destroy(object); }
    };
    using unique_ptr = std::unique_ptr<T, deleter>;
    template <class... Arguments> unique_ptr make_unique(Arguments &&...arguments) {
        return unique_ptr(create(std::forward<Arguments>(arguments)...), deleter{this});
    }

    bool reserve(std::size_t count) { return nodes_.reserve(count); }
    bool set_max_items(std::size_t max_items) noexcept { return nodes_.set_max_items(max_items); }
    void set_growth(std::size_t next_bytes, std::size_t max_bytes = 0) noexcept {
        nodes_.set_growth(next_bytes, max_bytes);
    }
    std::size_t trim_to(std::size_t keep_bytes) noexcept { return nodes_.trim_to(keep_bytes); }
    [[deprecated("use trim_to")]] std::size_t trim() noexcept { return trim_to(0); }
    bool owns(const void *address) noexcept { return nodes_.owns(address); }
    auto stats() noexcept { return nodes_.stats(); }
    ::ps_pool *c_pool() noexcept { return nodes_.c_pool(); }

  protected:
    explicit typed_pool(const pool_options &options) : nodes_(sizeof(T), alignof(T), options) {}
    typed_pool(typed_pool &&) noexcept = default;
    typed_pool &operator=(typed_pool &&) noexcept = default;
    ~typed_pool() = default;

    Nodes nodes_;

  private:
    static constexpr bool is_unchecked = std::is_same_v<Nodes, unchecked_node_pool>;

    struct guard {
        typed_pool *pool;
        void *memory;
        std::size_t count;
        ~guard() {
            if (memory != nullptr) {
                pool->nodes_.put_n(memory, count);
            }
        }
    };
};

// The common part of pool and unchecked_pool.
template <class T, class Nodes> class forgetful_pool : public typed_pool<T, Nodes> {
  public:
    // What ps::allocator may put into one object: as ps_pool_init rounds them.
    static constexpr std::size_t slot_align = sizeof(T) > sizeof(void *) &&
                                                      alignof(T) < sizeof(void *)
                                                  ? sizeof(void *)
                                                  : alignof(T);
    static constexpr std::size_t slot_bytes =
        (sizeof(T) + slot_align - 1) / slot_align * slot_align;

    explicit forgetful_pool(const pool_options &options) : typed_pool<T, Nodes>(options) {}

    // Memory for one T, for adapters; see node_pool.
    void *allocate(std::size_t bytes, std::size_t align = alignof(T)) {
        return this->nodes_.allocate(bytes, align);
    }
    void deallocate(void *memory, std::size_t bytes, std::size_t align = alignof(T)) noexcept {
        this->nodes_.deallocate(memory, bytes, align);
    }
    // Forgets all objects.
    void reset() noexcept { this->nodes_.reset(); }
};

template <class T> class pool : public forgetful_pool<T, node_pool> {
  public:
    explicit pool(const pool_options &options = {}) : forgetful_pool<T, node_pool>(options) {}
};

template <class T> class unchecked_pool : public forgetful_pool<T, unchecked_node_pool> {
  public:
    explicit unchecked_pool(const pool_options &options = {})
        : forgetful_pool<T, unchecked_node_pool>(options) {}
};

template <class T> class object_pool : public typed_pool<T> {
  public:
    explicit object_pool(const pool_options &options = {}) : typed_pool<T>(ordered(options)) {}
    ~object_pool() { reset(); }
    object_pool(object_pool &&) noexcept = default;
    object_pool &operator=(object_pool &&other) noexcept {
        if (this != &other) {
            reset();
            typed_pool<T>::operator=(std::move(other));
        }
        return *this;
    }

    // Calls visit(T &) for each live object, in any order; it may not use the pool.
    template <class Visitor> void each(Visitor &&visit) {
        using Plain = std::remove_reference_t<Visitor>;
        ps_pool_each(
            this->nodes_.c_pool(),
            [](void *object, void *context) {
                (*static_cast<Plain *>(context))(*static_cast<T *>(object));
            },
            const_cast<std::remove_const_t<Plain> *>(std::addressof(visit)));
    }
    // Destroys the live objects. Their destructors may not use the pool. ~object_pool does the same
    // first: destroyed objects are no leak for PS_DEBUG=leaks.
    void reset() noexcept {
        destroy_live();
        this->nodes_.reset();
    }

  private:
    static pool_options ordered(pool_options options) {
        options.is_ordered = true;
        return options;
    }
    void destroy_live() noexcept {
        if constexpr (!std::is_trivially_destructible_v<T>) {
            each([](T &object) { object.~T(); });
        }
    }
};

} // namespace ps

#endif
