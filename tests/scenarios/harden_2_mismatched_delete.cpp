// expect: SIGABRT "poolshim: free by another family of functions than made 0x"
// env: POOLSHIM_HARDEN=2
// flags: -fsized-deallocation -faligned-new -Wno-mismatched-new-delete
/* SPDX-License-Identifier: MIT */
/* Level 2: what new[] made, delete[] frees, and nothing else. */
#include "claim.h"

#include <new>
#include <stdlib.h>

int main() {
    static const size_t sizes[] = {0, 10, 5000, 300000};
    for (size_t size : sizes) {
        ::operator delete(claim_hide(::operator new(size)));
        ::operator delete[](claim_hide(::operator new[](size, std::nothrow)), std::nothrow);
        ::operator delete[](claim_hide(::operator new[](size)), size);
        ::operator delete(claim_hide(::operator new(size, std::align_val_t(128))), size,
                          std::align_val_t(128));
        free(claim_hide(realloc(claim_hide(malloc(size + 1)), size + 100)));
    }
    ::operator delete(claim_hide(::operator new[](40)));
    return 0;
}
