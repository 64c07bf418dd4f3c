// SPDX-License-Identifier: MIT
// An object with a member that allocates. Counts the living ones; -1 makes its constructor throw.
#ifndef PS_TESTS_POOLS_SESSION_HPP
#define PS_TESTS_POOLS_SESSION_HPP

#include <atomic>
#include <stdexcept>
#include <string>

static std::atomic<int> living;

struct session {
    explicit session(int n) : number(n), text("a text that is longer than the small buffer") {
        if (n < 0) {
            throw std::runtime_error("constructor");
        }
        living++;
    }
    ~session() { living--; }
    int number;
    std::string text;
};

#endif
