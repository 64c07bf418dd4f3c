// SPDX-License-Identifier: MIT
// Objects of 56 bytes, accessed by handles: a map of 100,000 is built, then random ones are removed
// and replaced, looked up (an eighth of the handles is stale), and all are visited, without holes
// and with half of them removed at random. Timed: the calls, with the reads of the objects; not the
// choice of what to remove, and not the end of the map.
#include "slots.hpp"

#include <random>

namespace {

constexpr double COUNT = 100e3;
constexpr double CHANGES = 1e6;
constexpr double LOOKUPS = 2e6;
constexpr int ROUNDS = 20;

using Engine = std::minstd_rand;

template <class Map> std::vector<typename Map::Handle> fill(Map &map, std::size_t count) {
    std::vector<typename Map::Handle> handles;
    handles.reserve(count);
    for (std::size_t i = 0; i < count; i++) {
        handles.push_back(map.insert(i));
    }
    return handles;
}

std::vector<std::uint32_t> random_indexes(std::size_t count, std::size_t limit) {
    Engine engine(7);
    std::uniform_int_distribution<std::uint32_t> any(0, static_cast<std::uint32_t>(limit - 1));
    std::vector<std::uint32_t> indexes(count);
    for (std::uint32_t &index : indexes) {
        index = any(engine);
    }
    return indexes;
}

std::size_t count_of(double scale) { return static_cast<std::size_t>(COUNT * scale) + 64; }

template <class Map> double build(double scale) {
    Map map;
    std::size_t count = count_of(scale);
    std::vector<typename Map::Handle> handles(count);
    return contest::timed([&] {
        for (std::size_t i = 0; i < count; i++) {
            handles[i] = map.insert(i);
        }
    });
}

template <class Map> double change(double scale) {
    Map map;
    auto handles = fill(map, count_of(scale));
    auto indexes = random_indexes(static_cast<std::size_t>(CHANGES * scale) + 1, handles.size());
    return contest::timed([&] {
        for (std::uint32_t index : indexes) {
            map.remove(handles[index]);
            handles[index] = map.insert(index);
        }
    });
}

template <class Map> double look_up(double scale) {
    Map map;
    auto handles = fill(map, count_of(scale));
    for (std::size_t i = 0; i < handles.size(); i += 8) {
        map.remove(handles[i]);
        map.insert(i);
    }
    auto indexes = random_indexes(static_cast<std::size_t>(LOOKUPS * scale) + 1, handles.size());
    std::uint64_t found = 0;
    double ms = contest::timed([&] {
        for (std::uint32_t index : indexes) {
            if (slots_bench::Entity *entity = map.get(handles[index])) {
                found += entity->name == index;
            }
        }
    });
    std::size_t fresh = 0;
    for (std::uint32_t index : indexes) {
        fresh += index % 8 != 0;
    }
    if (found != fresh) {
        contest::fail("another number of objects was found");
    }
    return ms;
}

template <class Map> double visit(double scale, bool has_holes) {
    Map map;
    auto handles = fill(map, count_of(scale));
    Engine engine(3);
    std::size_t live = handles.size();
    for (std::size_t i = 0; has_holes && i < handles.size(); i++) {
        if (engine() % 2 == 0) {
            map.remove(handles[i]);
            live--;
        }
    }
    std::size_t visited = 0;
    double ms = contest::timed([&] {
        for (int round = 0; round < ROUNDS; round++) {
            map.each([&](slots_bench::Entity &entity) {
                entity.place[0] += 1;
                visited++;
            });
        }
    });
    if (visited != live * ROUNDS) {
        contest::fail("another number of objects was visited");
    }
    return ms;
}

template <class Map> double visit_all(double scale) { return visit<Map>(scale, false); }

template <class Map> double visit_half(double scale) { return visit<Map>(scale, true); }

template <class Map> struct Entry {
    explicit Entry(const char *name) {
        contest::Register("slots", "build", name, build<Map>);
        contest::Register("slots", "change", name, change<Map>);
        contest::Register("slots", "visit_all", name, visit_all<Map>);
        contest::Register("slots", "visit_half", name, visit_half<Map>);
    }
};

template <class Map> struct LookupEntry : Entry<Map> {
    explicit LookupEntry(const char *name) : Entry<Map>(name) {
        contest::Register("slots", "look_up", name, look_up<Map>);
    }
};

const LookupEntry<slots_bench::PsSlots<std::uint64_t>> use_slots("ps_slots");
const LookupEntry<slots_bench::PsSlots<std::uint32_t>> use_slots_32("ps_slots_32");
const LookupEntry<slots_bench::PsSlotsC> use_slots_c("ps_slots_c");
const LookupEntry<slots_bench::VectorFreeList> use_vector("vector_free_list");
const LookupEntry<slots_bench::UnorderedMap> use_map("std_unordered_map");
#if __has_include(<plf_colony.h>)
const Entry<slots_bench::Colony> use_colony("plf_colony");
#endif

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
