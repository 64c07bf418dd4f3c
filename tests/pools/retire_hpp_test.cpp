// SPDX-License-Identifier: MIT
// ps::retire_domain: objects that are deleted or returned to a pool, scopes, and a map that threads
// read while it is replaced part by part.
#include "tests/unit/fresh.h"

#include "tests/pools/respawn.h"
#include "tests/pools/throws.hpp"

#include <atomic>
#include <poolshim/bounded.hpp>
#include <poolshim/retire.hpp>
#include <string>
#include <thread>
#include <vector>

static std::atomic<int> living;

struct entry {
    entry(int own_key, int own_value)
        : key(own_key), value(own_value), text(std::to_string(own_value) + " as a longer text") {
        living++;
    }
    ~entry() {
        text.clear();
        value = -1;
        living--;
    }
    int key;
    int value;
    std::string text;
    entry *next = nullptr;
};

TEST(objects_are_deleted_when_no_scope_is_left) {
    ps::retire_domain domain;
    {
        ps::retire_scope scope(domain);
        ps::retire_scope inner(domain);
        CHECK(domain.retire(new entry(1, 1)));
        domain.collect();
        CHECK_EQ(living, 1);
        CHECK(!domain.wait());
        CHECK_EQ(domain.stats().inside_count, 1);
    }
    CHECK(domain.wait());
    CHECK_EQ(living, 0);
    CHECK_EQ(domain.stats().waiting_count, 0);
}

TEST(objects_return_to_their_pool) {
    ps::bounded<entry> pool(10);
    {
        ps::retire_domain domain;
        for (int i = 0; i < 10; i++) {
            CHECK(domain.retire(pool.create(i, i), pool));
        }
        CHECK_CMP(living, >, 0);
    }
    CHECK_EQ(living, 0);
    CHECK_EQ(pool.stats().used_count, 0);
}

TEST(a_domain_without_a_place_says_so) {
    ps::retire_options options = {};
    options.threads = 1;
    ps::retire_domain domain(options);
    ps::retire_scope scope(domain); // this thread has number 1
    std::thread([&] {
        CHECK(throws<std::system_error>([&] { ps::retire_scope other(domain); }));
        CHECK(!domain.retire(static_cast<entry *>(nullptr)));
    }).join();
}

// A hash table of lists, which readers walk without a lock. One writer per bucket replaces and
// removes entries.
class table {
  public:
    static constexpr int BUCKETS = 8;

    ~table() {
        for (std::atomic<entry *> &bucket : x_buckets) {
            for (entry *at = bucket.load(); at != nullptr;) {
                entry *next = at->next;
                delete at;
                at = next;
            }
        }
    }

    // The value of a key, 0: there is none.
    int find(int key) {
        ps::retire_scope scope(domain_);
        for (entry *at = x_buckets[key % BUCKETS].load(std::memory_order_acquire); at != nullptr;
             at = at->next) {
            CHECK(at->value > 0 && at->text == std::to_string(at->value) + " as a longer text");
            if (at->key == key) {
                return at->value;
            }
        }
        return 0;
    }

    // Puts the key in front with a new value, and copies the entries before it.
    void set(int key, int value) {
        std::atomic<entry *> &bucket = x_buckets[key % BUCKETS];
        entry *old = bucket.load(std::memory_order_relaxed);
        entry *fresh = new entry(key, value);
        entry **end = &fresh->next;
        entry *at = old;
        for (; at != nullptr && at->key != key; at = at->next) {
            *end = new entry(at->key, at->value);
            end = &(*end)->next;
        }
        entry *rest = at == nullptr ? nullptr : at->next;
        *end = rest;
        bucket.store(fresh, std::memory_order_release);
        while (old != rest) {
            entry *next = old->next;
            while (!domain_.retire(old)) {
                std::this_thread::yield();
            }
            old = next;
        }
    }

  private:
    std::atomic<entry *> x_buckets[BUCKETS] = {};
    ps::retire_domain domain_;
};

TEST(a_map_is_read_while_it_changes) {
    {
        table map;
        std::atomic<bool> is_over{false};
        std::vector<std::thread> threads;
        for (int t = 0; t < 2; t++) {
            threads.emplace_back([&, t] {
                for (int round = 1; round < 1000 / FRESH_SLOWNESS; round++) {
                    map.set((round * 7 % 20) * 2 * table::BUCKETS + t, round);
                }
            });
        }
        for (int t = 0; t < 2; t++) {
            threads.emplace_back([&] {
                int last = 0;
                while (!is_over.load()) {
                    int value = map.find(7 * 2 * table::BUCKETS);
                    CHECK_CMP(value, >=, last); // each new value is a higher one
                    last = value;
                    std::this_thread::yield();
                }
            });
        }
        threads[0].join();
        threads[1].join();
        is_over = true;
        threads[2].join();
        threads[3].join();
    }
    CHECK_EQ(living, 0);
}

DEBUG_ALL(everything_holds_in_checked_mode, "check")

UNIT_MAIN
