// SPDX-License-Identifier: MIT
// boost_intrusive_pool's performance tests: objects of a virtual class with a buffer of 1024 bytes,
// obtained by an init function or by new, owned by counted references. Continuous: 100,000 into a
// vector, then all released. Mixed: into a hash table, some dropped at once, some erased in
// between. Timed: the CPU time of the loop with the work of the containers. The pool lasts over the
// passes, so growth is in the first one only. Group enlarge: the same with pools of several enlarge
// steps, on a fresh one in each pass. boost_intrusive_pool itself takes part where CMake's
// POOLSHIM_BENCH_INTRUSIVE_POOL is the folder of its header.
#include "contest.hpp"

#include <memory>
#include <poolshim/intrusive.hpp>
#include <unordered_map>

#if __has_include(<boost_intrusive_pool.hpp>)
#include <cassert>
// In this order: it includes neither itself.
#include <boost_intrusive_pool.hpp>
#endif

namespace {

constexpr double CONTINUOUS_COUNT = 100e3;
constexpr double MIXED_COUNT = 100e3;

struct Large {
    Large() = default;
    Large(const Large &) = delete;
    virtual ~Large() = default;
    virtual void init(unsigned value) { buffer[0] = static_cast<char>(value); }
    char buffer[1024];
};

struct Pooled : ps::intrusive_item<>, Large {};

template <class Object> void use(Object &object) {
    object.buffer[10] = static_cast<char>(object.buffer[10] + 1);
    object.buffer[20] = static_cast<char>(object.buffer[20] + 1);
    contest::keep(&object);
}

// The contestants: obtain() gives a handle that releases the object when it goes.
template <std::size_t initial, std::size_t step> class Pool {
  public:
    using Handle = ps::ref<Pooled>;
    Handle obtain() { return pool_.allocate_through_init(0u); }

  private:
    static ps::intrusive_options options() {
        ps::intrusive_options options;
        options.reserve_items = initial;
        options.step_items = step;
        return options;
    }
    ps::intrusive_pool<Pooled, ps::reuse> pool_{options()};
};

#if __has_include(<boost_intrusive_pool.hpp>)
struct Original : memorypool::boost_intrusive_pool_item {
    void init(unsigned value) { buffer[0] = static_cast<char>(value); }
    char buffer[1024];
};

template <std::size_t initial, std::size_t step> class BoostIntrusivePool {
  public:
    using Handle = boost::intrusive_ptr<Original>;
    Handle obtain() { return pool_.allocate_through_init(0u); }

  private:
    memorypool::boost_intrusive_pool<Original> pool_{initial, step};
};
#endif

class New {
  public:
    using Handle = std::unique_ptr<Large>;
    Handle obtain() { return Handle(new Large); }
};

class Shared {
  public:
    using Handle = std::shared_ptr<Large>;
    Handle obtain() { return std::make_shared<Large>(); }
};

template <class Source> Source &lasting() {
    static Source source;
    return source;
}

template <class Source> double continuous_on(Source &source, double scale) {
    auto count = static_cast<std::size_t>(CONTINUOUS_COUNT * scale);
    std::vector<typename Source::Handle> held;
    held.reserve(count);
    contest::Timer timer(true);
    timer.start();
    for (std::size_t i = 0; i < count; i++) {
        held.push_back(source.obtain());
        use(*held.back());
    }
    held.clear();
    timer.stop();
    return timer.ms();
}

template <class Source> double mixed_on(Source &source, double scale) {
    auto count = static_cast<std::size_t>(MIXED_COUNT * scale);
    std::unordered_map<std::size_t, typename Source::Handle> held;
    held.reserve(count / 10);
    contest::Timer timer(true);
    timer.start();
    for (std::size_t i = 0; i < count; i++) {
        auto handle = source.obtain();
        use(*handle);
        if (i % 33 == 0) {
            continue;
        }
        held.emplace(i, std::move(handle));
        if (i % 7 == 0 || i % 31 == 0 || i % 40 == 0 || i % 53 == 0) {
            held.erase(i - 1);
        }
    }
    held.clear();
    timer.stop();
    return timer.ms();
}

template <class Source> struct Entry {
    explicit Entry(const char *name) {
        auto on_lasting = [](auto pass) {
            return [pass](double scale) { return pass(lasting<Source>(), scale); };
        };
        contest::Register("objects", "continuous", name, on_lasting(continuous_on<Source>), 10);
        contest::Register("objects", "mixed", name, on_lasting(mixed_on<Source>), 10);
    }
};

// A fresh pool, so that each pass has all the steps.
template <class Source> void enlarge(const char *name, std::size_t step) {
    auto on_fresh = [](auto pass) {
        return [pass](double scale) {
            Source source;
            return pass(source, scale);
        };
    };
    std::string number = std::to_string(step);
    contest::Register("enlarge", "continuous_" + number, name, on_fresh(continuous_on<Source>));
    contest::Register("enlarge", "mixed_" + number, name, on_fresh(mixed_on<Source>));
}

template <std::size_t... steps> void enlarge_all() {
#if __has_include(<boost_intrusive_pool.hpp>)
    (enlarge<BoostIntrusivePool<steps, steps>>("boost_intrusive_pool", steps), ...);
#endif
    (enlarge<Pool<steps, steps>>("ps_intrusive", steps), ...);
    (enlarge<New>("new", steps), ...);
}

const Entry<Pool<16384, 16384>> use_pool("ps_intrusive");
const Entry<Pool<1024, 64>> use_stepping("ps_intrusive_steps");
#if __has_include(<boost_intrusive_pool.hpp>)
const Entry<BoostIntrusivePool<16384, 16384>> use_original("boost_intrusive_pool");
const Entry<BoostIntrusivePool<1024, 64>> use_stepping_original("boost_intrusive_pool_steps");
#endif
const Entry<New> use_new("new");
const Entry<Shared> use_shared("make_shared");
const bool is_enlarge_entered = (enlarge_all<1, 16, 64, 256, 1024, 4096, 16384>(), true);

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
