/* SPDX-License-Identifier: MIT */
/* A C++ plug-in for a C program: its C++ runtime comes with it, by RTLD_LOCAL. */
#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <stdexcept>
#include <string>

static int handler_calls;

static void counting_handler() {
    if (++handler_calls == 2) {
        std::set_new_handler(nullptr);
    }
}

extern "C" int plugin_uses_containers(int count) {
    std::map<int, std::string> table;
    for (int i = 0; i < count; i++) {
        table[i] = "a string that is longer than the small buffer: " + std::to_string(i);
    }
    return static_cast<int>(table.size());
}

/* 1 when an absurd size throws bad_alloc here, in a frame that the plug-in's runtime unwinds. */
extern "C" int plugin_catches_bad_alloc(std::size_t absurd) {
    try {
        void *volatile block = ::operator new(absurd);
        ::operator delete(block);
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}

/* How often the handler ran before the allocation failed. */
extern "C" int plugin_counts_handler_calls(std::size_t absurd) {
    handler_calls = 0;
    std::set_new_handler(counting_handler);
    plugin_catches_bad_alloc(absurd);
    std::set_new_handler(nullptr);
    return handler_calls;
}

extern "C" int plugin_nothrow_is_null(std::size_t absurd) {
    return ::operator new[](absurd, std::nothrow) == nullptr;
}

extern "C" int plugin_throws_and_catches() {
    try {
        throw std::runtime_error("from the plug-in");
    } catch (const std::exception &error) {
        return std::string(error.what()) == "from the plug-in";
    }
}
