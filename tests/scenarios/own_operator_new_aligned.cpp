// expect: exit 0
// flags: -std=c++17 -fsized-deallocation -faligned-new -Wno-sized-deallocation
/* SPDX-License-Identifier: MIT */
/*
 * A program that replaces the aligned new and delete alone gets the aligned array, sized and
 * nothrow forms from them; the plain forms are the allocator's.
 */
#include "claim.h"

#include <new>

static unsigned long news;
static unsigned long deletes;

void *operator new(std::size_t size, std::align_val_t alignment) {
    const std::size_t bytes = static_cast<std::size_t>(alignment);
    char *block = static_cast<char *>(std::aligned_alloc(bytes, size + bytes));
    CLAIM(block != nullptr);
    news++;
    return block + bytes;
}

void operator delete(void *body, std::align_val_t alignment) noexcept {
    deletes++;
    std::free(static_cast<char *>(body) - static_cast<std::size_t>(alignment));
}

int main() {
    const std::align_val_t line{64};
    ::operator delete(claim_hide(::operator new(100, line)), line);
    ::operator delete(claim_hide(::operator new(100, line)), std::size_t{100}, line);
    ::operator delete(claim_hide(::operator new(100, line, std::nothrow)), line, std::nothrow);
    ::operator delete[](claim_hide(::operator new[](100, line)), line);
    ::operator delete[](claim_hide(::operator new[](100, line)), std::size_t{100}, line);
    ::operator delete[](claim_hide(::operator new[](100, line, std::nothrow)), line, std::nothrow);
    CLAIM(news == 6 && deletes == 6);
    ::operator delete(claim_hide(::operator new(100)), std::size_t{100});
    ::operator delete[](claim_hide(::operator new[](100, std::nothrow)));
    CLAIM(news == 6 && deletes == 6);
    return 0;
}
