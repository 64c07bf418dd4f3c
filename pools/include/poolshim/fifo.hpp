// SPDX-License-Identifier: MIT
// fifo.hpp - blocks that are freed roughly in the order of their allocation, for C++17. fifo.h is
// the manual.
//
//     ps::fifo fifo;
//     auto *message = fifo.create<Message>(7, "text");
//     ...
//     fifo.destroy(message);
//
// One thread at a time. ps::resource<ps::fifo> and ps::allocator<T, ps::fifo> of adapters.hpp work
// on it. A moved-from fifo may only be assigned to or destroyed.
#ifndef POOLSHIM_FIFO_HPP
#define POOLSHIM_FIFO_HPP

#include <poolshim/detail.hpp>
#include <poolshim/fifo.h>

#include <cstddef>
#include <utility>

namespace ps {

class fifo {
  public:
    // std::bad_alloc when memory is exhausted.
    // Its end frees the memory of all blocks; runs no destructors.
    explicit fifo(const ps_fifo_options *options = nullptr)
        : fifo_(detail::checked(ps_fifo_create(options))) {}

    ps_fifo *get() const noexcept { return fifo_.get(); }

    // Ends this object, but not the live blocks: they are freed by ps_fifo_free(result, block), and
    // the result disappears with the last one. Nullptr when there is none.
    ps_fifo *abandon() noexcept {
        ps_fifo *left = stats().live_count != 0 ? get() : nullptr;
        ps_fifo_destroy(fifo_.release());
        return left;
    }

    // std::bad_alloc when memory is exhausted, or align is above ps_fifo_align_max.
    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        return detail::checked(ps_fifo_alloc_aligned(get(), bytes, align));
    }
    void deallocate(void *block, std::size_t = 0, std::size_t = PS_ALIGN_DEFAULT) noexcept {
        ps_fifo_free(get(), block);
    }

    // An object; when its constructor throws, the block is freed.
    template <class T, class... Args> T *create(Args &&...args) {
        return detail::construct<T>(*this, std::forward<Args>(args)...);
    }
    template <class T, class... Args> [[deprecated("use create")]] T *make(Args &&...args) {
        return create<T>(std::forward<Args>(args)...);
    }
    // Destroys and frees an object of create(); nullptr: nothing.
    template <class T> void destroy(T *object) noexcept {
        if (object != nullptr) {
            object->~T();
            deallocate(object);
        }
    }

    bool owns(const void *pointer) const noexcept { return ps_fifo_owns(get(), pointer); }
    std::size_t trim_to(std::size_t keep_bytes) noexcept {
        return ps_fifo_trim_to(get(), keep_bytes);
    }
    [[deprecated("use trim_to")]] std::size_t trim(std::size_t keep_bytes = 0) noexcept {
        return trim_to(keep_bytes);
    }
    // The struct and the function have one name, as in C.
    void check() const noexcept { ps_fifo_check(get()); }
    struct ps_fifo_stats stats() const noexcept {
        struct ps_fifo_stats stats;
        ::ps_fifo_stats(get(), &stats);
        return stats;
    }

  private:
    detail::handle<ps_fifo, ps_fifo_destroy_now> fifo_;
};

} // namespace ps

#endif
