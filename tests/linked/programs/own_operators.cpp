/* SPDX-License-Identifier: MIT */
/*
 * Replaces operator new and delete, and leaves the array forms to the library, which must call
 * these. Prints how often each of the two was called.
 */
#include <cstdio>
#include <cstdlib>
#include <new>

static int made;
static int freed;

void *operator new(std::size_t bytes) {
    made++;
    return std::malloc(bytes);
}

void operator delete(void *block) noexcept {
    freed++;
    std::free(block);
}

void operator delete(void *block, std::size_t) noexcept { operator delete(block); }

int main() {
    auto *volatile many = new int[10];
    delete[] many;
    auto *volatile silent = new (std::nothrow) int;
    delete silent;
    std::printf("%d %d\n", made, freed);
}
