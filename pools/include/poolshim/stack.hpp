// SPDX-License-Identifier: MIT
// stack.hpp - the stacks of poolshim/stack.h for C++17.
//
//     ps::stack    a stack of one's own
//     ps::t_stack  the stack of the calling thread, an empty class, to pass as a pool
//     ps::scope    a frame that ends with the enclosing block, by return or by exception; of the
//                  thread's stack, or of one that is given
//
//     double median(const double *values, std::size_t count) {
//         ps::scope scope;
//         double *sorted = scope.make_array<double>(count);
//         ...
//     }
//
// Nothing is destroyed when a frame ends, its memory is reused: hence make and make_array take
// types with trivial destructors only. Containers of the standard library may live in a frame by
// ps::allocator<T, ps::t_stack> of adapters.hpp, if they end before it. Threads: as in stack.h.
// Functions that throw say so: std::bad_alloc where C gives NULL, and the exceptions of a
// constructor; the memory of that object is then freed with the frame. Costs are those of stack.h.
#ifndef POOLSHIM_STACK_HPP
#define POOLSHIM_STACK_HPP

#include <cstddef>
#include <new>
#include <poolshim/detail.hpp>
#include <poolshim/stack.h>
#include <type_traits>
#include <utility>

namespace ps {

using stack_options = ::ps_stack_options;
using stack_mark = struct ::ps_stack_mark;
using stack_stats = struct ::ps_stack_stats;

namespace detail {

// The common part of stack, t_stack and scope; Self::get() gives the C stack.
template <class Self> class stack_calls {
  public:
    // nullptr when memory is exhausted.
    void *try_allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        return ps_stack_alloc_aligned(self(), bytes, align);
    }
    // For adapters, and by hand. Throws std::bad_alloc.
    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        return checked(ps_stack_alloc_aligned(self(), bytes, align));
    }
    // Frees the newest block; others remain until their frame ends.
    void deallocate(void *block, std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) noexcept {
        (void)align;
        ps_stack_free_last(self(), block, bytes);
    }
    // Throws std::bad_alloc; the block is then as it was.
    void *reallocate(void *block, std::size_t old_bytes, std::size_t new_bytes,
                     std::size_t align = PS_ALIGN_DEFAULT) {
        return checked(ps_stack_realloc_aligned(self(), block, old_bytes, new_bytes, align));
    }

    // An object. Throws std::bad_alloc and what the constructor throws.
    template <class T, class... Arguments> T *make(Arguments &&...arguments) {
        static_assert(std::is_trivially_destructible_v<T>, "it is not destroyed");
        return ::new (allocate(sizeof(T), alignof(T))) T(std::forward<Arguments>(arguments)...);
    }
    template <class T, class... Arguments>
    [[deprecated("use make")]] T *create(Arguments &&...arguments) {
        return make<T>(std::forward<Arguments>(arguments)...);
    }
    // `count` objects, default-initialised: numbers are not zeroed. Throws as make does.
    template <class T> T *make_array(std::size_t count) {
        static_assert(std::is_trivially_destructible_v<T>, "they are not destroyed");
        T *array =
            static_cast<T *>(checked(ps_stack_alloc_array(self(), count, sizeof(T), alignof(T))));
        for (std::size_t i = 0; i < count; i++) {
            ::new (static_cast<void *>(array + i)) T;
        }
        return array;
    }
    // Throws std::bad_alloc.
    char *strdup(const char *text) { return checked(ps_stack_strdup(self(), text)); }

    stack_mark mark() noexcept { return ps_stack_mark(self()); }
    void rewind(const stack_mark &mark) noexcept { ps_stack_rewind(self(), mark); }
    // -1: a was taken before b, with blocks in between; 1: after it; 0: none between.
    int compare(const stack_mark &a, const stack_mark &b) const noexcept {
        return ps_stack_mark_compare(self(), a, b);
    }
    std::size_t capacity_left() const noexcept { return ps_stack_capacity_left(self()); }
    void set_growth(std::size_t next_bytes, std::size_t max_bytes = 0) noexcept {
        ps_stack_set_growth(self(), next_bytes, max_bytes);
    }
    void set_retain(std::size_t retain_bytes, unsigned trim_ms = 0) noexcept {
        ps_stack_set_retain(self(), retain_bytes, trim_ms);
    }
    bool owns(const void *address) const noexcept { return ps_stack_owns(self(), address); }

    friend bool operator==(const Self &left, const Self &right) noexcept {
        return left.get() == right.get();
    }
    friend bool operator!=(const Self &left, const Self &right) noexcept {
        return left.get() != right.get();
    }

  private:
    ::ps_stack *self() const noexcept { return static_cast<const Self *>(this)->get(); }
};

} // namespace detail

class stack : public detail::stack_calls<stack> {
  public:
    // Throws std::bad_alloc.
    explicit stack(const stack_options &options = {})
        : stack_(detail::checked(ps_stack_create(&options))) {}
    // Blocks and frames do not move; the other one may only be destroyed or assigned to.
    stack(stack &&) noexcept = default;
    stack &operator=(stack &&) noexcept = default;

    void reset() noexcept { ps_stack_reset(get()); }
    std::size_t trim_to(std::size_t keep_bytes) noexcept {
        return ps_stack_trim_to(get(), keep_bytes);
    }
    [[deprecated("use trim_to")]] std::size_t trim(std::size_t keep_bytes = 0) noexcept {
        return trim_to(keep_bytes);
    }
    void check() const noexcept { ps_stack_check(get()); }
    stack_stats stats() const noexcept {
        stack_stats result;
        ps_stack_stats(get(), &result);
        return result;
    }
    const char *name() const noexcept { return ps_stack_name(get()); }
    ::ps_stack *get() const noexcept { return stack_.get(); }

  private:
    detail::handle<::ps_stack, ps_stack_destroy> stack_;
};

class t_stack : public detail::stack_calls<t_stack> {
  public:
    ::ps_stack *get() const noexcept { return ps_t(); }
};

// Neither copied nor moved: frames nest as blocks do.
class scope : public detail::stack_calls<scope> {
  public:
    // Throws std::bad_alloc.
    scope() : scope(ps_t()) {}
    explicit scope(stack &of) : scope(of.get()) {}
    explicit scope(::ps_stack *of) : stack_(of), frame_(detail::checked(ps_stack_push(of))) {}
    ~scope() { ps_stack_pop(stack_, frame_); }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

    // Whether new blocks belong to this frame, not to one inside it.
    bool is_innermost() const noexcept { return ps_stack_is_innermost(stack_, frame_); }
    ::ps_stack *get() const noexcept { return stack_; }

  private:
    ::ps_stack *stack_;
    ::ps_stack_frame *frame_;
};

} // namespace ps

#endif
