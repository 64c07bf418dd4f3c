// SPDX-License-Identifier: MIT
// shared.hpp - ps::shared: the heap in shared memory of shared.h as an object. C++17, header only.
//
//     struct Job { ps::offset_ptr<Job> next; int number; };
//     struct Jobs { ps::offset_ptr<Job> first; };
//
//     ps::shared heap("/dev/shm/jobs", PS_SHARED_CREATE);
//     Jobs *jobs = heap.find_or_create<Jobs>("jobs");
//     Job *job = heap.create<Job>();
//     job->next = jobs->first;
//     jobs->first = job;
//
// Data in the heap must make sense to another process at another address: no virtual functions, no
// plain pointers or references, no handles; ps::offset_ptr (offset.hpp) instead of T *, and locks
// that are made for processes. Standard containers contain plain pointers and do not belong there.
// Destructors do not run when a heap closes: its objects live on.
//
// Opening throws ps::shared_error; allocate and create throw std::bad_alloc. Threads, kills and
// everything else are as shared.h says.
#ifndef POOLSHIM_SHARED_HPP
#define POOLSHIM_SHARED_HPP

#include <poolshim/detail.hpp>
#include <poolshim/offset.hpp>
#include <poolshim/shared.h>

#include <cerrno>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace ps {

// Exception for a status other than PS_SHARED_OK, or a name that cannot be set.
class shared_error : public std::runtime_error {
  public:
    explicit shared_error(ps_shared_status status)
        : std::runtime_error(ps_shared_explain(status)), status_(status), error_(errno) {}

    ps_shared_status status() const noexcept { return status_; }
    // errno at that time, when the status is PS_SHARED_SYSTEM.
    int error() const noexcept { return error_; }

  private:
    ps_shared_status status_;
    int error_;
};

class shared {
  public:
    explicit shared(const char *path, unsigned flags = 0,
                    const ps_shared_options *options = nullptr) {
        struct ps_shared *opened;
        must(ps_shared_open(&opened, path, flags, options));
        shared_.reset(opened);
    }
    explicit shared(const std::string &path, unsigned flags = 0,
                    const ps_shared_options *options = nullptr)
        : shared(path.c_str(), flags, options) {}
    // By a descriptor, which is duplicated.
    explicit shared(int fd, unsigned flags = 0, const ps_shared_options *options = nullptr) {
        struct ps_shared *opened;
        must(ps_shared_open_fd(&opened, fd, flags, options));
        shared_.reset(opened);
    }

    // A heap that was moved from may only be assigned to or destroyed.
    shared(shared &&) noexcept = default;
    shared &operator=(shared &&) noexcept = default;

    void *allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) {
        return detail::checked(try_allocate(bytes, align));
    }
    void *try_allocate(std::size_t bytes, std::size_t align = PS_ALIGN_DEFAULT) noexcept {
        return align <= PS_ALIGN_DEFAULT ? ps_shared_alloc(get(), bytes)
                                         : ps_shared_alloc_aligned(get(), bytes, align);
    }
    void deallocate(void *payload, std::size_t = 0, std::size_t = PS_ALIGN_DEFAULT) noexcept {
        ps_shared_free(get(), payload);
    }

    // An object in the heap; if its constructor throws, its memory is free again.
    template <class T, class... Arguments> T *create(Arguments &&...arguments) {
        static_assert(!std::is_polymorphic_v<T>, "tables of virtual functions are not shared");
        return detail::construct<T>(*this, std::forward<Arguments>(arguments)...);
    }
    // The destructor, then the memory. nullptr does nothing.
    template <class T> void destroy(T *object) noexcept {
        if (object != nullptr) {
            object->~T();
            deallocate(const_cast<void *>(static_cast<const volatile void *>(object)));
        }
    }

    // The object of a name; nullptr: none.
    template <class T> T *root(const char *name) const noexcept {
        return static_cast<T *>(ps_shared_at(get(), ps_shared_root(get(), name)));
    }
    // Throws shared_error, as ps_shared_set_root fails. nullptr: the name has no object then.
    void set_root(const char *name, const void *object) {
        if (!ps_shared_set_root(get(), name, ps_shared_offset(get(), object))) {
            PS_THROW(shared_error(PS_SHARED_SYSTEM));
        }
    }
    // The object of a name, or a new one, T(arguments...), that has the name from then on. When
    // processes do this at once, one object wins and the others are destroyed. Throws also
    // shared_error, as set_root.
    template <class T, class... Arguments>
    T *find_or_create(const char *name, Arguments &&...arguments) {
        if (T *found = root<T>(name)) {
            return found;
        }
        struct guard {
            shared &heap;
            T *object;
            ~guard() { heap.destroy(object); }
        } fresh{*this, create<T>(std::forward<Arguments>(arguments)...)};
        ps_offset won = ps_shared_claim_root(get(), name, offset(fresh.object));
        if (won == 0) {
            PS_THROW(shared_error(PS_SHARED_SYSTEM));
        }
        if (won == offset(fresh.object)) {
            fresh.object = nullptr;
        }
        return at<T>(won);
    }

    template <class T> T *at(ps_offset offset) const noexcept {
        return static_cast<T *>(ps_shared_at(get(), offset));
    }
    ps_offset offset(const void *pointer) const noexcept {
        return ps_shared_offset(get(), pointer);
    }
    bool owns(const void *pointer) const noexcept { return ps_shared_owns(get(), pointer); }
    std::size_t usable_size(const void *payload) const noexcept {
        return ps_shared_usable_size(get(), payload);
    }
    const char *check() const noexcept { return ps_shared_check(get()); }
    struct ps_shared_stats stats() const noexcept {
        struct ps_shared_stats result;
        ::ps_shared_stats(get(), &result);
        return result;
    }
    struct ps_shared *get() const noexcept { return shared_.get(); }

  private:
    static void must(ps_shared_status status) {
        if (status != PS_SHARED_OK) {
            PS_THROW(shared_error(status));
        }
    }

    detail::handle<struct ps_shared, ps_shared_close> shared_;
};

} // namespace ps

#endif
