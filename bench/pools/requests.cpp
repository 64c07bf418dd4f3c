// SPDX-License-Identifier: MIT
// Tempesta's pool benchmark: 20 million objects of 24 bytes (small), 2 million of 240 (big), with
// every fourth freed at once or none, a mixture with objects of 8305 bytes in two forms, and
// 200,000 regions of 100 objects made and destroyed. Timed: the loop; the general allocators also
// free all objects inside it, the pools are destroyed outside, except where making and
// destroying is the case. Each object's first word is written. A request (request) is a region with
// 40 texts of 8 to 86 bytes, an object of 240 and one of 8305 bytes, and three functions that are
// called at its end; 200,000 of them are made and destroyed. An array (grow) is filled while it
// grows by half, from 64 bytes to 1 MiB, in a region of its own, 2000 times.
#include "requests.hpp"

namespace {

using requests::Big;
using requests::Huge;
using requests::Small;

constexpr double SMALL_COUNT = 20e6;
constexpr double REGION_COUNT = 200e3;
constexpr unsigned REGION_OBJECTS = 100;
constexpr std::size_t REQUEST_TEXTS = 40;
constexpr unsigned REQUEST_ENDS = 3;
constexpr double ARRAY_COUNT = 2000;
constexpr std::size_t ARRAY_FIRST_BYTES = 64;
constexpr std::size_t ARRAY_BYTES = 1 << 20;

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

// is_big_freed: Tempesta's form; false: nginx's, which does not free the big ones.
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

template <class Pool> void grow_one() {
    Pool pool(1);
    std::size_t bytes = ARRAY_FIRST_BYTES;
    char *array = pool.text(bytes);
    contest::require(array);
    for (std::size_t i = 0; i < ARRAY_BYTES; i += 64) {
        if (i >= bytes) {
            std::size_t more = bytes + bytes / 2;
            array = requests::resized(pool, array, bytes, more);
            contest::require(array);
            bytes = more;
        }
        array[i] = static_cast<char>(i / 64 % 127);
    }
    for (std::size_t i = 0; i < ARRAY_BYTES; i += 64) {
        if (array[i] != static_cast<char>(i / 64 % 127)) {
            contest::fail("an array lost what it had");
        }
    }
    pool.hold(array, bytes);
    pool.drop();
}

template <class Pool> double grow(double scale) {
    auto count = static_cast<std::size_t>(ARRAY_COUNT * scale);
    return contest::timed([count] {
        for (std::size_t i = 0; i <= count; i++) {
            grow_one<Pool>();
        }
    });
}

void note_end(void *count) { ++*static_cast<std::size_t *>(count); }

template <class Pool> void serve_one(std::size_t *ended) {
    Pool pool(REGION_OBJECTS);
    for (std::size_t i = 0; i < REQUEST_TEXTS; i++) {
        char *text = pool.text(8 + 2 * i);
        contest::require(text);
        text[0] = static_cast<char>(i);
        text[7 + 2 * i] = static_cast<char>(i);
        contest::keep(text);
        pool.hold(text, 8 + 2 * i);
    }
    Big *big = pool.template alloc<Big>();
    touch(big);
    pool.hold(big, sizeof(Big));
    Huge *huge = pool.template alloc<Huge>();
    touch(huge);
    pool.hold(huge, sizeof(Huge));
    for (unsigned i = 0; i < REQUEST_ENDS; i++) {
        pool.on_end(note_end, ended);
    }
    pool.drop();
}

template <class Pool> double serve(double scale) {
    auto count = static_cast<std::size_t>(REGION_COUNT * scale);
    std::size_t ended = 0;
    double ms = contest::timed([&] {
        for (std::size_t i = 0; i < count; i++) {
            serve_one<Pool>(&ended);
        }
    });
    if (ended != count * REQUEST_ENDS) {
        contest::fail("a cleanup did not run");
    }
    return ms;
}

// Blocks of many lengths and alignments, each with its own contents: none may lie in another.
template <class Pool> void check() {
    Pool pool(300);
    std::vector<std::pair<unsigned char *, std::size_t>> blocks;
    for (std::size_t i = 0; i < 300; i++) {
        std::size_t bytes = i % 3 == 0 ? i + 1 : i % 3 == 1 ? sizeof(Big) : sizeof(Huge);
        void *block = i % 3 == 0   ? pool.text(bytes)
                      : i % 3 == 1 ? static_cast<void *>(pool.template alloc<Big>())
                                   : static_cast<void *>(pool.template alloc<Huge>());
        contest::require(block);
        if (i % 3 == 1 && reinterpret_cast<std::uintptr_t>(block) % alignof(Big) != 0) {
            contest::fail("an object is not aligned");
        }
        std::memset(block, static_cast<int>(i % 251), bytes);
        pool.hold(block, bytes);
        blocks.emplace_back(static_cast<unsigned char *>(block), bytes);
    }
    for (std::size_t i = 0; i < blocks.size(); i++) {
        const unsigned char *at = blocks[i].first;
        if (at[0] != i % 251 || std::memcmp(at, at + 1, blocks[i].second - 1) != 0) {
            contest::fail("blocks share memory");
        }
    }
    pool.drop();
}

template <class Pool> double checked_serve(double scale) {
    static const bool is_checked = (check<Pool>(), true);
    (void)is_checked;
    return serve<Pool>(scale);
}

// What a contestant can do: free single objects of one size.
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
    explicit Entry(const char *name) { one_size(name); }
};

// Objects of several sizes.
template <class Pool> struct MixedEntry : Entry<Pool> {
    explicit MixedEntry(const char *name) : Entry<Pool>(name) { Entry<Pool>::mixed(name); }
};

// Texts and cleanups.
template <class Pool> struct RequestEntry : MixedEntry<Pool> {
    explicit RequestEntry(const char *name) : MixedEntry<Pool>(name) {
        contest::Register("requests", "request", name, checked_serve<Pool>);
        contest::Register("requests", "grow", name, grow<Pool>);
    }
};

const RequestEntry<requests::Malloc> use_malloc("malloc");
const RequestEntry<requests::Monotonic> use_monotonic("std_monotonic");
const RequestEntry<requests::Obstack> use_obstack("obstack");
#if __has_include(<boost/pool/pool.hpp>)
const Entry<requests::BoostPool> use_boost("boost_pool");
#endif
#if __has_include(<apr_pools.h>)
const RequestEntry<requests::Apr> use_apr("apr");
#endif
#if __has_include(<glib.h>)
const MixedEntry<requests::Slice> use_slice("glib_slice");
#endif
#if __has_include(<foonathan/memory/memory_stack.hpp>)
const RequestEntry<requests::FoonathanStack> use_foonathan("foonathan_stack");
#endif
const RequestEntry<requests::AfterNginx> use_nginx("after_nginx");
const MixedEntry<requests::AfterNginxSized> use_nginx_sized("after_nginx_sized");
const RequestEntry<requests::AfterTfw> use_tfw("after_tfwpool");
const RequestEntry<requests::PsRegion> use_region("ps_region");
const contest::Register use_long("requests", "request", "ps_region_64k",
                                 checked_serve<requests::PsRegionLong>);
const Entry<requests::PsPool> use_pool("ps_pool");
const MixedEntry<requests::PsSlice> use_ps_slice("ps_slice");

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
