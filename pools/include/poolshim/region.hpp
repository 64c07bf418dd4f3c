// SPDX-License-Identifier: MIT
// region.hpp - regions for C++17. region.h is the manual; this describes the differences.
//
//     ps::region request;
//     Header *header = request.make<Header>(line);       // destroyed with the region
//     std::string_view path = request.copy(header->path());
//     request.on_destroy([fd] { close(fd); });
//
//     auto document = ps::make_root<Document>();         // an object that owns a region for its
//     document->parse(text, document.region());          // parts, both in one block
//
// ps::region owns a region and can be moved; ps::region_ref is a pointer to one, with the same
// functions. Both can be the pool of the adapters of adapters.hpp; of ps::no_free above all, with
// which containers that die with the region cost least. Functions that return NULL in C throw
// std::bad_alloc here. Destructors and callbacks that throw end the program.
#ifndef POOLSHIM_REGION_HPP
#define POOLSHIM_REGION_HPP

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <poolshim/detail.hpp>
#include <poolshim/region.h>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ps {

class region;

// A region that another owner ends. Copies refer to the same one.
class region_ref {
  public:
    region_ref(ps_region *other) noexcept : region_(other) {}

    ps_region *get() const noexcept { return region_; }

    // Raw memory. The adapters use allocate and deallocate; deallocate frees the newest block and
    // large ones, and leaves others to the region.
    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) const {
        return detail::checked(ps_region_alloc_aligned(region_, bytes, align));
    }
    void deallocate(void *block, std::size_t bytes, std::size_t align) const noexcept {
        ps_region_free(region_, block, bytes, align);
    }
    void *reallocate(void *block, std::size_t old_bytes, std::size_t new_bytes,
                     std::size_t align = PS_ALIGN_DEFAULT) const {
        return detail::checked(
            ps_region_realloc_aligned(region_, block, old_bytes, new_bytes, align));
    }
    // The same as allocate, and whether the block begins a chunk or is a large one.
    void *allocate_reporting(std::size_t bytes, std::size_t align, bool &starts_chunk) const {
        return detail::checked(ps_region_alloc_reporting(region_, bytes, align, &starts_chunk));
    }
    std::size_t capacity_left() const noexcept { return ps_region_capacity_left(region_); }
    void set_growth(std::size_t next_bytes, std::size_t max_bytes = 0) const noexcept {
        ps_region_set_growth(region_, next_bytes, max_bytes);
    }
    void set_retain(std::size_t retain_bytes) const noexcept {
        ps_region_set_retain(region_, retain_bytes);
    }
    bool owns(const void *address) const noexcept { return ps_region_owns(region_, address); }

    // An object whose destructor, unless trivial, runs with the cleanups. Objects that its
    // constructor makes in the region outlive it. A constructor that throws leaks at most its own
    // allocations.
    template <class T, class... Arguments> T *make(Arguments &&...arguments) const {
        T *object = detail::construct<T>(*this, std::forward<Arguments>(arguments)...);
        if constexpr (!std::is_trivially_destructible_v<T>) {
            destroy_with_region(object);
        }
        return object;
    }

    // An object whose destructor is never called: for one that owns nothing but memory of the
    // region, such as a tree of containers on ps::no_free. Destroying the region then walks
    // nothing.
    template <class T, class... Arguments> T *make_forgotten(Arguments &&...arguments) const {
        return detail::construct<T>(*this, std::forward<Arguments>(arguments)...);
    }

    // count objects, value-initialised: numbers and pointers are 0.
    template <class T> T *make_array(std::size_t count) const {
        void *block = detail::checked(ps_region_alloc_array(region_, count, sizeof(T), alignof(T)));
        T *objects = static_cast<T *>(block);
        PS_TRY { std::uninitialized_value_construct_n(objects, count); }
        PS_CATCH_ALL {
            deallocate(block, count * sizeof(T), alignof(T));
            PS_RETHROW;
        }
        if constexpr (!std::is_trivially_destructible_v<T>) {
            PS_TRY {
                on_destroy([objects, count] { std::destroy_n(objects, count); });
            }
            PS_CATCH_ALL {
                std::destroy_n(objects, count);
                PS_RETHROW;
            }
        }
        return objects;
    }

    // A copy of the text; a 0 follows it.
    std::string_view copy(std::string_view text) const {
        char *block = static_cast<char *>(allocate(text.size() + 1, 1));
        text.copy(block, text.size());
        block[text.size()] = '\0';
        return {block, text.size()};
    }

    // A text of at most most_bytes, whose length is known when it is written: write(char *) writes
    // it in place and returns its bytes, most_bytes at most. The rest of the room is free again if
    // write allocates nothing; no 0 follows. What write throws passes through; the room is then the
    // region's until its end. O(1), without write.
    template <class Write>
    std::string_view write_text(std::size_t most_bytes, Write &&write) const {
        char *text = static_cast<char *>(allocate(most_bytes, 1));
        auto bytes = static_cast<std::size_t>(write(text));
        text = static_cast<char *>(reallocate(text, most_bytes, bytes, 1));
        return {text, bytes};
    }

    // The first argument that is counted is the object.
    PS_PRINTF(2, 3) char *printf(const char *format, ...) const {
        va_list arguments;
        va_start(arguments, format);
        char *text = ps_region_vprintf(region_, format, arguments);
        va_end(arguments);
        return detail::checked(text);
    }

    // Calls the function with the cleanups. It is copied into the region, and its captures must
    // need no destructor: cancelling just forgets it.
    template <class Function> ps_region_cleanup *on_destroy(Function function) const {
        static_assert(std::is_trivially_destructible_v<Function>,
                      "a captured object would never be destroyed: make() it in the region");
        void *block = allocate(sizeof(Function), alignof(Function));
        auto *copy = ::new (block) Function(std::move(function));
        auto *handle = ps_region_on_destroy(region_, call<Function>, copy);
        if (handle == nullptr) {
            deallocate(block, sizeof(Function), alignof(Function));
            PS_THROW(std::bad_alloc());
        }
        return handle;
    }
    void cancel(ps_region_cleanup *cleanup) const noexcept { ps_region_cancel(region_, cleanup); }
    void run_now(ps_region_cleanup *cleanup) const { ps_region_run_now(region_, cleanup); }

    // A child: this region ends it, unless it is ended or taken (ps::region::detach) before.
    region_ref make_child(const ps_region_options *options = nullptr) const {
        return detail::checked(ps_region_create_child(region_, options));
    }

    void reset() const noexcept { ps_region_reset(region_); }
    std::size_t trim_to(std::size_t keep_bytes) const noexcept {
        return ps_region_trim_to(region_, keep_bytes);
    }
    [[deprecated("use trim_to")]] std::size_t trim(std::size_t keep_bytes = 0) const noexcept {
        return trim_to(keep_bytes);
    }
    void check() const noexcept { ps_region_check(region_); }
    struct ps_region_stats stats() const noexcept {
        struct ps_region_stats figures;
        ps_region_stats(region_, &figures);
        return figures;
    }

  protected:
    ps_region *region_;

  private:
    template <class Function> static void call(void *function) noexcept {
        (*static_cast<Function *>(function))();
    }
    template <class T> static void destroy(void *object) noexcept {
        static_cast<T *>(object)->~T();
    }
    template <class T> void destroy_with_region(T *object) const {
        bool is_registered = false;
        PS_TRY { // the oom handler may throw
            is_registered = ps_region_on_destroy(region_, destroy<T>, object) != nullptr;
        }
        PS_CATCH_ALL {
            object->~T();
            PS_RETHROW;
        }
        if (!is_registered) {
            object->~T();
            deallocate(object, sizeof(T), alignof(T));
            PS_THROW(std::bad_alloc());
        }
    }
};

// Owns a region. Moved from, it owns none, and may only be assigned to or destroyed.
class region : public region_ref {
  public:
    explicit region(const ps_region_options *options = nullptr)
        : region_ref(detail::checked(ps_region_create(options))) {}
    // The first chunk is the caller's, which outlives the region: at least PS_REGION_INIT_BYTES, or
    // std::bad_alloc.
    region(void *buffer, std::size_t bytes, const ps_region_options *options = nullptr)
        : region_ref(detail::checked(ps_region_init(buffer, bytes, options))) {}
    // Takes over a region of C that has no parent.
    static region take(ps_region *owned) noexcept { return region(taken{}, owned); }
    // Takes a child away from its parent.
    static region detach(region_ref child) noexcept {
        ps_region_set_parent(child.get(), nullptr);
        return take(child.get());
    }

    region(region &&other) noexcept : region_ref(std::exchange(other.region_, nullptr)) {}
    region &operator=(region &&other) noexcept {
        if (this != &other) {
            ps_region_destroy(std::exchange(region_, std::exchange(other.region_, nullptr)));
        }
        return *this;
    }
    region(const region &) = delete;
    region &operator=(const region &) = delete;
    ~region() { ps_region_destroy(region_); }

    // The caller ends it, by ps_region_destroy.
    ps_region *release() noexcept { return std::exchange(region_, nullptr); }

  private:
    struct taken {};
    region(taken, ps_region *owned) noexcept : region_ref(owned) {}
};

// Regions as pools whose blocks are not freed one by one: see adapters.hpp. Refers to the region of
// C, so a ps::region may be moved meanwhile. Blocks lie side by side, without the records of gaps
// and the rounding by which others are freed: they may be given to no function that frees or
// resizes.
template <class Pool> class no_free;
template <> class no_free<region_ref> {
  public:
    explicit no_free(region_ref pool) noexcept : region_(pool.get()) {}

    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) const {
        char *at = region_->at;
        std::size_t gap = (0 - reinterpret_cast<std::uintptr_t>(at)) & (align - 1);
        std::size_t taken;
        if (__builtin_expect(!__builtin_add_overflow(bytes, gap, &taken) &&
                                 taken <= static_cast<std::size_t>(region_->end - at),
                             1)) {
            region_->at = at + taken;
            return at + gap;
        }
        return detail::checked(ps_region_alloc_slow(region_, bytes, align));
    }
    void deallocate(void *, std::size_t, std::size_t = PS_ALIGN_DEFAULT) const noexcept {}
    bool owns(const void *address) const noexcept { return ps_region_owns(region_, address); }

    friend bool operator==(const no_free &left, const no_free &right) noexcept {
        return left.region_ == right.region_;
    }

  private:
    ps_region *region_;
};
no_free(region_ref) -> no_free<region_ref>;
no_free(region &) -> no_free<region_ref>;

// An object and the region for its parts in one block, made by make_root. Ends both.
template <class T> class root {
  public:
    root() noexcept = default;
    root(root &&other) noexcept
        : object_(std::exchange(other.object_, nullptr)),
          region_(std::exchange(other.region_, nullptr)) {}
    root &operator=(root &&other) noexcept {
        if (this != &other) {
            object_ = std::exchange(other.object_, nullptr);
            ps_region_destroy(std::exchange(region_, std::exchange(other.region_, nullptr)));
        }
        return *this;
    }
    root(const root &) = delete;
    root &operator=(const root &) = delete;
    ~root() { ps_region_destroy(region_); }

    T *get() const noexcept { return object_; }
    T *operator->() const noexcept { return object_; }
    T &operator*() const noexcept { return *object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    region_ref region() const noexcept { return region_; }

  private:
    root(T *object, ps_region *owned) noexcept : object_(object), region_(owned) {}
    template <class U, class... Arguments>
    friend root<U> make_root_with(std::size_t, const ps_region_options *, Arguments &&...);

    T *object_ = nullptr;
    ps_region *region_ = nullptr;
};

// extra_bytes: the bytes of later allocations that are to share the first chunk (an object and its
// arrays). T's constructor gets the region as its first argument if it takes one. ~T runs after all
// other cleanups registered later, and before those of objects that its constructor made.
template <class T, class... Arguments>
root<T> make_root_with(std::size_t extra_bytes, const ps_region_options *options,
                       Arguments &&...arguments) {
    constexpr std::size_t slack = alignof(T) > PS_ALIGN_DEFAULT ? alignof(T) : 0;
    std::size_t bytes = sizeof(T) + slack;
    if (extra_bytes > SIZE_MAX - bytes) {
        PS_THROW(std::bad_alloc());
    }
    ps_region *owner = nullptr;
    void *first = detail::checked(ps_region_create_for(bytes + extra_bytes, options, &owner));
    root<T> made(nullptr, owner); // ends the region if the constructor throws
    first = ps_region_realloc_aligned(owner, first, bytes + extra_bytes, bytes, PS_ALIGN_DEFAULT);
    auto at = (reinterpret_cast<std::uintptr_t>(first) + alignof(T) - 1) & ~(alignof(T) - 1);
    void *block = reinterpret_cast<void *>(at);
    if constexpr (std::is_constructible_v<T, region_ref, Arguments...>) {
        made.object_ = ::new (block) T(region_ref(owner), std::forward<Arguments>(arguments)...);
    } else {
        made.object_ = ::new (block) T(std::forward<Arguments>(arguments)...);
    }
    if constexpr (!std::is_trivially_destructible_v<T>) {
        auto destroy = [](void *object) noexcept { static_cast<T *>(object)->~T(); };
        bool is_registered = false;
        PS_TRY { is_registered = ps_region_on_destroy(owner, destroy, made.object_) != nullptr; }
        PS_CATCH_ALL {
            made.object_->~T();
            PS_RETHROW;
        }
        if (!is_registered) {
            made.object_->~T();
            PS_THROW(std::bad_alloc());
        }
    }
    return made;
}

template <class T, class... Arguments> root<T> make_root(Arguments &&...arguments) {
    return make_root_with<T>(0, nullptr, std::forward<Arguments>(arguments)...);
}

} // namespace ps

#endif
