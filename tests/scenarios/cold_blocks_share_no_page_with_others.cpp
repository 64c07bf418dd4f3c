// expect: exit 0
// flags: -faligned-new
/* SPDX-License-Identifier: MIT */
/*
 * operator new with a hint below 128: no page of such a block ever has one of another hint, or of
 * malloc, also after all were freed and made again.
 */
#include "claim.h"

#include <new>
#include <set>
#include <stdlib.h>
#include <vector>

enum class __hot_cold_t : unsigned char;

void *operator new(size_t, __hot_cold_t) __attribute__((weak));
void *operator new[](size_t, __hot_cold_t) __attribute__((weak));
void *operator new(size_t, std::align_val_t, __hot_cold_t) __attribute__((weak));

static const std::align_val_t LINE{64};
static std::set<uintptr_t> pages[2];

static void *noted(void *block, size_t size, bool is_cold) {
    CLAIM(block != nullptr);
    claim_fill(block, size, 3);
    uintptr_t first = (uintptr_t)block >> 12;
    uintptr_t last = ((uintptr_t)block + size - 1) >> 12;
    for (uintptr_t page = first; page <= last; page++) {
        pages[is_cold].insert(page);
        CLAIM(pages[!is_cold].count(page) == 0);
    }
    return block;
}

int main() {
    for (int round = 0; round < 3; round++) {
        std::vector<void *> plain, arrays, aligned, others;
        for (size_t i = 0; i < 4000; i++) {
            size_t size = 1 + i * 37 % (i % 50 == 0 ? 200000 : 1500);
            auto hint = (__hot_cold_t)(i * 5 % 256);
            bool is_cold = i * 5 % 256 < 128;
            plain.push_back(noted(::operator new(size, hint), size, is_cold));
            arrays.push_back(noted(::operator new[](size, hint), size, is_cold));
            aligned.push_back(noted(::operator new(size, LINE, hint), size, is_cold));
            others.push_back(noted(malloc(size), size, false));
        }
        for (size_t i = 0; i < plain.size(); i++) {
            ::operator delete(plain[i]);
            ::operator delete[](arrays[i]);
            ::operator delete(aligned[i], LINE);
            free(others[i]);
        }
    }
    CLAIM(pages[0].size() > 1000 && pages[1].size() > 1000);
    return 0;
}
