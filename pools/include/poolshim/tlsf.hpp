/* SPDX-License-Identifier: MIT */
/*
 * tlsf.hpp - ps::tlsf: the pool of tlsf.h as an object. C++17, header only.
 *
 *     alignas(16) std::byte memory[1 << 20];
 *     ps::tlsf pool(memory, sizeof memory);
 *     auto *voice = pool.create<struct voice>(440.0);
 *     pool.destroy(voice);
 *
 * Bounds, threads and misuse are those of tlsf.h. allocate() throws std::bad_alloc where the C
 * function gives NULL; the others throw only what constructors throw. With
 * poolshim/adapters.hpp it is a memory resource and a standard allocator.
 */
#ifndef POOLSHIM_TLSF_HPP
#define POOLSHIM_TLSF_HPP

#include <poolshim/detail.hpp>
#include <poolshim/tlsf.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace ps {

class tlsf {
  public:
    /* In chunks of a source; options: NULL for the page cache. Throws std::bad_alloc. */
    explicit tlsf(const ps_tlsf_options *options = nullptr)
        : pool_(detail::checked(ps_tlsf_create(options))) {}

    /* In the caller's memory, which must outlive the pool. Throws std::bad_alloc when it is too
     * small. */
    tlsf(void *buffer, std::size_t bytes, const ps_tlsf_options *options = nullptr)
        : pool_(detail::checked(ps_tlsf_init(buffer, bytes, options))) {}

    /* A pool that was moved from may only be assigned to or destroyed. */
    tlsf(tlsf &&) noexcept = default;
    tlsf &operator=(tlsf &&) noexcept = default;

    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        return detail::checked(try_allocate(bytes, align));
    }

    /* nullptr when nothing fits. */
    void *try_allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) noexcept {
        return align <= PS_ALIGN_DEFAULT ? ps_tlsf_alloc(get(), bytes)
                                         : ps_tlsf_alloc_aligned(get(), bytes, align);
    }

    void deallocate(void *payload, std::size_t = 0, std::size_t = PS_ALIGN_DEFAULT) noexcept {
        ps_tlsf_free(get(), payload);
    }

    /* An object of its own; if its constructor throws, its memory is free again. */
    template <class T, class... Arguments> T *create(Arguments &&...arguments) {
        return detail::construct<T>(*this, std::forward<Arguments>(arguments)...);
    }

    /* The destructor, then the memory. nullptr does nothing. */
    template <class T> void destroy(T *object) noexcept {
        static_assert(!std::is_polymorphic_v<T> || std::is_final_v<T> ||
                          std::has_virtual_destructor_v<T>,
                      "the object may be of a derived class");
        if (object != nullptr) {
            void *payload = address_of(object);
            object->~T();
            deallocate(payload);
        }
    }

    bool add(void *memory, std::size_t bytes) noexcept { return ps_tlsf_add(get(), memory, bytes); }
    bool remove(void *memory) noexcept { return ps_tlsf_remove(get(), memory); }
    void reset() noexcept { ps_tlsf_reset(get()); }
    std::size_t trim_to(std::size_t keep_bytes) noexcept {
        return ps_tlsf_trim_to(get(), keep_bytes);
    }
    [[deprecated("use trim_to")]] std::size_t trim() noexcept { return trim_to(0); }
    bool owns(const void *pointer) const noexcept { return ps_tlsf_owns(get(), pointer); }
    const char *name() const noexcept { return ps_tlsf_name(get()); }
    const char *check() const noexcept { return ps_tlsf_check(get()); }

    std::size_t usable_size(const void *payload) const noexcept {
        return ps_tlsf_usable_size(get(), payload);
    }

    struct ps_tlsf_stats stats() const noexcept {
        struct ps_tlsf_stats result;
        ::ps_tlsf_stats(get(), &result);
        return result;
    }

    /* visit(void *payload, std::size_t bytes, bool is_used) for every block; may throw. */
    template <class Visit> void walk(Visit &&visit) const {
        using plain = std::remove_reference_t<Visit>;
        ps_tlsf_walk(
            get(),
            [](void *context, void *payload, std::size_t bytes, bool is_used) {
                (*static_cast<plain *>(context))(payload, bytes, is_used);
            },
            const_cast<void *>(static_cast<const void *>(std::addressof(visit))));
    }

    struct ps_tlsf *get() const noexcept { return pool_.get(); }

  private:
    template <class T> static void *address_of(T *object) noexcept {
        if constexpr (std::is_polymorphic_v<T>) {
            return const_cast<void *>(dynamic_cast<const volatile void *>(object));
        } else {
            return const_cast<void *>(static_cast<const volatile void *>(object));
        }
    }

    detail::handle<struct ps_tlsf, ps_tlsf_destroy> pool_;
};

} // namespace ps

#endif
