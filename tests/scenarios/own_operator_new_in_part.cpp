// expect: exit 0
// flags: -std=c++17 -fsized-deallocation -faligned-new -Wno-sized-deallocation
/* SPDX-License-Identifier: MIT */
/*
 * A program that replaces two operators only, the plain new and delete, gets every form that the
 * standard builds on them from its own two: array, nothrow, sized. Its blocks have a header, so a
 * form that went past one of them would free an address that no allocator returned. The aligned
 * forms are not built on them and are the allocator's.
 */
#include "claim.h"

#include <new>
#include <string>
#include <vector>

struct header {
    unsigned long mark;
    unsigned long size;
};

static unsigned long news;
static unsigned long deletes;
static bool is_failing;

void *operator new(std::size_t size) {
    if (is_failing) {
        throw std::bad_alloc();
    }
    header *block = static_cast<header *>(std::malloc(size + sizeof(header)));
    CLAIM(block != nullptr);
    *block = {0x600d, size};
    news++;
    return block + 1;
}

void operator delete(void *body) noexcept {
    if (body == nullptr) {
        return;
    }
    header *block = static_cast<header *>(body) - 1;
    CLAIM(block->mark == 0x600d);
    block->mark = 0xdead;
    deletes++;
    std::free(block);
}

static void expect(unsigned long made, unsigned long died) {
    CLAIM(news == made && deletes == died);
}

static void check_arrays_and_sizes() {
    news = deletes = 0;
    ::operator delete[](claim_hide(::operator new[](100)));
    expect(1, 1);
    ::operator delete(claim_hide(::operator new(100)), std::size_t{100});
    expect(2, 2);
    ::operator delete[](claim_hide(::operator new[](100)), std::size_t{100});
    expect(3, 3);
    ::operator delete(nullptr, std::size_t{1});
    expect(3, 3);
}

static void check_nothrow() {
    news = deletes = 0;
    ::operator delete(claim_hide(::operator new(100, std::nothrow)), std::nothrow);
    expect(1, 1);
    ::operator delete[](claim_hide(::operator new[](100, std::nothrow)), std::nothrow);
    expect(2, 2);
    is_failing = true;
    CLAIM(::operator new(100, std::nothrow) == nullptr);
    CLAIM(::operator new[](100, std::nothrow) == nullptr);
    is_failing = false;
    expect(2, 2);
}

static void check_aligned() {
    const std::align_val_t line{64};
    news = deletes = 0;
    ::operator delete(claim_hide(::operator new(100, line)), line);
    ::operator delete(claim_hide(::operator new(100, line)), std::size_t{100}, line);
    ::operator delete[](claim_hide(::operator new[](100, line)), line);
    ::operator delete[](claim_hide(::operator new[](100, line)), std::size_t{100}, line);
    ::operator delete(claim_hide(::operator new(100, line, std::nothrow)), line, std::nothrow);
    expect(0, 0);
}

int main() {
    check_arrays_and_sizes();
    check_nothrow();
    check_aligned();
    news = deletes = 0;
    {
        std::vector<std::string> words(500, std::string(100, 'w'));
        words.resize(1000);
    }
    CLAIM(news > 500 && news == deletes);
    return 0;
}
