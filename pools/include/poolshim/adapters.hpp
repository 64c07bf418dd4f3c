// SPDX-License-Identifier: MIT
// adapters.hpp - pools where the standard library takes an allocator, and pools made of pools.
//
//     ps::resource<Pool>                     std::pmr::memory_resource
//     ps::allocator<T, Pool>                 for std::vector<T, ...>; for std::list, std::map and
//                                            others with nodes better that of containers.hpp
//     ps::deleter<T, Pool>                   for std::unique_ptr<T, ...>
//     ps::make_unique<T>(pool, ...)          makes one of these
//     ps::fallback<First, Second>            Second serves what First refuses
//     ps::segregator<Limit, Small, Large>    by size
//     ps::no_free<Pool>                      frees nothing by itself
//
// A Pool is any class with
//     void *allocate(std::size_t bytes, std::size_t align);  // throws std::bad_alloc
//     void deallocate(void *, std::size_t bytes, std::size_t align) noexcept;
// as all classes of this library have; fallback also needs First::owns(const void *), and uses
// try_allocate(bytes, align) noexcept, which gives nullptr, where First has it.
//
// Adapters refer to the pool, which outlives them and what they allocated; an empty Pool, such as
// ps::slices, needs no object. Threads: as the pool. One pointer wide, and the cost of a call of
// the pool, inlined; resource<Pool> adds the virtual call that std::pmr has by itself.
//
//     ps::slices pool;
//     using of_int = ps::allocator<int, ps::slices>;
//     std::vector<int, of_int> numbers{of_int(pool)};
//     ps::resource<ps::slices> resource(pool);
//     std::pmr::vector<std::pmr::string> names(&resource);
//
// Containers that die with a region, a frame or a stack's frame need not free their memory before:
//     ps::no_free document(region);
//     ps::resource<decltype(document)> resource(document);
//     std::pmr::map<std::pmr::string, int> counts(&resource);
//
// The compositions follow foonathan/memory.
#ifndef POOLSHIM_ADAPTERS_HPP
#define POOLSHIM_ADAPTERS_HPP

#include <poolshim/common.h>
#include <poolshim/detail.hpp>

#include <cstddef>
#include <limits>
#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

namespace ps {

template <class Pool> class no_free;

namespace detail {

// Whether an object of a pool of one type, which says how long and how aligned its objects are, has
// room for a T. Pools of many sizes say nothing, and take any.
template <class Pool, class T, class = void> struct has_room : std::true_type {};
template <class Pool, class T>
struct has_room<Pool, T, std::void_t<decltype(Pool::slot_bytes)>>
    : std::bool_constant<(sizeof(T) <= Pool::slot_bytes && alignof(T) <= Pool::slot_align)> {};

// A reference to a pool, which takes no room when the pool is empty.
template <class Pool, bool is_empty = std::is_empty_v<Pool>> class pool_reference {
  public:
    pool_reference(Pool &pool) noexcept : pool_(&pool) {}
    Pool &get() const noexcept { return *pool_; }
    bool is_same(const pool_reference &other) const noexcept { return pool_ == other.pool_; }

  private:
    Pool *pool_;
};
template <class Pool> class pool_reference<Pool, true> {
  public:
    pool_reference() noexcept = default;
    pool_reference(Pool &) noexcept {}
    Pool get() const noexcept { return Pool(); }
    bool is_same(const pool_reference &) const noexcept { return true; }
};

// This one is a reference itself.
template <class Pool> class pool_reference<no_free<Pool>, false> {
  public:
    pool_reference(no_free<Pool> &pool) noexcept : pool_(pool) {}
    no_free<Pool> get() const noexcept { return pool_; }
    bool is_same(const pool_reference &other) const noexcept { return pool_ == other.pool_; }

  private:
    no_free<Pool> pool_;
};

// An object of a class with state cannot come from nowhere.
template <class Pool>
using if_empty = std::enable_if_t<std::is_empty_v<Pool> && std::is_default_constructible_v<Pool>>;

template <class Pool, class = void> struct has_try_allocate : std::false_type {};
template <class Pool>
struct has_try_allocate<
    Pool, std::void_t<decltype(std::declval<Pool &>().try_allocate(std::size_t(), std::size_t()))>>
    : std::true_type {};

template <class Pool>
void *try_allocate(Pool &pool, std::size_t bytes, std::size_t align) noexcept {
    if constexpr (has_try_allocate<Pool>::value) {
        return pool.try_allocate(bytes, align);
    } else {
        return attempt(pool, bytes, align);
    }
}

} // namespace detail

// Equal when both are of the same pool; without RTTI only to itself, so that containers whose
// resources are two of one pool move their elements singly.
template <class Pool> class resource final : public std::pmr::memory_resource {
  public:
    template <class P = Pool, class = detail::if_empty<P>> resource() noexcept {}
    explicit resource(Pool &pool) noexcept : pool_(pool) {}

  private:
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return pool_.get().allocate(bytes, align);
    }
    void do_deallocate(void *pointer, std::size_t bytes, std::size_t align) override {
        pool_.get().deallocate(pointer, bytes, align);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        if (this == &other) {
            return true;
        }
        const auto *same = detail::as<resource>(&other);
        return same != nullptr && pool_.is_same(same->pool_);
    }

    detail::pool_reference<Pool> pool_;
};

// A container that is moved or swapped takes its pool along; assignment does not change a
// container's pool; a copy has the pool of the original.
template <class T, class Pool> class allocator : private detail::pool_reference<Pool> {
    using base = detail::pool_reference<Pool>;

  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::is_empty<Pool>;
    template <class U> struct rebind {
        using other = allocator<U, Pool>;
    };

    template <class P = Pool, class = detail::if_empty<P>> allocator() noexcept {}
    allocator(Pool &pool) noexcept : base(pool) {}
    template <class U>
    allocator(const allocator<U, Pool> &other) noexcept : base(other.reference()) {}

    // std::bad_alloc when the pool has no memory; std::bad_array_new_length, which is one, when
    // the size overflows.
    T *allocate(std::size_t count) {
        static_assert(
            detail::has_room<Pool, T>::value,
            "poolshim: the objects of this pool are shorter or less aligned than what the "
            "container allocates, as its nodes are longer than its values. Use "
            "ps::node_allocator<T> of <poolshim/containers.hpp>, or a ps::node_pool of "
            "ps::node_size<Container>.");
        if (count > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T)) {
            PS_THROW(std::bad_array_new_length());
        }
        return static_cast<T *>(this->get().allocate(count * sizeof(T), alignof(T)));
    }
    void deallocate(T *pointer, std::size_t count) noexcept {
        this->get().deallocate(pointer, count * sizeof(T), alignof(T));
    }

    const base &reference() const noexcept { return *this; }
};

template <class T, class U, class Pool>
bool operator==(const allocator<T, Pool> &a, const allocator<U, Pool> &b) noexcept {
    return a.reference().is_same(b.reference());
}
template <class T, class U, class Pool>
bool operator!=(const allocator<T, Pool> &a, const allocator<U, Pool> &b) noexcept {
    return !(a == b);
}

// Destroys and returns to the pool. T is the type that was made, not a base of it.
template <class T, class Pool> class deleter : private detail::pool_reference<Pool> {
  public:
    using pointer = T *;
    template <class P = Pool, class = detail::if_empty<P>> deleter() noexcept {}
    explicit deleter(Pool &pool) noexcept : detail::pool_reference<Pool>(pool) {}
    void operator()(T *object) const noexcept {
        object->~T();
        this->get().deallocate(object, sizeof(T), alignof(T));
    }
};

// Of arrays: stores the number of elements.
template <class T, class Pool> class deleter<T[], Pool> : private detail::pool_reference<Pool> {
  public:
    using pointer = T *;
    template <class P = Pool, class = detail::if_empty<P>> deleter() noexcept {}
    deleter(Pool &pool, std::size_t count) noexcept
        : detail::pool_reference<Pool>(pool), count_(count) {}
    void operator()(T *first) const noexcept {
        for (std::size_t index = count_; index > 0; index--) {
            first[index - 1].~T();
        }
        this->get().deallocate(first, count_ * sizeof(T), alignof(T));
    }

  private:
    std::size_t count_ = 0;
};

template <class T, class Pool> using unique_ptr = std::unique_ptr<T, deleter<T, Pool>>;

// An object of the pool: T(arguments...). When the constructor throws, the memory is freed.
template <class T, class Pool, class... Arguments, class = std::enable_if_t<!std::is_array_v<T>>>
unique_ptr<T, Pool> make_unique(Pool &pool, Arguments &&...arguments) {
    struct returner {
        Pool &pool;
        void *memory;
        ~returner() {
            if (memory != nullptr) {
                pool.deallocate(memory, sizeof(T), alignof(T));
            }
        }
    };
    returner guard{pool, pool.allocate(sizeof(T), alignof(T))};
    T *object = ::new (guard.memory) T(std::forward<Arguments>(arguments)...);
    guard.memory = nullptr;
    return unique_ptr<T, Pool>(object, deleter<T, Pool>(pool));
}

// make_unique<T[]>(pool, count): elements T().
template <class Array, class Pool, class = std::enable_if_t<std::is_array_v<Array>>>
unique_ptr<Array, Pool> make_unique(Pool &pool, std::size_t count) {
    using element = std::remove_extent_t<Array>;
    allocator<element, Pool> memory(pool);
    struct returner {
        allocator<element, Pool> &memory;
        element *first;
        std::size_t count;
        ~returner() {
            if (first != nullptr) {
                memory.deallocate(first, count);
            }
        }
    };
    returner guard{memory, memory.allocate(count), count};
    std::uninitialized_value_construct_n(guard.first, count);
    element *first = guard.first;
    guard.first = nullptr;
    return unique_ptr<Array, Pool>(first, deleter<Array, Pool>(pool, count));
}

// Two pools as one: requests that First refuses go to Second. First::owns decides which one frees a
// block.
template <class First, class Second> class fallback {
  public:
    fallback(First &first, Second &second) noexcept : first_(&first), second_(&second) {}

    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        void *pointer = detail::try_allocate(*first_, bytes, align);
        return pointer != nullptr ? pointer : second_->allocate(bytes, align);
    }
    void *try_allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) noexcept {
        void *pointer = detail::try_allocate(*first_, bytes, align);
        return pointer != nullptr ? pointer : detail::try_allocate(*second_, bytes, align);
    }
    void deallocate(void *pointer, std::size_t bytes,
                    std::size_t align = PS_ALIGN_DEFAULT) noexcept {
        if (first_->owns(pointer)) {
            first_->deallocate(pointer, bytes, align);
        } else {
            second_->deallocate(pointer, bytes, align);
        }
    }
    template <class S = Second>
    auto owns(const void *pointer) const -> decltype(bool(std::declval<S &>().owns(pointer))) {
        return first_->owns(pointer) || second_->owns(pointer);
    }

  private:
    First *first_;
    Second *second_;
};

// Two pools as one: up to Limit bytes Small, above that Large.
template <std::size_t Limit, class Small, class Large> class segregator {
  public:
    segregator(Small &small, Large &large) noexcept : small_(&small), large_(&large) {}

    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        return bytes <= Limit ? small_->allocate(bytes, align) : large_->allocate(bytes, align);
    }
    void *try_allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) noexcept {
        return bytes <= Limit ? detail::try_allocate(*small_, bytes, align)
                              : detail::try_allocate(*large_, bytes, align);
    }
    void deallocate(void *pointer, std::size_t bytes,
                    std::size_t align = PS_ALIGN_DEFAULT) noexcept {
        if (bytes <= Limit) {
            small_->deallocate(pointer, bytes, align);
        } else {
            large_->deallocate(pointer, bytes, align);
        }
    }
    template <class S = Small>
    auto owns(const void *pointer) const -> decltype(bool(std::declval<S &>().owns(pointer))) {
        return small_->owns(pointer) || large_->owns(pointer);
    }

  private:
    Small *small_;
    Large *large_;
};

// A pool that is freed as a whole, without frees before: deallocate does nothing, and memory that a
// container outgrows is freed at the end of the region or the frame. Refers to the pool, which
// outlives it, and is copied freely. Pools that need every block freed (all but ps::region,
// ps::frames and ps::stack with its scopes) never reuse the memory. region.hpp has the form for
// regions.
template <class Pool> class no_free {
  public:
    explicit no_free(Pool &pool) noexcept : pool_(&pool) {}

    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) const {
        return pool_->allocate(bytes, align);
    }
    void *try_allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) const noexcept {
        return detail::try_allocate(*pool_, bytes, align);
    }
    void deallocate(void *, std::size_t, std::size_t = PS_ALIGN_DEFAULT) const noexcept {}
    template <class P = Pool>
    auto owns(const void *pointer) const -> decltype(bool(std::declval<P &>().owns(pointer))) {
        return pool_->owns(pointer);
    }

    friend bool operator==(const no_free &left, const no_free &right) noexcept {
        return left.pool_ == right.pool_;
    }

  private:
    Pool *pool_;
};

} // namespace ps

#endif
