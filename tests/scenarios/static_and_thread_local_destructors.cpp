// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * C++ static and thread_local objects use the heap in their destructors: of main, of threads that
 * end, and of threads whose thread_local objects make more thread_local objects while they die.
 */
#include "claim.h"
#include "heap_use.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

static std::atomic<int> thread_objects_died;

struct heap_user {
    explicit heap_user(int n) : words(static_cast<std::size_t>(n), std::string(50, 'w')) {}
    ~heap_user() {
        CLAIM(heap_use());
        words.push_back(std::string(5000, 'x'));
        CLAIM(words.back().size() == 5000);
    }
    heap_user(const heap_user &) = delete;
    heap_user &operator=(const heap_user &) = delete;
    std::vector<std::string> words;
};

struct late_user {
    std::unique_ptr<heap_user> part = std::make_unique<heap_user>(30);
    ~late_user() {
        CLAIM(heap_use());
        thread_objects_died++;
    }
};

/* Dies first, and touches another thread_local for the first time while it does. */
struct early_user {
    std::string text = std::string(300, 't');
    ~early_user() {
        static thread_local late_user late;
        CLAIM(late.part->words.size() == 30 && text.size() == 300);
        CLAIM(heap_use());
    }
};

static heap_user static_user(1000);
static thread_local early_user early;

int main() {
    CLAIM(static_user.words.size() == 1000);
    for (int round = 0; round < 50; round++) {
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++) {
            threads.emplace_back([] { CLAIM(early.text.size() == 300); });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
    }
    CLAIM(thread_objects_died == 200);
    CLAIM(early.text.size() == 300);
    return 0;
}
