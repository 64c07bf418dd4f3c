// expect: exit 0
// flags: -faligned-new -Wno-alloc-size-larger-than
/* SPDX-License-Identifier: MIT */
/*
 * When memory runs out the new_handler runs, again and again; without one bad_alloc is thrown;
 * nothrow forms call the handler too and return NULL; what the handler throws comes through.
 */
#include "claim.h"

#include <new>

static int handler_calls;

static void *absurd_new(int form) {
    const std::size_t size = claim_size(static_cast<std::size_t>(PTRDIFF_MAX) - 100000);
    switch (form) {
    case 0:
        return ::operator new(size);
    case 1:
        return ::operator new[](size);
    case 2:
        return ::operator new(size, std::align_val_t{64});
    default:
        return ::operator new[](size, std::align_val_t{4096});
    }
}

static void *absurd_nothrow(int form) {
    const std::size_t size = claim_size(SIZE_MAX / 2 + 1000);
    switch (form) {
    case 0:
        return ::operator new(size, std::nothrow);
    case 1:
        return ::operator new[](size, std::nothrow);
    case 2:
        return ::operator new(size, std::align_val_t{64}, std::nothrow);
    default:
        return ::operator new[](size, std::align_val_t{4096}, std::nothrow);
    }
}

/* Gives up at the third call, by removing itself: the allocation must then fail for good. */
static void give_up_handler() {
    if (++handler_calls == 3) {
        std::set_new_handler(nullptr);
    }
}

struct own_error : std::bad_alloc {
    int number = 99;
};

static void throwing_handler() {
    handler_calls++;
    throw own_error();
}

static void check_bad_alloc(int form) {
    bool caught = false;
    try {
        claim_hide(absurd_new(form));
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    CLAIM(caught);
}

/* An alignment that is no power of two is refused as libstdc++ does, and libc++. */
static void check_odd_alignment() {
    const std::align_val_t odd{claim_size(24)};
    bool caught = false;
    try {
        claim_hide(::operator new(64, odd));
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    CLAIM(caught);
    CLAIM(::operator new(64, odd, std::nothrow) == nullptr);
}

int main() {
    check_odd_alignment();
    for (int form = 0; form < 4; form++) {
        check_bad_alloc(form);
        CLAIM(absurd_nothrow(form) == nullptr);

        handler_calls = 0;
        std::set_new_handler(give_up_handler);
        check_bad_alloc(form);
        CLAIM(handler_calls == 3);

        handler_calls = 0;
        std::set_new_handler(give_up_handler);
        CLAIM(absurd_nothrow(form) == nullptr);
        CLAIM(handler_calls == 3);

        handler_calls = 0;
        std::set_new_handler(throwing_handler);
        bool own = false;
        try {
            claim_hide(absurd_new(form));
        } catch (const own_error &error) {
            own = error.number == 99;
        }
        CLAIM(own && handler_calls == 1);
        CLAIM(absurd_nothrow(form) == nullptr && handler_calls == 2);
        std::set_new_handler(nullptr);
    }
    int *works = new int(5);
    CLAIM(*works == 5);
    delete works;
    return 0;
}
