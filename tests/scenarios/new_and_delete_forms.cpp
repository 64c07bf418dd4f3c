// expect: exit 0
// flags: -fsized-deallocation -faligned-new -Wno-mismatched-new-delete
/* SPDX-License-Identifier: MIT */
/* Every replaceable operator new has a block that its own delete, and its kin, take back. */
#include "claim.h"

#include <malloc.h>
#include <new>

static void use(void *block, std::size_t size, std::size_t alignment) {
    CLAIM(block != nullptr);
    CLAIM(claim_is_aligned(block, alignment));
    CLAIM(malloc_usable_size(block) >= size);
    claim_fill(block, size, 5);
    CLAIM(claim_is_filled(claim_hide(block), size, 5));
}

static void check_plain(std::size_t size) {
    const std::size_t alignment = size <= 8 ? 8 : 16;
    for (int form = 0; form < 3; form++) {
        void *one = ::operator new(size);
        void *many = ::operator new[](size);
        void *quiet = ::operator new(size, std::nothrow);
        void *quiet_many = ::operator new[](size, std::nothrow);
        use(one, size, alignment);
        use(many, size, alignment);
        use(quiet, size, alignment);
        use(quiet_many, size, alignment);
        switch (form) {
        case 0:
            ::operator delete(one);
            ::operator delete[](many);
            break;
        case 1:
            ::operator delete(one, size);
            ::operator delete[](many, size);
            break;
        default:
            ::operator delete(one, std::nothrow);
            ::operator delete[](many, std::nothrow);
            break;
        }
        ::operator delete(quiet);
        ::operator delete[](quiet_many);
    }
}

static void check_aligned(std::size_t size, std::align_val_t alignment) {
    const std::size_t bytes = static_cast<std::size_t>(alignment);
    for (int form = 0; form < 3; form++) {
        void *one = ::operator new(size, alignment);
        void *many = ::operator new[](size, alignment);
        void *quiet = ::operator new(size, alignment, std::nothrow);
        void *quiet_many = ::operator new[](size, alignment, std::nothrow);
        use(one, size, bytes);
        use(many, size, bytes);
        use(quiet, size, bytes);
        use(quiet_many, size, bytes);
        switch (form) {
        case 0:
            ::operator delete(one, alignment);
            ::operator delete[](many, alignment);
            break;
        case 1:
            ::operator delete(one, size, alignment);
            ::operator delete[](many, size, alignment);
            break;
        default:
            ::operator delete(one, alignment, std::nothrow);
            ::operator delete[](many, alignment, std::nothrow);
            break;
        }
        ::operator delete(quiet, alignment);
        ::operator delete[](quiet_many, alignment);
    }
}

int main() {
    for (std::size_t size = 0; size < 3000000; size = size * 3 / 2 + 1) {
        check_plain(size);
        for (std::size_t alignment = 1; alignment <= 65536; alignment *= 4) {
            check_aligned(size, static_cast<std::align_val_t>(alignment));
        }
    }
    ::operator delete(static_cast<void *>(nullptr));
    ::operator delete[](static_cast<void *>(nullptr), std::align_val_t{64});
    return 0;
}
