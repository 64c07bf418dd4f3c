// SPDX-License-Identifier: MIT
// frames.hpp - a ring of regions for C++17. frames.h is the manual.
//
//     ps::frames frames(2);
//     for (;;) {
//         ps::region_ref now = frames.next();
//         auto *state = now.make<State>(before);
//         before = state;
//     }
#ifndef POOLSHIM_FRAMES_HPP
#define POOLSHIM_FRAMES_HPP

#include <poolshim/detail.hpp>
#include <poolshim/frames.h>
#include <poolshim/region.hpp>

#include <cstddef>

namespace ps {

class frames {
  public:
    // std::bad_alloc when memory is exhausted, or count is not 1 to PS_FRAMES_MAX.
    explicit frames(unsigned count, const ps_region_options *options = nullptr)
        : frames_(detail::checked(ps_frames_create(count, options))) {}

    ps_frames *get() const noexcept { return frames_.get(); }
    region_ref current() const noexcept { return ps_frames_current(get()); }
    region_ref next() noexcept { return ps_frames_next(get()); }
    std::size_t trim_to(std::size_t keep_bytes) noexcept {
        return ps_frames_trim_to(get(), keep_bytes);
    }
    [[deprecated("use trim_to")]] std::size_t trim(std::size_t keep_bytes = 0) noexcept {
        return trim_to(keep_bytes);
    }

    // Of the current round, for the adapters.
    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        return current().allocate(bytes, align);
    }
    void deallocate(void *block, std::size_t bytes, std::size_t align) noexcept {
        current().deallocate(block, bytes, align);
    }

  private:
    detail::handle<ps_frames, ps_frames_destroy> frames_;
};

} // namespace ps

#endif
