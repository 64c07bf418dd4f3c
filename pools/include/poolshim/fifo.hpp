// SPDX-License-Identifier: MIT
// fifo.hpp - blocks that die roughly in the order in which they were born, for C++17. fifo.h is the
// manual.
//
//     ps::fifo fifo;
//     auto *message = fifo.make<Message>(7, "text");
//     ...
//     fifo.destroy(message);
//
// One thread at a time. ps::resource<ps::fifo> and ps::allocator<T, ps::fifo> of adapters.hpp work
// on it. A moved-from fifo may only be assigned to or destroyed.
#ifndef POOLSHIM_FIFO_HPP
#define POOLSHIM_FIFO_HPP

#include <poolshim/fifo.h>

#include <cstddef>
#include <new>
#include <utility>

namespace ps {

class fifo {
  public:
    // std::bad_alloc when memory is out.
    explicit fifo(const ps_fifo_options *options = nullptr) : fifo_(ps_fifo_create(options)) {
        if (fifo_ == nullptr) {
            throw std::bad_alloc();
        }
    }
    fifo(fifo &&other) noexcept : fifo_(std::exchange(other.fifo_, nullptr)) {}
    fifo &operator=(fifo &&other) noexcept {
        if (this != &other) {
            ps_fifo_destroy_now(std::exchange(fifo_, std::exchange(other.fifo_, nullptr)));
        }
        return *this;
    }
    fifo(const fifo &) = delete;
    fifo &operator=(const fifo &) = delete;
    // Gives back the memory of all blocks; runs no destructors.
    ~fifo() { ps_fifo_destroy_now(fifo_); }

    ps_fifo *get() const noexcept { return fifo_; }

    // Ends this object, but not the live blocks: they are freed by ps_fifo_free(result, block), and
    // the result disappears with the last one. Nullptr when there is none.
    ps_fifo *abandon() noexcept {
        ps_fifo *left = stats().live_count != 0 ? fifo_ : nullptr;
        ps_fifo_destroy(std::exchange(fifo_, nullptr));
        return left;
    }

    // std::bad_alloc when memory is out, or align is above ps_fifo_align_max.
    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        void *block = ps_fifo_alloc_aligned(fifo_, bytes, align);
        if (block == nullptr) {
            throw std::bad_alloc();
        }
        return block;
    }
    void deallocate(void *block, std::size_t = 0, std::size_t = PS_ALIGN_DEFAULT) noexcept {
        ps_fifo_free(fifo_, block);
    }

    // An object; when its constructor throws, the block is freed.
    template <class T, class... Args> T *make(Args &&...args) {
        void *block = allocate(sizeof(T), alignof(T));
        try {
            return ::new (block) T(std::forward<Args>(args)...);
        } catch (...) {
            deallocate(block);
            throw;
        }
    }
    // Destroys and frees what make() gave; nullptr: nothing.
    template <class T> void destroy(T *object) noexcept {
        if (object != nullptr) {
            object->~T();
            deallocate(object);
        }
    }

    bool owns(const void *pointer) const noexcept { return ps_fifo_owns(fifo_, pointer); }
    std::size_t trim(std::size_t keep_bytes = 0) noexcept {
        return ps_fifo_trim(fifo_, keep_bytes);
    }
    // The struct and the function have one name, as in C.
    struct ps_fifo_stats stats() const noexcept {
        struct ps_fifo_stats stats;
        ::ps_fifo_stats(fifo_, &stats);
        return stats;
    }

  private:
    ps_fifo *fifo_;
};

} // namespace ps

#endif
