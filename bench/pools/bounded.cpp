// SPDX-License-Identifier: MIT
// 4096 objects of 64 bytes that two threads share: each allocates and frees one at a time (pair),
// 64 at a time (burst), or one allocates and the other frees, by a queue of pointers (pass_on).
// Timed: the wall clock of both, from a common start.
#include "contest.hpp"

#include <atomic>
#include <mutex>
#include <poolshim/bounded.h>
#include <thread>

#if __has_include(<boost/lockfree/detail/freelist.hpp>)
#include <boost/lockfree/detail/freelist.hpp>
#endif

namespace {

constexpr std::size_t COUNT = 4096;
constexpr std::size_t BURST = 64;
constexpr double PAIRS = 4e6;

struct Object {
    std::uint64_t number;
    char rest[56];
};

template <bool is_exact> class Ps {
  public:
    Ps() {
        ps_bounded_options options{};
        options.is_exact = is_exact;
        pool_ = ps_bounded_create(sizeof(Object), 0, COUNT, &options);
        contest::require(pool_);
    }
    void *alloc() { return ps_bounded_alloc(pool_); }
    void free(void *object) { ps_bounded_free(pool_, object); }

  private:
    ps_bounded *pool_;
};

class Malloc {
  public:
    void *alloc() { return std::malloc(sizeof(Object)); }
    void free(void *object) { std::free(object); }
};

// A list under a mutex.
class Mutex {
  public:
    Mutex() : objects_(COUNT) {
        for (Object &object : objects_) {
            free(&object);
        }
    }
    void *alloc() {
        std::lock_guard<std::mutex> lock(mutex_);
        Link *link = free_;
        if (link != nullptr) {
            free_ = link->next;
        }
        return link;
    }
    void free(void *object) {
        std::lock_guard<std::mutex> lock(mutex_);
        free_ = ::new (object) Link{free_};
    }

  private:
    struct Link {
        Link *next;
    };
    std::vector<Object> objects_;
    std::mutex mutex_;
    Link *free_ = nullptr;
};

// A ring of pointers with a number for each place, as D. Vyukov's bounded queue for any threads:
// the base of a DPDK mempool without caches, in a published form without its environment.
class Ring {
  public:
    Ring() : objects_(COUNT), places_(COUNT) {
        for (std::size_t i = 0; i < COUNT; i++) {
            places_[i].number.store(i, std::memory_order_relaxed);
        }
        for (Object &object : objects_) {
            free(&object);
        }
    }
    void *alloc() {
        std::size_t at = head_.load(std::memory_order_relaxed);
        for (;;) {
            Place &place = places_[at % COUNT];
            std::size_t number = place.number.load(std::memory_order_acquire);
            if (number == at + 1) {
                if (head_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
                    void *object = place.object;
                    place.number.store(at + COUNT, std::memory_order_release);
                    return object;
                }
            } else {
                if (number < at + 1) { // a thread that frees is between its two steps
                    std::this_thread::yield();
                }
                at = head_.load(std::memory_order_relaxed);
            }
        }
    }
    void free(void *object) {
        std::size_t at = tail_.load(std::memory_order_relaxed);
        for (;;) {
            Place &place = places_[at % COUNT];
            std::size_t number = place.number.load(std::memory_order_acquire);
            if (number == at) {
                if (tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
                    place.object = object;
                    place.number.store(at + 1, std::memory_order_release);
                    return;
                }
            } else {
                at = tail_.load(std::memory_order_relaxed);
            }
        }
    }

  private:
    struct Place {
        std::atomic<std::size_t> number;
        void *object;
    };
    std::vector<Object> objects_;
    std::vector<Place> places_;
    alignas(64) std::atomic<std::size_t> head_{0};
    alignas(64) std::atomic<std::size_t> tail_{0};
};

#if __has_include(<boost/lockfree/detail/freelist.hpp>)
class BoostLockfree {
  public:
    void *alloc() { return pool_.construct<true, true>(); }
    void free(void *object) { pool_.destruct<true>(static_cast<Object *>(object)); }

  private:
    boost::lockfree::detail::freelist_stack<Object> pool_{std::allocator<Object>(), COUNT};
};
#endif

template <class Pool> Pool &lasting() {
    static Pool pool;
    return pool;
}

// Both bodies at once, each in a thread of its own.
template <class First, class Second> double together(First &&first, Second &&second) {
    std::atomic<int> ready{0};
    auto start = [&](auto &body) {
        ready++;
        while (ready.load() < 3) {
        }
        body();
    };
    std::thread one([&] { start(first); });
    std::thread two([&] { start(second); });
    while (ready.load() < 2) {
    }
    return contest::timed([&] {
        ready++;
        one.join();
        two.join();
    });
}

template <class Pool, std::size_t length> double exchange(double scale) {
    Pool &pool = lasting<Pool>();
    auto rounds = static_cast<std::size_t>(PAIRS * scale / length) + 1;
    auto body = [&] {
        void *objects[length];
        for (std::size_t round = 0; round < rounds; round++) {
            for (void *&object : objects) {
                object = pool.alloc();
                contest::require(object);
                static_cast<Object *>(object)->number = round;
                contest::keep(object);
            }
            for (void *object : objects) {
                pool.free(object);
            }
        }
    };
    return together(body, body);
}

// One place per object under way; each side walks through them in order.
template <class Pool> double pass_on(double scale) {
    constexpr std::size_t places = 1024;
    static std::atomic<void *> boxes[places];
    Pool &pool = lasting<Pool>();
    auto count = static_cast<std::size_t>(PAIRS * scale) + 1;
    auto fill = [&] {
        for (std::size_t i = 0; i < count; i++) {
            while (boxes[i % places].load(std::memory_order_acquire) != nullptr) {
                std::this_thread::yield();
            }
            void *object = pool.alloc();
            contest::require(object);
            static_cast<Object *>(object)->number = i;
            boxes[i % places].store(object, std::memory_order_release);
        }
    };
    auto drain = [&] {
        for (std::size_t i = 0; i < count; i++) {
            void *object;
            while ((object = boxes[i % places].load(std::memory_order_acquire)) == nullptr) {
                std::this_thread::yield();
            }
            boxes[i % places].store(nullptr, std::memory_order_release);
            if (static_cast<Object *>(object)->number != i) {
                contest::fail("an object came out of order");
            }
            pool.free(object);
        }
    };
    return together(fill, drain);
}

template <class Pool> struct Entry {
    explicit Entry(const char *name) {
        contest::Register("bounded", "pair", name, exchange<Pool, 1>);
        contest::Register("bounded", "burst", name, exchange<Pool, BURST>);
        contest::Register("bounded", "pass_on", name, pass_on<Pool>);
    }
};

const Entry<Ps<false>> use_bounded("ps_bounded");
const Entry<Ps<true>> use_exact("ps_bounded_exact");
const Entry<Malloc> use_malloc("malloc");
const Entry<Mutex> use_mutex("mutex_list");
const Entry<Ring> use_ring("after_vyukov");
#if __has_include(<boost/lockfree/detail/freelist.hpp>)
const Entry<BoostLockfree> use_boost("boost_lockfree");
#endif

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
