// SPDX-License-Identifier: MIT
// The contestants of slots.cpp: maps from handles to objects that find stale handles. A
// colony has no handles but pointers and takes part where none is looked up. A contestant that is
// not installed does not take part.
#ifndef PS_BENCH_POOLS_SLOTS_HPP
#define PS_BENCH_POOLS_SLOTS_HPP

#include "contest.hpp"

#include <poolshim/slots.h>
#include <poolshim/slots.hpp>
#include <unordered_map>

#if __has_include(<plf_colony.h>)
#include <plf_colony.h>
#endif

namespace slots_bench {

struct Entity {
    Entity() = default;
    explicit Entity(std::uint64_t own_name) : name(own_name), place(), speed() {}
    std::uint64_t name;
    double place[3];
    double speed[3];
};

template <class Word> class PsSlots {
  public:
    using Handle = ps::slot_handle<Entity, Word>;
    Handle insert(std::uint64_t name) { return slots_.insert(name); }
    Entity *get(Handle handle) { return slots_.get(handle); }
    void remove(Handle handle) { slots_.remove(handle); }
    template <class Visit> void each(Visit &&visit) { slots_.each(visit); }

  private:
    ps::slots<Entity, Word, sizeof(Word) == 8 ? 32 : 18> slots_;
};

class PsSlotsC {
  public:
    using Handle = std::uint64_t;
    PsSlotsC() {
        if (!ps_slots_init(&slots_, sizeof(Entity), 0, nullptr)) {
            contest::fail("no map");
        }
    }
    PsSlotsC(const PsSlotsC &) = delete;
    ~PsSlotsC() { ps_slots_destroy(&slots_); }
    Handle insert(std::uint64_t name) {
        void *entity = nullptr;
        Handle handle = ps_slots_insert(&slots_, &entity);
        ::new (entity) Entity(name);
        return handle;
    }
    Entity *get(Handle handle) { return static_cast<Entity *>(ps_slots_get(&slots_, handle)); }
    void remove(Handle handle) { ps_slots_remove(&slots_, handle); }
    template <class Visit> void each(Visit &&visit) {
        struct ps_slots_cursor cursor = ps_slots_begin();
        for (void *entity; (entity = ps_slots_next(&slots_, &cursor)) != nullptr;) {
            visit(*static_cast<Entity *>(entity));
        }
    }

  private:
    ps_slots slots_;
};

// As games write it by hand: a vector of objects with their generation, the index of the next free
// one in its place. Objects move when it grows.
class VectorFreeList {
  public:
    struct Handle {
        std::uint32_t index;
        std::uint32_t generation;
    };
    Handle insert(std::uint64_t name) {
        std::uint32_t index = free_;
        if (index != NONE) {
            free_ = places_[index].next;
        } else {
            index = static_cast<std::uint32_t>(places_.size());
            places_.emplace_back();
        }
        Place &place = places_[index];
        place.next = LIVE;
        place.entity = Entity(name);
        return {index, place.generation};
    }
    Entity *get(Handle handle) {
        if (handle.index >= places_.size()) {
            return nullptr;
        }
        Place &place = places_[handle.index];
        return place.generation == handle.generation ? &place.entity : nullptr;
    }
    void remove(Handle handle) {
        if (get(handle) != nullptr) {
            Place &place = places_[handle.index];
            place.generation++;
            place.next = free_;
            free_ = handle.index;
        }
    }
    template <class Visit> void each(Visit &&visit) {
        for (Place &place : places_) {
            if (place.next == LIVE) {
                visit(place.entity);
            }
        }
    }

  private:
    static constexpr std::uint32_t NONE = 0xffffffff;
    static constexpr std::uint32_t LIVE = 0xfffffffe;
    struct Place {
        std::uint32_t generation = 1;
        std::uint32_t next = LIVE;
        Entity entity;
    };
    std::vector<Place> places_;
    std::uint32_t free_ = NONE;
};

class UnorderedMap {
  public:
    using Handle = std::uint64_t;
    Handle insert(std::uint64_t name) {
        entities_.emplace(++last_, name);
        return last_;
    }
    Entity *get(Handle handle) {
        auto found = entities_.find(handle);
        return found == entities_.end() ? nullptr : &found->second;
    }
    void remove(Handle handle) { entities_.erase(handle); }
    template <class Visit> void each(Visit &&visit) {
        for (auto &entry : entities_) {
            visit(entry.second);
        }
    }

  private:
    std::unordered_map<std::uint64_t, Entity> entities_;
    std::uint64_t last_ = 0;
};

#if __has_include(<plf_colony.h>)
class Colony {
  public:
    using Handle = plf::colony<Entity>::iterator;
    Handle insert(std::uint64_t name) { return colony_.emplace(name); }
    void remove(Handle handle) { colony_.erase(handle); }
    template <class Visit> void each(Visit &&visit) {
        for (Entity &entity : colony_) {
            visit(entity);
        }
    }

  private:
    plf::colony<Entity> colony_;
};
#endif

} // namespace slots_bench

#endif
