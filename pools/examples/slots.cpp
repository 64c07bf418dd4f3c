// SPDX-License-Identifier: MIT
// Entities that chase each other by handle: a target that has died is noticed, whatever has taken
// its place.
#include <cstdio>
#include <poolshim/slots.hpp>
#include <vector>

struct entity;
using entities = ps::slots<entity, std::uint32_t>;

struct entity {
    int health = 3;
    ps::slot_handle<entity, std::uint32_t> target;
};

int main() {
    entities world;
    std::vector<entities::handle> all;
    for (int i = 0; i < 100; i++) {
        all.push_back(world.insert());
    }
    for (std::size_t i = 0; i < all.size(); i++) {
        world.get(all[i])->target = all[(i * 7 + 1) % all.size()];
    }
    int lost = 0;
    for (int round = 0; round < 20; round++) {
        for (entity &hunter : world) {
            entity *prey = world.get(hunter.target);
            if (prey == nullptr) {
                lost++;
                hunter.target = all[static_cast<std::size_t>(round)];
            } else if (--prey->health == 0 && prey != &hunter) {
                world.remove(hunter.target);
                world.insert().value(); // the place serves again at once
            }
        }
    }
    std::printf("%zu entities, %d targets lost\n", world.size(), lost);
    return world.check() && lost > 0 ? 0 : 1;
}
