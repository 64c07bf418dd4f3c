// SPDX-License-Identifier: MIT
// Tempesta's pool benchmark: 20 million objects of 24 bytes (small), 2 million of 240 (big), with
// every fourth freed at once or none, a mixture with objects of 8305 bytes in two forms, and
// 200,000 regions of 100 objects made and destroyed. Timed: the loop; the general allocators also
// free what they hold inside it, the pools are destroyed outside, except where making and
// destroying is the case. Each object's first word is written.
#include "requests.hpp"

namespace {

using requests::Big;
using requests::Huge;
using requests::Small;

constexpr double SMALL_COUNT = 20e6;
constexpr double REGION_COUNT = 200e3;
constexpr unsigned REGION_OBJECTS = 100;

template <class T> void touch(T *object) {
    contest::require(object);
    *reinterpret_cast<long *>(object) = 1;
    contest::keep(object);
}

template <class Pool, class T, bool is_freed> double same_size(double scale) {
    auto count = static_cast<std::size_t>(SMALL_COUNT * scale * sizeof(Small) / sizeof(T));
    contest::Timer timer;
    Pool pool(count);
    timer.start();
    for (std::size_t i = 0; i < count; i++) {
        T *object = pool.template alloc<T>();
        touch(object);
        if (is_freed && (i & 3) == 0) {
            pool.template free<T>(object);
        } else {
            pool.hold(object, sizeof(T));
        }
    }
    pool.drop();
    timer.stop();
    return timer.ms();
}

// is_big_freed: Tempesta's form; false: nginx's, which keeps the big ones.
template <class Pool, bool is_big_freed> double mixture(double scale) {
    auto count = static_cast<std::size_t>(SMALL_COUNT * scale);
    contest::Timer timer;
    Pool pool(count);
    timer.start();
    for (std::size_t i = 0; i < count; i++) {
        if (i % 4096 == 0) {
            Huge *object = pool.template alloc<Huge>();
            touch(object);
            pool.template free<Huge>(object);
        } else if (i % 4 == 0) {
            Big *object = pool.template alloc<Big>();
            touch(object);
            if (is_big_freed) {
                pool.template free<Big>(object);
            } else {
                pool.hold(object, sizeof(Big));
            }
        } else {
            Small *object = pool.template alloc<Small>();
            touch(object);
            pool.hold(object, sizeof(Small));
        }
    }
    pool.drop();
    timer.stop();
    return timer.ms();
}

template <class Pool, class T> void fill_one() {
    Pool pool(REGION_OBJECTS);
    for (unsigned i = 0; i < REGION_OBJECTS; i++) {
        T *object = pool.template alloc<T>();
        touch(object);
        pool.hold(object, sizeof(T));
    }
    pool.drop();
}

template <class Pool> double make_and_destroy(double scale) {
    auto count = static_cast<std::size_t>(REGION_COUNT * scale);
    contest::Timer timer;
    timer.start();
    for (std::size_t i = 0; i < count; i++) {
        if (i % 4 == 0) {
            fill_one<Pool, Big>();
        } else {
            fill_one<Pool, Small>();
        }
    }
    timer.stop();
    return timer.ms();
}

// What a contestant can do: free single objects of one size, of several sizes.
template <class Pool> struct Entry {
    static void one_size(const char *name) {
        contest::Register("requests", "small", name, same_size<Pool, Small, false>);
        contest::Register("requests", "small_free", name, same_size<Pool, Small, true>);
        contest::Register("requests", "big", name, same_size<Pool, Big, false>);
        contest::Register("requests", "big_free", name, same_size<Pool, Big, true>);
        contest::Register("requests", "make_destroy", name, make_and_destroy<Pool>);
    }
    static void mixed(const char *name) {
        contest::Register("requests", "mix", name, mixture<Pool, true>);
        contest::Register("requests", "mix_nginx", name, mixture<Pool, false>);
    }
    Entry(const char *name, bool has_mixture) {
        one_size(name);
        if (has_mixture) {
            mixed(name);
        }
    }
};

const Entry<requests::Malloc> use_malloc("malloc", true);
const Entry<requests::Monotonic> use_monotonic("std_monotonic", true);
const Entry<requests::Obstack> use_obstack("obstack", true);
#if __has_include(<boost/pool/pool.hpp>)
const Entry<requests::BoostPool> use_boost("boost_pool", false);
#endif
#if __has_include(<apr_pools.h>)
const Entry<requests::Apr> use_apr("apr", true);
#endif
#if __has_include(<glib.h>)
const Entry<requests::Slice> use_slice("glib_slice", true);
#endif
#if __has_include(<foonathan/memory/memory_stack.hpp>)
const Entry<requests::FoonathanStack> use_foonathan("foonathan_stack", true);
#endif
const Entry<requests::PsRegion> use_region("ps_region", true);
const Entry<requests::PsPool> use_pool("ps_pool", false);
const Entry<requests::PsSlice> use_ps_slice("ps_slice", true);

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
