// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* A new_handler that frees a reserve lets the interrupted operator new succeed. */
#include "claim.h"

#include <new>
#include <sys/resource.h>

static const std::size_t reserve_bytes = std::size_t{600} << 20;
static char *reserve;
static int handler_calls;

static void release_reserve() {
    handler_calls++;
    if (reserve == nullptr) {
        throw std::bad_alloc();
    }
    delete[] reserve;
    reserve = nullptr;
}

int main() {
    reserve = new char[reserve_bytes];
    const struct rlimit limit = {rlim_t{1} << 30, rlim_t{1} << 30};
    CLAIM(setrlimit(RLIMIT_AS, &limit) == 0);
    std::set_new_handler(release_reserve);
    char *block = new char[reserve_bytes - 1000];
    CLAIM(handler_calls == 1 && block != nullptr);
    block[reserve_bytes - 2000] = 1;
    CLAIM(static_cast<char *>(claim_hide(block))[reserve_bytes - 2000] == 1);
    delete[] block;
    return 0;
}
