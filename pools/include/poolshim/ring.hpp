// SPDX-License-Identifier: MIT
// ring.hpp - memory that one thread fills and any thread releases, for C++17. ring.h is the manual.
//
//     ps::ring ring;
//     ps::ring_frame frame = ring.begin();
//     auto *request = ring.make<Request>(7);
//     frame.seal();
//     queue.push({request, std::move(frame)}); // destroying the frame drops the request
//
// A ring is one thread's at a time; a sealed frame may be moved to any thread and destroyed there,
// also after the ring's end. ps::resource<ps::ring> and ps::allocator<T, ps::ring> of adapters.hpp
// allocate from the open frame; their deallocate does nothing. ps::thread_ring is the ring of the
// calling thread, as an empty class.
#ifndef POOLSHIM_RING_HPP
#define POOLSHIM_RING_HPP

#include <poolshim/detail.hpp>
#include <poolshim/ring.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace ps {

// Owns a frame: its end releases it, and seals it before if it is still open, as when an exception
// leaves the function that fills it. An open frame ends before its ring, and in the ring's thread.
class ring_frame {
  public:
    ring_frame() noexcept = default;
    // Takes over a frame that is open in `ring`, or a sealed one.
    ring_frame(ps_ring_frame *frame, ps_ring *ring) noexcept
        : frame_(frame), ring_(ring), is_open_(true) {}
    explicit ring_frame(ps_ring_frame *sealed) noexcept : frame_(sealed) {}
    ring_frame(ring_frame &&other) noexcept
        : frame_(std::exchange(other.frame_, nullptr)), ring_(other.ring_),
          is_open_(std::exchange(other.is_open_, false)) {}
    ring_frame &operator=(ring_frame &&other) noexcept {
        if (this != &other) {
            reset();
            frame_ = std::exchange(other.frame_, nullptr);
            ring_ = other.ring_;
            is_open_ = std::exchange(other.is_open_, false);
        }
        return *this;
    }
    ring_frame(const ring_frame &) = delete;
    ring_frame &operator=(const ring_frame &) = delete;
    ~ring_frame() { reset(); }

    explicit operator bool() const noexcept { return frame_ != nullptr; }
    bool is_open() const noexcept { return is_open_; }

    // Closes the frame; from now on it may go to another thread. Once.
    void seal() noexcept {
        ps_ring_seal(ring_);
        is_open_ = false;
    }

    // Closes the frame and remembers where. rewind() opens it there again, and drops all frames
    // begun since: those must have been released or detached before.
    struct ps_ring_checkpoint checkpoint() noexcept {
        is_open_ = false;
        return ::ps_ring_checkpoint(ring_);
    }
    void rewind(const struct ps_ring_checkpoint &checkpoint) noexcept {
        ps_ring_rewind(ring_, &checkpoint);
        is_open_ = true;
    }

    // Releases the frame now; this object is empty then.
    void reset() noexcept {
        if (is_open_) {
            seal();
        }
        ps_ring_release(std::exchange(frame_, nullptr));
    }
    // Gives up the frame, which is sealed if it was not: the caller releases it.
    ps_ring_frame *detach() noexcept {
        if (is_open_) {
            seal();
        }
        return std::exchange(frame_, nullptr);
    }

  private:
    ps_ring_frame *frame_ = nullptr;
    ps_ring *ring_ = nullptr;
    bool is_open_ = false;
};

namespace detail {

// The common part of a ring and the thread's ring; Self::get() is the C ring, or nullptr.
template <class Self> class ring_calls {
  public:
    // Opens a frame; no other is open. std::bad_alloc when memory is exhausted.
    ring_frame begin() {
        ps_ring *ring = self().get();
        return ring_frame(detail::checked(ring != nullptr ? ps_ring_begin(ring) : nullptr), ring);
    }

    // A block of the open frame. std::bad_alloc when memory is exhausted.
    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        ps_ring *ring = self().get();
        return detail::checked(ring != nullptr ? ps_ring_alloc_aligned(ring, bytes, align)
                                               : nullptr);
    }
    // Nothing: the release of the frame does it.
    void deallocate(void *, std::size_t = 0, std::size_t = PS_ALIGN_DEFAULT) noexcept {}

    // An object of the open frame. No destructor runs, so it must be trivial.
    template <class T, class... Args> T *make(Args &&...args) {
        static_assert(std::is_trivially_destructible_v<T>, "a release runs no destructors");
        return ::new (allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
    }

  private:
    Self &self() noexcept { return static_cast<Self &>(*this); }
};

} // namespace detail

class ring : public detail::ring_calls<ring> {
  public:
    // std::bad_alloc when memory is exhausted.
    // After its end, sealed frames remain valid until they are released.
    explicit ring(const ps_ring_options *options = nullptr)
        : ring_(detail::checked(ps_ring_create(options))) {}

    ps_ring *get() const noexcept { return ring_.get(); }
    std::size_t trim_to(std::size_t keep_bytes) noexcept {
        return ps_ring_trim_to(get(), keep_bytes);
    }
    [[deprecated("use trim_to")]] std::size_t trim(std::size_t keep_bytes = 0) noexcept {
        return trim_to(keep_bytes);
    }
    void check() noexcept { ps_ring_check(get()); }
    struct ps_ring_stats stats() noexcept {
        struct ps_ring_stats stats;
        ::ps_ring_stats(get(), &stats);
        return stats;
    }

  private:
    detail::handle<ps_ring, ps_ring_destroy> ring_;
};

// The ring of the calling thread. Frames outlive the thread.
class thread_ring : public detail::ring_calls<thread_ring> {
  public:
    ps_ring *get() const { return ps_r_ring(); }
};

} // namespace ps

#endif
