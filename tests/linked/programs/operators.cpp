/* SPDX-License-Identifier: MIT */
/*
 * Every form of operator new and delete, and what they do without memory: bad_alloc, the handler,
 * NULL of the nothrow forms. Prints "fine"; another status than 0 is the number of the finding.
 */
#include <cstddef>
#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

struct alignas(256) Aligned {
    char bytes[300];
};

static volatile std::size_t huge = std::size_t(1) << 60;
static int handled;

static bool throws() {
    try {
        char *volatile block = new char[huge]; /* a pair would be left out */
        delete[] block;
        return false;
    } catch (const std::bad_alloc &) {
        return true;
    }
}

static bool has_none() {
    char *volatile block = new (std::nothrow) char[huge];
    return block == nullptr;
}

static void free_something() {
    if (++handled == 3) {
        std::set_new_handler(nullptr);
    }
}

static void refuse() {
    handled++;
    throw std::bad_alloc();
}

static int without_memory() {
    if (!throws() || !has_none()) {
        return 1;
    }
    std::set_new_handler(free_something);
    if (!throws() || handled != 3) {
        return 2;
    }
    std::set_new_handler(refuse);
    if (!has_none() || handled != 4) {
        return 3;
    }
    try {
        Aligned *volatile block = new Aligned[huge / sizeof(Aligned)];
        delete[] block;
        return 4;
    } catch (const std::bad_alloc &) {
        std::set_new_handler(nullptr);
    }
    return 0;
}

static int all_forms() {
    auto *one = new Aligned;
    auto *many = new Aligned[3];
    auto *silent = new (std::nothrow) Aligned;
    for (void *block :
         {static_cast<void *>(one), static_cast<void *>(many), static_cast<void *>(silent)}) {
        if (reinterpret_cast<std::size_t>(block) % alignof(Aligned) != 0) {
            return 5;
        }
    }
    delete one;
    delete[] many;
    delete silent;
    operator delete(operator new(100, std::nothrow), std::nothrow);
    operator delete[](operator new[](100), std::size_t(100));
    return 0;
}

static void in_threads() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([] {
            for (std::size_t n = 0; n < 2000; n++) {
                std::vector<std::string> texts(10, std::string(n, 'x'));
                auto shared = std::make_shared<std::string>(texts.back());
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
}

int main() {
    int finding = all_forms();
    finding = finding != 0 ? finding : without_memory();
    in_threads();
    if (finding == 0) {
        std::puts("fine");
    }
    return finding;
}
