// SPDX-License-Identifier: MIT
// 1024 objects of 64 bytes in storage that is there beforehand: made and destroyed one by one
// (single), or all of them and then destroyed in the same order (bulk), in reverse, or shuffled.
// The originals are given memory for as many before the clock runs. Timed: 64 rounds on one pool,
// with a write to each object.
#include "contest.hpp"

#include <poolshim/fixed.hpp>
#include <random>

#if __has_include(<boost/pool/pool.hpp>)
#include <boost/pool/pool.hpp>
#endif
#if __has_include(<boost/lockfree/detail/freelist.hpp>)
#include <boost/lockfree/detail/freelist.hpp>
#endif
#if __has_include(<foonathan/memory/static_allocator.hpp>)
#include "foonathan.hpp"

#include <foonathan/memory/memory_pool.hpp>
#include <foonathan/memory/static_allocator.hpp>
#endif

namespace {

constexpr std::size_t COUNT = 1024;
constexpr double ROUNDS = 64;

struct Object {
    explicit Object(std::uint64_t own_number) : number(own_number) {}
    std::uint64_t number;
    char rest[56];
};

template <class Storage> class Ps {
  public:
    Object *make(std::uint64_t number) { return pool_.create(number); }
    void end(Object *object) { pool_.destroy(object); }

  private:
    Storage pool_;
};

class New {
  public:
    Object *make(std::uint64_t number) { return new Object(number); }
    void end(Object *object) { delete object; }
};

#if __has_include(<boost/pool/pool.hpp>)
class Boost {
  public:
    Boost() : pool_(sizeof(Object), COUNT) { (pool_.free)((pool_.malloc)()); }
    Object *make(std::uint64_t number) { return ::new ((pool_.malloc)()) Object(number); }
    void end(Object *object) { (pool_.free)(object); }

  private:
    boost::pool<> pool_;
};
#endif

#if __has_include(<boost/lockfree/detail/freelist.hpp>)
// What boost::lockfree's containers of a fixed capacity take their nodes from.
class BoostLockfree {
  public:
    Object *make(std::uint64_t number) { return pool_.construct<true, true>(number); }
    void end(Object *object) { pool_.destruct<true>(object); }

  private:
    boost::lockfree::detail::freelist_stack<Object> pool_{std::allocator<Object>(), COUNT};
};
#endif

#if __has_include(<foonathan/memory/static_allocator.hpp>)
class Foonathan {
  public:
    Object *make(std::uint64_t number) { return ::new (pool_.allocate_node()) Object(number); }
    void end(Object *object) { pool_.deallocate_node(object); }

  private:
    static constexpr std::size_t BYTES = (COUNT + 64) * sizeof(Object);
    foonathan::memory::static_allocator_storage<BYTES> storage_;
    foonathan::memory::memory_pool<foonathan::memory::node_pool,
                                   foonathan::memory::static_block_allocator>
        pool_{sizeof(Object), BYTES, storage_};
};
#endif

enum class Order { single, bulk, reversed, shuffled };

std::vector<std::size_t> places_in(Order order) {
    std::vector<std::size_t> places(COUNT);
    for (std::size_t i = 0; i < COUNT; i++) {
        places[i] = order == Order::reversed ? COUNT - 1 - i : i;
    }
    if (order == Order::shuffled) {
        std::shuffle(places.begin(), places.end(), std::mt19937{});
    }
    return places;
}

template <class Pool> Pool &lasting() {
    static Pool pool;
    return pool;
}

template <class Pool, Order order> double pass(double scale) {
    Pool &pool = lasting<Pool>();
    std::vector<std::size_t> places = places_in(order);
    std::vector<Object *> objects(COUNT);
    auto rounds = static_cast<std::size_t>(ROUNDS * scale) + 1;
    return contest::timed([&] {
        for (std::size_t round = 0; round < rounds; round++) {
            for (std::size_t i = 0; i < COUNT; i++) {
                objects[i] = pool.make(i);
                contest::keep(objects[i]);
                if constexpr (order == Order::single) {
                    pool.end(objects[i]);
                }
            }
            for (std::size_t i = 0; order != Order::single && i < COUNT; i++) {
                pool.end(objects[places[i]]);
            }
        }
    });
}

template <class Pool> struct Entry {
    explicit Entry(const char *name) {
        contest::Register("fixed", "single", name, pass<Pool, Order::single>, 20);
        contest::Register("fixed", "bulk", name, pass<Pool, Order::bulk>, 20);
        contest::Register("fixed", "reversed", name, pass<Pool, Order::reversed>, 20);
        contest::Register("fixed", "shuffled", name, pass<Pool, Order::shuffled>, 20);
    }
};

const Entry<Ps<ps::fixed<Object, COUNT>>> use_fixed("ps_fixed");
const Entry<Ps<ps::shared_fixed<Object, COUNT>>> use_shared("ps_fixed_shared");
const Entry<Ps<ps::unchecked_fixed<Object, COUNT>>> use_unchecked("ps_fixed_unchecked");
const Entry<New> use_new("new");
#if __has_include(<boost/pool/pool.hpp>)
const Entry<Boost> use_boost("boost_unordered");
#endif
#if __has_include(<boost/lockfree/detail/freelist.hpp>)
const Entry<BoostLockfree> use_lockfree("boost_lockfree");
#endif
#if __has_include(<foonathan/memory/static_allocator.hpp>)
const Entry<Foonathan> use_foonathan("foonathan_static");
#endif

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
