// SPDX-License-Identifier: MIT
// ps::pool_for of poolshim/pool_for.hpp and ps::size_pools of poolshim/pools.hpp: objects destroyed
// by other threads, threads that end, exceptions.
#include "tests/pools/throws.hpp"

#include <cstdio>
#include <mutex>
#include <poolshim/pool_for.hpp>
#include <poolshim/pools.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

int failures;

void check(bool condition, const char *text, int line) {
    if (!condition) {
        std::fprintf(stderr, "pool_for_test.cpp:%d: %s is false\n", line, text);
        failures++;
    }
}
#define CHECK(condition) check((condition), #condition, __LINE__)

struct Message {
    std::string text;
    explicit Message(int number) : text("message number " + std::to_string(number)) {
        if (number < 0) {
            throw std::runtime_error("negative");
        }
    }
};

struct alignas(64) Wide {
    char byte;
};

template <class Body> void in_thread(Body body) { std::thread(body).join(); }

void objects_are_created_and_destroyed_here() {
    auto &pool = ps::pool_for<Message>();
    std::vector<Message *> messages;
    for (int i = 0; i < 1000; i++) {
        messages.push_back(pool.create(i));
    }
    CHECK(pool.stats().used_count == 1000);
    CHECK(messages[77]->text == "message number 77");
    for (Message *message : messages) {
        pool.destroy(message);
    }
    pool.destroy(nullptr);
    CHECK(pool.stats().used_count == 0);
    bool is_caught = false;
    try {
        pool.create(-1);
    } catch (const std::runtime_error &) {
        is_caught = true;
    }
    CHECK(is_caught && pool.stats().used_count == 0);
    for (int i = 0; i < 10; i++) {
        Wide *wide = ps::pool_for<Wide>().create();
        CHECK(reinterpret_cast<std::uintptr_t>(wide) % 64 == 0);
        ps::pool_for<Wide>().destroy(i % 2 == 0 ? wide : nullptr);
    }
}

void others_objects_come_home() {
    auto &pool = ps::pool_for<Message>();
    std::size_t bytes = 0;
    for (int round = 0; round < 20; round++) {
        std::vector<Message *> messages;
        for (int i = 0; i < 500; i++) {
            messages.push_back(pool.create(i));
        }
        in_thread([&] {
            for (Message *message : messages) {
                ps::pool_for<Message>().destroy(message);
            }
        });
        if (round == 4) {
            bytes = pool.stats().total_bytes;
        }
    }
    CHECK(pool.stats().total_bytes <= bytes);
    pool.trim_to(0);
    CHECK(pool.stats().used_count == 0 && pool.stats().total_bytes == 0);
}

void objects_outlive_their_thread() {
    Message *message = nullptr;
    in_thread([&] { message = ps::pool_for<Message>().create(5); });
    CHECK(message->text == "message number 5");
    ps::pool_for<Message>().destroy(message);
    std::size_t used = 1;
    in_thread([&] { // takes over the home of the thread that ended
        ps::pool_for<Message>().trim_to(0);
        used = ps::pool_for<Message>().stats().used_count;
    });
    CHECK(used == 0);
}

void many_threads_pass_objects_on() {
    constexpr int THREADS = 4;
    constexpr int MESSAGES = 3000;
    std::mutex mutex;
    std::vector<Message *> mailbox;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < THREADS; thread++) {
        threads.emplace_back([&, thread] {
            for (int i = 0; i < MESSAGES; i++) {
                Message *mine = ps::pool_for<Message>().create(thread * MESSAGES + i);
                Message *other = nullptr;
                {
                    std::lock_guard<std::mutex> lock(mutex);
                    mailbox.push_back(mine);
                    if (mailbox.size() > 50) {
                        std::size_t at = static_cast<std::size_t>(i) % mailbox.size();
                        other = mailbox[at];
                        mailbox[at] = mailbox.back();
                        mailbox.pop_back();
                    }
                }
                if (other != nullptr && other->text.rfind("message number ", 0) != 0) {
                    std::abort();
                }
                ps::pool_for<Message>().destroy(other);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (Message *message : mailbox) {
        ps::pool_for<Message>().destroy(message);
    }
}

void size_pools_serve_any_size() {
    ps::size_pools pools;
    std::vector<void *> blocks;
    for (std::size_t bytes = 1; bytes < 20000; bytes *= 3) {
        blocks.push_back(pools.allocate(bytes));
        CHECK(pools.owns(blocks.back()));
    }
    void *wide = pools.allocate(100, 256);
    CHECK(reinterpret_cast<std::uintptr_t>(wide) % 256 == 0);
    ps::size_pools moved(std::move(pools));
    moved.deallocate(wide, 100, 256);
    std::size_t at = 0;
    for (std::size_t bytes = 1; bytes < 20000; bytes *= 3) {
        moved.deallocate(blocks[at++], bytes);
    }
    CHECK(moved.stats().used_count == 0);
    moved.trim_to(0);
    CHECK(moved.stats().total_bytes == 0);
    CHECK(throws<std::bad_alloc>([&] { (void)moved.allocate(static_cast<std::size_t>(-1)); }));
}

} // namespace

int main() {
    objects_are_created_and_destroyed_here();
    others_objects_come_home();
    objects_outlive_their_thread();
    many_threads_pass_objects_on();
    size_pools_serve_any_size();
    return failures == 0 ? 0 : 1;
}
