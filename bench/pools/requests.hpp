// SPDX-License-Identifier: MIT
// The contestants of requests.cpp: each makes objects of any type until it is dropped. hold() is
// for those that must free every object by itself; the others forget it. An original that is not
// installed does not take part.
#ifndef PS_BENCH_POOLS_REQUESTS_HPP
#define PS_BENCH_POOLS_REQUESTS_HPP

#include "contest.hpp"
#include "published.hpp"

#include <memory_resource>
#include <obstack.h>
#include <poolshim/pool.h>
#include <poolshim/region.h>
#include <poolshim/slice.h>

#if __has_include(<boost/pool/pool.hpp>)
#include <boost/pool/pool.hpp>
#endif
#if __has_include(<apr_pools.h>)
#include <apr_pools.h>
#endif
#if __has_include(<glib.h>)
#include <glib.h>
#endif
#if __has_include(<foonathan/memory/memory_stack.hpp>)
#include "foonathan.hpp"

#include <foonathan/memory/memory_stack.hpp>
#endif

#define obstack_chunk_alloc std::malloc
#define obstack_chunk_free std::free

namespace requests {

struct Small {
    long words[3];
};
struct Big {
    Small smalls[10];
};
struct Huge {
    char bytes[2 * 4096 + 113];
};

// The objects that live, for allocators that free one by one. Reused between passes, as the
// originals' static array is.
class Held {
  public:
    explicit Held(std::size_t count) {
        if (store().size() < count) {
            store().resize(count);
        }
    }
    void push(void *object, std::size_t bytes) { store()[count_++] = {object, bytes}; }
    template <class Free> void drop(Free free) {
        for (std::size_t i = 0; i < count_; i++) {
            free(store()[i].object, store()[i].bytes);
        }
        count_ = 0;
    }

  private:
    struct Entry {
        void *object;
        std::size_t bytes;
    };
    static std::vector<Entry> &store() {
        static std::vector<Entry> entries;
        return entries;
    }
    std::size_t count_ = 0;
};

// What pools have in common: they forget, and are dropped as a whole.
struct Forgets {
    void hold(void *, std::size_t) {}
    void drop() {}
};

template <class Pool, class = void> struct has_resize : std::false_type {};
template <class Pool>
struct has_resize<Pool, std::void_t<decltype(std::declval<Pool &>().resize(nullptr, 1, 2))>>
    : std::true_type {};

// Where a pool cannot resize, a longer block and a copy, as its users do.
template <class Pool>
char *resized(Pool &pool, char *block, std::size_t old_bytes, std::size_t bytes) {
    if constexpr (has_resize<Pool>::value) {
        return pool.resize(block, old_bytes, bytes);
    } else {
        char *copy = pool.text(bytes);
        contest::require(copy);
        return static_cast<char *>(std::memcpy(copy, block, old_bytes));
    }
}

using Function = void (*)(void *);

// Functions called at the end, for those that have no such list: records of the pool's.
template <class Pool> class Cleanups {
  public:
    void on_end(Function function, void *argument) {
        auto *record = static_cast<Pool *>(this)->template alloc<Record>();
        *record = {first_, function, argument};
        static_cast<Pool *>(this)->hold(record, sizeof(Record));
        first_ = record;
    }

  protected:
    void run() {
        for (; first_ != nullptr; first_ = first_->next) {
            first_->function(first_->argument);
        }
    }

  private:
    struct Record {
        Record *next;
        Function function;
        void *argument;
    };
    Record *first_ = nullptr;
};

class Malloc : public Cleanups<Malloc> {
  public:
    explicit Malloc(std::size_t count) : held_(count) {}
    template <class T> T *alloc() { return static_cast<T *>(std::malloc(sizeof(T))); }
    char *text(std::size_t bytes) { return static_cast<char *>(std::malloc(bytes)); }
    template <class T> void free(T *object) { std::free(object); }
    void hold(void *object, std::size_t bytes) { held_.push(object, bytes); }
    char *resize(char *block, std::size_t, std::size_t bytes) {
        return static_cast<char *>(std::realloc(block, bytes));
    }
    void drop() {
        run();
        held_.drop([](void *object, std::size_t) { std::free(object); });
    }

  private:
    Held held_;
};

class Monotonic : public Forgets, public Cleanups<Monotonic> {
  public:
    explicit Monotonic(std::size_t) {}
    Monotonic(const Monotonic &) = delete;
    ~Monotonic() { run(); }
    char *text(std::size_t bytes) { return static_cast<char *>(resource_.allocate(bytes, 1)); }
    template <class T> T *alloc() {
        return static_cast<T *>(resource_.allocate(sizeof(T), alignof(T)));
    }
    template <class T> void free(T *) {}

  private:
    std::pmr::monotonic_buffer_resource resource_;
};

// obstack_free frees everything after an object, so only the newest may be freed.
class Obstack : public Forgets, public Cleanups<Obstack> {
  public:
    explicit Obstack(std::size_t) { obstack_init(&stack_); }
    Obstack(const Obstack &) = delete;
    ~Obstack() {
        run();
        obstack_free(&stack_, nullptr);
    }
    char *text(std::size_t bytes) { return static_cast<char *>(obstack_alloc(&stack_, bytes)); }
    template <class T> T *alloc() { return static_cast<T *>(obstack_alloc(&stack_, sizeof(T))); }
    template <class T> void free(T *object) { obstack_free(&stack_, object); }

  private:
    obstack stack_;
};

#if __has_include(<boost/pool/pool.hpp>)
// One size at a time: the pool is made by the first object.
class BoostPool : public Forgets {
  public:
    explicit BoostPool(std::size_t) {}
    BoostPool(const BoostPool &) = delete;
    ~BoostPool() {
        if (is_made_) {
            pool()->~pool();
        }
    }
    template <class T> T *alloc() {
        if (__builtin_expect(!is_made_, 0)) {
            new (room_) boost::pool<>(sizeof(T));
            is_made_ = true;
        }
        return static_cast<T *>((pool()->malloc)());
    }
    template <class T> void free(T *object) { (pool()->free)(object); }

  private:
    boost::pool<> *pool() { return reinterpret_cast<boost::pool<> *>(room_); }
    alignas(boost::pool<>) char room_[sizeof(boost::pool<>)];
    bool is_made_ = false;
};
#endif

#if __has_include(<apr_pools.h>)
class Apr : public Forgets {
  public:
    explicit Apr(std::size_t) {
        static const apr_status_t status = apr_initialize();
        if (status != APR_SUCCESS || apr_pool_create(&pool_, nullptr) != APR_SUCCESS) {
            contest::fail("apr does not start");
        }
    }
    Apr(const Apr &) = delete;
    ~Apr() { apr_pool_destroy(pool_); }
    char *text(std::size_t bytes) { return static_cast<char *>(apr_palloc(pool_, bytes)); }
    void on_end(Function function, void *argument) {
        auto *call = alloc<Call>();
        *call = {function, argument};
        apr_pool_cleanup_register(pool_, call, Call::run, apr_pool_cleanup_null);
    }
    template <class T> T *alloc() { return static_cast<T *>(apr_palloc(pool_, sizeof(T))); }
    template <class T> void free(T *) {}

  private:
    struct Call {
        Function function;
        void *argument;
        static apr_status_t run(void *call) {
            static_cast<Call *>(call)->function(static_cast<Call *>(call)->argument);
            return APR_SUCCESS;
        }
    };
    apr_pool_t *pool_ = nullptr;
};
#endif

#if __has_include(<glib.h>)
class Slice {
  public:
    explicit Slice(std::size_t count) : held_(count) {}
    template <class T> T *alloc() { return static_cast<T *>(g_slice_alloc(sizeof(T))); }
    template <class T> void free(T *object) { g_slice_free1(sizeof(T), object); }
    void hold(void *object, std::size_t bytes) { held_.push(object, bytes); }
    void drop() {
        held_.drop([](void *object, std::size_t bytes) { g_slice_free1(bytes, object); });
    }

  private:
    Held held_;
};
#endif

#if __has_include(<foonathan/memory/memory_stack.hpp>)
class FoonathanStack : public Forgets, public Cleanups<FoonathanStack> {
  public:
    explicit FoonathanStack(std::size_t) : stack_(65536) {}
    FoonathanStack(const FoonathanStack &) = delete;
    ~FoonathanStack() { run(); }
    char *text(std::size_t bytes) { return static_cast<char *>(stack_.allocate(bytes, 1)); }
    template <class T> T *alloc() {
        before_ = stack_.top();
        return static_cast<T *>(stack_.allocate(sizeof(T), alignof(T)));
    }
    // Of the newest object only.
    template <class T> void free(T *) { stack_.unwind(before_); }

  private:
    foonathan::memory::memory_stack<> stack_;
    foonathan::memory::memory_stack<>::marker before_ = stack_.top();
};
#endif

// is_scanning: as in nginx, a free searches the list of large blocks for an object of any size.
template <bool is_scanning> class AfterNginxOf : public Forgets {
  public:
    explicit AfterNginxOf(std::size_t) {}
    template <class T> T *alloc() { return static_cast<T *>(pool_.alloc(sizeof(T))); }
    template <class T> void free(T *object) {
        if (is_scanning) {
            pool_.free(object);
        } else {
            pool_.free_sized(object, sizeof(T));
        }
    }
    char *text(std::size_t bytes) { return static_cast<char *>(pool_.alloc(bytes, 1)); }
    void on_end(Function function, void *argument) { pool_.on_end(function, argument); }

  private:
    published::Nginx pool_;
};

using AfterNginx = AfterNginxOf<true>;
using AfterNginxSized = AfterNginxOf<false>;

class AfterTfw : public Forgets, public Cleanups<AfterTfw> {
  public:
    explicit AfterTfw(std::size_t) {}
    AfterTfw(const AfterTfw &) = delete;
    ~AfterTfw() { run(); }
    template <class T> T *alloc() { return static_cast<T *>(pool_.alloc(sizeof(T), alignof(T))); }
    template <class T> void free(T *object) { pool_.free(object, sizeof(T)); }
    char *text(std::size_t bytes) { return static_cast<char *>(pool_.alloc(bytes, 1)); }
    char *resize(char *block, std::size_t old_bytes, std::size_t bytes) {
        return static_cast<char *>(pool_.resize(block, old_bytes, bytes));
    }

  private:
    published::Tfw pool_;
};

// first_bytes: 0 is the default.
template <std::size_t first_bytes> class PsRegionOf : public Forgets {
  public:
    explicit PsRegionOf(std::size_t) {
        ps_region_options options{};
        options.chunks.first_bytes = first_bytes;
        region_ = ps_region_create(first_bytes == 0 ? nullptr : &options);
        contest::require(region_);
    }
    PsRegionOf(const PsRegionOf &) = delete;
    ~PsRegionOf() { ps_region_destroy(region_); }
    char *text(std::size_t bytes) {
        return static_cast<char *>(ps_region_alloc_unaligned(region_, bytes));
    }
    char *resize(char *block, std::size_t old_bytes, std::size_t bytes) {
        return static_cast<char *>(ps_region_realloc_aligned(region_, block, old_bytes, bytes, 1));
    }
    void on_end(Function function, void *argument) {
        contest::require(ps_region_on_destroy(region_, function, argument));
    }
    template <class T> T *alloc() {
        return static_cast<T *>(ps_region_alloc_aligned(region_, sizeof(T), alignof(T)));
    }
    template <class T> void free(T *object) { ps_region_free_last(region_, object, sizeof(T)); }

  private:
    ps_region *region_;
};

using PsRegion = PsRegionOf<0>;
// A chunk as long as the block of foonathan's stack: one for a whole request.
using PsRegionLong = PsRegionOf<65536>;

class PsPool : public Forgets {
  public:
    explicit PsPool(std::size_t) {}
    PsPool(const PsPool &) = delete;
    ~PsPool() {
        if (is_made_) {
            ps_pool_destroy(&pool_);
        }
    }
    template <class T> T *alloc() {
        if (__builtin_expect(!is_made_, 0)) {
            is_made_ = ps_pool_init(&pool_, sizeof(T), alignof(T), nullptr);
        }
        return static_cast<T *>(ps_pool_alloc(&pool_));
    }
    template <class T> void free(T *object) { ps_pool_free(&pool_, object); }

  private:
    ps_pool pool_;
    bool is_made_ = false;
};

class PsSlice {
  public:
    explicit PsSlice(std::size_t count) : held_(count) {}
    template <class T> T *alloc() { return static_cast<T *>(ps_slice_alloc(sizeof(T))); }
    template <class T> void free(T *object) { ps_slice_free(sizeof(T), object); }
    void hold(void *object, std::size_t bytes) { held_.push(object, bytes); }
    void drop() {
        held_.drop([](void *object, std::size_t bytes) { ps_slice_free(bytes, object); });
    }

  private:
    Held held_;
};

} // namespace requests

#endif
