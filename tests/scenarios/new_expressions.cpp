// expect: exit 0
// flags: -fsized-deallocation -faligned-new
/* SPDX-License-Identifier: MIT */
/* new expressions as the compiler emits them: objects, arrays with cookies, over-aligned types. */
#include "claim.h"

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

static int alive;

struct counted {
    counted() : value(42) { alive++; }
    ~counted() {
        CLAIM(value == 42);
        alive--;
    }
    counted(const counted &) = delete;
    counted &operator=(const counted &) = delete;
    int value;
};

struct alignas(256) over_aligned : counted {
    char payload[300];
};

struct throwing {
    throwing() { throw 7; }
    char payload[500];
};

static void check_objects() {
    for (std::size_t count = 1; count < 5000; count = count * 2 + 1) {
        counted *array = new counted[count];
        over_aligned *wide = new over_aligned[count % 100 + 1];
        over_aligned *single = new over_aligned;
        CLAIM(claim_is_aligned(wide, 256) && claim_is_aligned(single, 256));
        CLAIM(claim_is_aligned(&wide[count % 100], 256));
        delete[] array;
        delete[] wide;
        delete single;
    }
    CLAIM(alive == 0);
}

static void check_throwing_constructor() {
    const std::size_t before = claim_rss_bytes();
    for (int i = 0; i < 200000; i++) {
        try {
            throwing *never = new throwing;
            CLAIM(never == nullptr);
        } catch (int number) {
            CLAIM(number == 7);
        }
    }
    CLAIM(claim_rss_bytes() < before + (16u << 20));
}

static void check_containers() {
    std::map<std::string, std::vector<int>> table;
    for (int i = 0; i < 20000; i++) {
        table["key number " + std::to_string(i)].assign(static_cast<std::size_t>(i % 50), i);
    }
    for (const auto &entry : table) {
        for (int element : entry.second) {
            CLAIM("key number " + std::to_string(element) == entry.first);
        }
    }
    auto shared = std::make_shared<std::vector<std::string>>(1000, std::string(100, 'x'));
    std::thread([moved = std::move(shared)]() mutable { moved.reset(); }).join();
}

int main() {
    check_objects();
    check_throwing_constructor();
    check_containers();
    return 0;
}
