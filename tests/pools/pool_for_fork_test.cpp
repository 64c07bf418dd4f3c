// sources: tests/pools/pool_for_fork.c
// SPDX-License-Identifier: MIT
// The operations of pool_for_fork.c: ps::pool_for in threads that begin and end.
#include <cstddef>
#include <poolshim/pool_for.hpp>
#include <thread>
#include <vector>

namespace {

struct Item {
    int number;
    explicit Item(int made) : number(made) {}
};

void use_items() {
    auto &pool = ps::pool_for<Item>();
    Item *items[10];
    for (int i = 0; i < 10; i++) {
        items[i] = pool.create(i);
    }
    for (Item *item : items) {
        pool.destroy(item);
    }
}

} // namespace

// Leaves as many homes without a thread.
extern "C" void pool_for_leave_homes(void) {
    constexpr int THREADS = 4;
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++) {
        threads.emplace_back(use_items);
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

// Takes one of them, in a thread that had none.
extern "C" void pool_for_begin(void) { use_items(); }

// The same in a thread that ends, and in the calling one.
extern "C" void pool_for_begin_and_end(void) {
    std::thread(use_items).join();
    use_items();
}
