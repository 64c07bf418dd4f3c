// SPDX-License-Identifier: MIT
// The entities of a game: 20,000 that chase each other by number, some of which die and are
// replaced in each frame. A frame sorts them into the cells of a grid, finds neighbours, and leaves
// events, which the next frame reads.
//
//     malloc   std::unordered_map by number; lists of a frame are std::vector
//     pmr      the same on a pool resource; the lists on two monotonic resources that take turns
//     pools    ps::slots, whose handles are the numbers; the lists on ps::frames
#include "variants.hpp"

#include <array>
#include <memory_resource>
#include <optional>
#include <poolshim/adapters.hpp>
#include <poolshim/frames.hpp>
#include <poolshim/slots.hpp>
#include <unordered_map>
#include <vector>

namespace {

constexpr std::uint32_t ENTITY_COUNT = 20000;
constexpr std::uint32_t GRID_WIDTH = 64; // cells; one is 16 units wide
constexpr std::uint32_t WORLD_WIDTH = GRID_WIDTH * 16;

struct Entity {
    std::uint64_t target; // its number; it may have died
    std::uint32_t serial; // of all that ever lived
    std::uint32_t x, y;
    std::uint32_t health;
    char state[88]; // what a game has besides
};

struct Event {
    std::uint64_t victim;
    std::uint32_t damage;
};

// --- Where entities are, and the lists of a frame
// -------------------------------------------------

// Of the standard library: no handle, but a number that is not used again.
template <class Map> class MapEntities {
  public:
    template <class... Arguments>
    explicit MapEntities(Arguments &&...arguments) : map_(arguments...) {}
    std::uint64_t insert(const Entity &entity) {
        map_.emplace(++newest_, entity);
        return newest_;
    }
    Entity *find(std::uint64_t number) {
        auto found = map_.find(number);
        return found == map_.end() ? nullptr : &found->second;
    }
    void remove(std::uint64_t number) { map_.erase(number); }
    std::size_t size() const { return map_.size(); }
    template <class Visit> void each(Visit visit) {
        for (auto &[number, entity] : map_) {
            visit(number, entity);
        }
    }

  private:
    Map map_;
    std::uint64_t newest_ = 0;
};

class MallocWorld {
  public:
    template <class T> using List = std::vector<T>;
    auto &entities() { return entities_; }
    void next_frame() {}
    template <class T> List<T> list() { return {}; }

  private:
    MapEntities<std::unordered_map<std::uint64_t, Entity>> entities_;
};

class PmrWorld {
  public:
    template <class T> using List = std::pmr::vector<T>;
    auto &entities() { return entities_; }
    void next_frame() {
        turn_ ^= 1;
        frames_[turn_].release();
    }
    template <class T> List<T> list() { return List<T>(&frames_[turn_]); }

  private:
    std::pmr::unsynchronized_pool_resource pool_;
    MapEntities<std::pmr::unordered_map<std::uint64_t, Entity>> entities_{&pool_};
    std::array<std::pmr::monotonic_buffer_resource, 2> frames_;
    std::size_t turn_ = 0;
};

class SlotEntities {
  public:
    using Slots = ps::slots<Entity>;
    std::uint64_t insert(const Entity &entity) { return slots_.insert(entity).value(); }
    Entity *find(std::uint64_t number) { return slots_.get(Slots::handle(number)); }
    void remove(std::uint64_t number) { slots_.remove(Slots::handle(number)); }
    std::size_t size() const { return slots_.size(); }
    template <class Visit> void each(Visit visit) {
        slots_.each([&](Entity &entity) { visit(slots_.handle_of(entity).value(), entity); });
    }

  private:
    Slots slots_;
};

class PoolWorld {
  public:
    template <class T> using List = std::vector<T, ps::allocator<T, ps::no_free<ps::region_ref>>>;
    auto &entities() { return entities_; }
    void next_frame() { frame_ = ps::no_free(frames_.next()); }
    template <class T> List<T> list() { return List<T>(frame_); }

  private:
    SlotEntities entities_;
    ps::frames frames_{2};
    ps::no_free<ps::region_ref> frame_{frames_.current()};
};

// --- The game
// -------------------------------------------------------------------------------------

// One step from where to the goal; at the goal one back, down to 0.
std::uint32_t nearer(std::uint32_t where, std::uint32_t goal) {
    return where < goal ? where + 1 : where > 0 ? where - 1 : 0;
}

template <class World> class Game {
  public:
    Game() : events_(world_.template list<Event>()) {
        for (std::uint32_t i = 0; i < ENTITY_COUNT; i++) {
            spawn(0);
        }
    }

    // A frame; returns what it did as a number.
    std::uint64_t step() {
        world_.next_frame();
        auto now = world_.template list<Event>();
        auto dead = world_.template list<std::uint64_t>();
        std::uint64_t done = suffer(dead);
        done += move(now, dead);
        for (std::uint64_t number : dead) {
            remove(number);
        }
        for (std::size_t i = 0; i < dead.size(); i++) {
            spawn(done + i);
        }
        meet(now);
        variants::require(world_.entities().size() == ENTITY_COUNT, "count of entities");
        events_.emplace(std::move(now)); // assigned, a pmr list would copy itself to the old frame
        return done * 31 + events_->size() + dead.size();
    }

  private:
    using Events = typename World::template List<Event>;
    using Numbers = typename World::template List<std::uint64_t>;

    void spawn(std::uint64_t salt) {
        variants::Random random(++newest_ + salt);
        Entity entity{};
        entity.target = recent_[random.below(RECENT)];
        entity.serial = newest_;
        entity.x = random.below(WORLD_WIDTH);
        entity.y = random.below(WORLD_WIDTH);
        entity.health = 20 + random.below(100);
        recent_[newest_ % RECENT] = world_.entities().insert(entity);
    }

    // What the frame before has left: some of the victims are dead already.
    std::uint64_t suffer(Numbers &dead) {
        std::uint64_t damage = 0;
        for (const Event &event : *events_) {
            Entity *victim = world_.entities().find(event.victim);
            if (victim == nullptr || victim->health == 0) {
                continue;
            }
            std::uint32_t lost = event.damage < victim->health ? event.damage : victim->health;
            victim->health -= lost;
            damage += lost;
            if (victim->health == 0) {
                dead.push_back(event.victim);
            }
        }
        return damage;
    }

    // Towards the target. One without a target stands still until it is damaged.
    std::uint64_t move(Events &now, Numbers &dead) {
        std::uint64_t lost = 0;
        world_.entities().each([&](std::uint64_t number, Entity &entity) {
            Entity *target = world_.entities().find(entity.target);
            if (target == nullptr) {
                lost += entity.serial;
                now.push_back({number, 3});
                return;
            }
            entity.x = nearer(entity.x, target->serial % WORLD_WIDTH);
            entity.y = nearer(entity.y, target->serial % WORLD_WIDTH);
        });
        return lost + dead.size();
    }

    void remove(std::uint64_t number) {
        world_.entities().remove(number);
        variants::require(world_.entities().find(number) == nullptr, "a stale number");
    }

    // Those of a cell that are too many get damage.
    void meet(Events &now) {
        auto grid = world_.template list<Numbers>();
        grid.reserve(GRID_WIDTH * GRID_WIDTH);
        for (std::uint32_t i = 0; i < GRID_WIDTH * GRID_WIDTH; i++) {
            grid.push_back(world_.template list<std::uint64_t>());
        }
        world_.entities().each([&](std::uint64_t number, Entity &entity) {
            grid[entity.y / 16 * GRID_WIDTH + entity.x / 16].push_back(number);
        });
        for (const Numbers &cell : grid) {
            for (std::size_t i = 0; cell.size() > 8 && i < cell.size(); i++) {
                now.push_back({cell[i], static_cast<std::uint32_t>(cell.size() - 8)});
            }
        }
    }

    static constexpr std::uint32_t RECENT = 4096;
    World world_;
    std::optional<Events> events_; // of the frame before
    std::array<std::uint64_t, RECENT> recent_{};
    std::uint32_t newest_ = 0;
};

// A round is a frame.
template <class World> std::uint64_t play(unsigned rounds) {
    Game<World> game;
    std::uint64_t result = 0;
    for (unsigned round = 0; round < rounds; round++) {
        result = result * 31 + game.step();
    }
    return result;
}

} // namespace

int main(int argc, char **argv) {
    return variants::main(argc, argv, {play<MallocWorld>, play<PmrWorld>, play<PoolWorld>}, 3);
}
