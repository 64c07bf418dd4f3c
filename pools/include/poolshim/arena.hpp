/* SPDX-License-Identifier: MIT */
/*
 * arena.hpp - ps::arena: the persistent arena of arena.h as an object. C++17, header only.
 *
 *     struct entry { ps::offset_ptr<entry> next; int value; };
 *
 *     ps::arena arena("list.arena", PS_ARENA_CREATE);
 *     entry *first = arena.root<entry>();
 *     entry *fresh = arena.create<entry>();
 *     fresh->next = first;
 *     arena.set_root(fresh);
 *     arena.commit();
 *     for (const entry *at = fresh; at != nullptr; at = at->next.get()) { ... }
 *
 * ps::offset_ptr<T> is the pointer type for objects of an arena: offset.hpp.
 *
 * Data in an arena must make sense to another process at another address: no virtual
 * functions, no plain pointers or references, no handles; offset_ptr instead of T *. Standard
 * containers contain plain pointers and do not belong there. Destructors do not run when an arena
 * closes: its objects live on.
 *
 * Opening, commit, rollback and refresh throw ps::arena_error; allocate and create throw
 * std::bad_alloc. Threads, crashes and everything else are as arena.h says.
 */
#ifndef POOLSHIM_ARENA_HPP
#define POOLSHIM_ARENA_HPP

#include <poolshim/arena.h>
#include <poolshim/detail.hpp>
#include <poolshim/offset.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace ps {

/* Exception for a status other than PS_ARENA_OK. */
class arena_error : public std::runtime_error {
  public:
    explicit arena_error(ps_arena_status status)
        : std::runtime_error(ps_arena_explain(status)), status_(status), error_(errno) {}

    ps_arena_status status() const noexcept { return status_; }
    /* errno at that time, when the status is PS_ARENA_SYSTEM. */
    int error() const noexcept { return error_; }

  private:
    ps_arena_status status_;
    int error_;
};

class arena {
  public:
    explicit arena(const char *path, unsigned flags = 0,
                   const ps_arena_options *options = nullptr) {
        struct ps_arena *opened;
        must(ps_arena_open(&opened, path, flags, options));
        arena_.reset(opened);
    }
    explicit arena(const std::string &path, unsigned flags = 0,
                   const ps_arena_options *options = nullptr)
        : arena(path.c_str(), flags, options) {}

    /* An arena that was moved from may only be assigned to or destroyed. */
    arena(arena &&) noexcept = default;
    arena &operator=(arena &&) noexcept = default;

    void commit() { must(ps_arena_commit(get())); }
    void rollback() { must(ps_arena_rollback(get())); }
    void refresh() { must(ps_arena_refresh(get())); }
    std::uint64_t sequence() const noexcept { return ps_arena_sequence(get()); }

    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        return detail::checked(try_allocate(bytes, align));
    }
    void *try_allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) noexcept {
        return align <= PS_ALIGN_DEFAULT ? ps_arena_alloc(get(), bytes)
                                         : ps_arena_alloc_aligned(get(), bytes, align);
    }
    void deallocate(void *payload, std::size_t = 0, std::size_t = PS_ALIGN_DEFAULT) noexcept {
        ps_arena_free(get(), payload);
    }

    /* An object in the arena; if its constructor throws, its memory is free again. */
    template <class T, class... Arguments> T *create(Arguments &&...arguments) {
        static_assert(!std::is_polymorphic_v<T>, "tables of virtual functions are not in the file");
        return detail::construct<T>(*this, std::forward<Arguments>(arguments)...);
    }
    /* The destructor, then the memory. nullptr does nothing. */
    template <class T> void destroy(T *object) noexcept {
        if (object != nullptr) {
            object->~T();
            deallocate(const_cast<void *>(static_cast<const volatile void *>(object)));
        }
    }

    /* The root object, from which all others are found; nullptr in a new arena. */
    template <class T> T *root() const noexcept {
        return static_cast<T *>(ps_arena_at(get(), ps_arena_root(get())));
    }
    void set_root(const void *object) noexcept {
        ps_arena_set_root(get(), ps_arena_offset(get(), object));
    }

    template <class T> T *at(ps_offset offset) const noexcept {
        return static_cast<T *>(ps_arena_at(get(), offset));
    }
    ps_offset offset(const void *pointer) const noexcept { return ps_arena_offset(get(), pointer); }
    bool owns(const void *pointer) const noexcept { return ps_arena_owns(get(), pointer); }
    std::size_t usable_size(const void *payload) const noexcept {
        return ps_arena_usable_size(get(), payload);
    }
    bool extend(std::size_t bytes) noexcept { return ps_arena_extend(get(), bytes); }
    const char *check() const noexcept { return ps_arena_check(get()); }
    struct ps_arena_stats stats() const noexcept {
        struct ps_arena_stats result;
        ::ps_arena_stats(get(), &result);
        return result;
    }
    struct ps_arena *get() const noexcept { return arena_.get(); }

  private:
    static void must(ps_arena_status status) {
        if (status != PS_ARENA_OK) {
            PS_THROW(arena_error(status));
        }
    }

    detail::handle<struct ps_arena, ps_arena_close> arena_;
};

} // namespace ps

#endif
