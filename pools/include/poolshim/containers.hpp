// SPDX-License-Identifier: MIT
// containers.hpp - containers of std, Boost and Abseil whose nodes come from a pool of their size.
//
//     ps::node_allocator<T>         an allocator that makes the pool by itself
//     ps::node_size<Container>      bytes and alignment of a container's nodes, for a pool by hand
//
//     using entry = std::pair<const int, double>;
//     std::map<int, double, std::less<>, ps::node_allocator<entry>> rates;
//
//     using list = std::list<int, ps::allocator<int, ps::node_pool>>;    // adapters.hpp
//     ps::node_pool pool(ps::node_size<list>::bytes, ps::node_size<list>::align);
//     list numbers{list::allocator_type(pool)};
//
// A node has the value and the links of the container: 24 bytes for the int of a std::list, 40 for
// that of a std::set. So a ps::pool<int> fits neither, and ps::allocator refuses it as it compiles.
//
// node_allocator decides at the first single object that a container allocates: objects of that
// type come from a pool of exactly its size, and all else, such as arrays of buckets, is of
// ps::slices. It suits std::list, forward_list, map, set, multimap, multiset, the unordered ones,
// and std::allocate_shared; std::vector, string and deque have no nodes, and take slices by it.
//
// Copies of an allocator share the pool, which ends with the last of them. A copy of a container
// has a pool of its own; one that is moved or swapped takes its pool along. Threads: one at a time
// for all that share a pool. Cost: an allocation by new for the pool; a node as ps_pool_alloc.
#ifndef POOLSHIM_CONTAINERS_HPP
#define POOLSHIM_CONTAINERS_HPP

#include <poolshim/detail.hpp>
#include <poolshim/pool.h>
#include <poolshim/slice.hpp>

#include <cstddef>
#include <forward_list>
#include <limits>
#include <list>
#include <new>
#include <type_traits>

namespace ps {

namespace detail {

// The pool that allocators share.
class node_state {
  public:
    explicit node_state(const ::ps_pool_options &options) noexcept : options_(options) {}
    node_state(const node_state &) = delete;
    node_state &operator=(const node_state &) = delete;
    ~node_state() {
        if (key_ != 0) {
            ps_pool_destroy(&pool_);
        }
    }

    // Different for types that cannot share a pool. Never 0.
    template <class T>
    static constexpr std::size_t key_of = sizeof(T) * (2 * PS_POOL_ALIGN_MAX) + alignof(T);

    template <class T> bool serves() const noexcept { return key_ == key_of<T>; }
    // False: another type was first.
    template <class T> bool begin() noexcept {
        if (key_ == 0 && ps_pool_init(&pool_, sizeof(T), alignof(T), &options_)) {
            key_ = key_of<T>;
        }
        return serves<T>();
    }
    const ::ps_pool_options &options() const noexcept { return options_; }
    ::ps_pool *pool() noexcept { return &pool_; }
    bool has_pool() const noexcept { return key_ != 0; }
    void share() noexcept { owner_count_++; }
    bool leave() noexcept { return --owner_count_ == 0; }

  private:
    std::size_t key_ = 0; // of the type of all nodes; 0: no node so far
    ::ps_pool pool_;
    std::size_t owner_count_ = 1;
    ::ps_pool_options options_;
};

} // namespace detail

template <class T> class node_allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;

    // options: of the pool; see poolshim/pool.h. Throws std::bad_alloc.
    node_allocator() : node_allocator(::ps_pool_options()) {}
    explicit node_allocator(const ::ps_pool_options &options)
        : state_(new detail::node_state(options)) {}
    node_allocator(const node_allocator &other) noexcept : state_(other.state()) {
        state_->share();
    }
    template <class U>
    node_allocator(const node_allocator<U> &other) noexcept : state_(other.state()) {
        state_->share();
    }
    node_allocator &operator=(const node_allocator &other) noexcept {
        other.state_->share();
        leave();
        state_ = other.state_;
        return *this;
    }
    ~node_allocator() { leave(); }

    // Throws std::bad_alloc when memory is exhausted; std::bad_array_new_length, which is one, when
    // the size overflows.
    T *allocate(std::size_t count) {
        if (__builtin_expect(count == 1, 1) &&
            (__builtin_expect(state_->serves<T>(), 1) || state_->template begin<T>())) {
            return static_cast<T *>(detail::checked(ps_pool_alloc(state_->pool())));
        }
        if (count > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T)) {
            PS_THROW(std::bad_array_new_length());
        }
        return static_cast<T *>(slices().allocate(count * sizeof(T), alignof(T)));
    }
    void deallocate(T *pointer, std::size_t count) noexcept {
        if (__builtin_expect(count == 1, 1) && __builtin_expect(state_->serves<T>(), 1)) {
            ps_pool_free(state_->pool(), pointer);
        } else {
            slices().deallocate(pointer, count * sizeof(T), alignof(T));
        }
    }

    node_allocator select_on_container_copy_construction() const {
        return node_allocator(state_->options());
    }

    // Of the pool of the nodes; all 0 before the first one.
    struct ::ps_pool_stats stats() const noexcept {
        struct ::ps_pool_stats result = {};
        if (state_->has_pool()) {
            ::ps_pool_stats(state_->pool(), &result);
        }
        return result;
    }
    // For ps_pool_reserve, ps_pool_trim_to and others; nullptr before the first node.
    ::ps_pool *c_pool() const noexcept { return state_->has_pool() ? state_->pool() : nullptr; }

    detail::node_state *state() const noexcept { return state_; }

  private:
    void leave() noexcept {
        if (state_->leave()) {
            delete state_;
        }
    }

    detail::node_state *state_;
};

template <class T, class U>
bool operator==(const node_allocator<T> &a, const node_allocator<U> &b) noexcept {
    return a.state() == b.state();
}
template <class T, class U>
bool operator!=(const node_allocator<T> &a, const node_allocator<U> &b) noexcept {
    return !(a == b);
}

namespace detail {

template <class> inline constexpr bool is_never = false;

// The handles of nodes of std have the allocator of nodes as their last argument in libstdc++.
template <class Handle> struct node_of_handle;
template <template <class, class, class> class Handle, class Key, class Value, class Nodes>
struct node_of_handle<Handle<Key, Value, Nodes>> {
    using type = typename Nodes::value_type;
};

template <class Container, class = void> struct node_of_other {
    static_assert(is_never<Container>, "poolshim: ps::node_size knows no nodes of this container. "
                                       "ps::node_allocator<T> fits any container.");
};
// Boost.Container
template <class Container>
struct node_of_other<Container,
                     std::void_t<typename Container::stored_allocator_type::value_type>> {
    using type = typename Container::stored_allocator_type::value_type;
};
template <class Container, class = void> struct node_of : node_of_other<Container> {};
template <class Container>
struct node_of<Container, std::void_t<typename node_of_handle<typename Container::node_type>::type>>
    : node_of_handle<typename Container::node_type> {};
// These have no handles of nodes: the links, then the value, in libstdc++ and libc++.
template <class T, std::size_t link_count> struct linked {
    void *links[link_count];
    alignas(T) unsigned char value[sizeof(T)];
};
template <class T, class Allocator> struct node_of<std::list<T, Allocator>> {
    using type = linked<T, 2>;
};
template <class T, class Allocator> struct node_of<std::forward_list<T, Allocator>> {
    using type = linked<T, 1>;
};

} // namespace detail

// Of one node: for the containers of std with nodes, and those of Boost.Container.
template <class Container> struct node_size {
    static constexpr std::size_t bytes = sizeof(typename detail::node_of<Container>::type);
    static constexpr std::size_t align = alignof(typename detail::node_of<Container>::type);
};

} // namespace ps

#endif
