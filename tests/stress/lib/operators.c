/* SPDX-License-Identifier: MIT */
/* See operators.h. Mangled names are those of 64-bit targets, where size_t is "m". */
#include "tests/stress/lib/operators.h"

#include <dlfcn.h>

enum { DELETE_PLAIN, DELETE_SIZED, DELETE_NOTHROW, DELETE_WAYS };

typedef void *new_function(size_t size);
typedef void *new_nothrow_function(size_t size, const void *tag);
typedef void *new_aligned_function(size_t size, size_t alignment);
typedef void *new_aligned_nothrow_function(size_t size, size_t alignment, const void *tag);
typedef void delete_function(void *bytes);
typedef void delete_word_function(void *bytes, size_t word);
typedef void delete_nothrow_function(void *bytes, const void *tag);
typedef void delete_words_function(void *bytes, size_t size, size_t alignment);
typedef void delete_aligned_nothrow_function(void *bytes, size_t alignment, const void *tag);

static const char *const new_symbols[OPERATOR_FORMS] = {
    "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
};
static const char *const new_names[OPERATOR_FORMS] = {
    "operator new",
    "operator new[]",
    "operator new(nothrow)",
    "operator new[](nothrow)",
    "operator new(aligned)",
    "operator new[](aligned)",
    "operator new(aligned, nothrow)",
    "operator new[](aligned, nothrow)",
};

/* Indexed by ARRAY, ALIGNED and the way of deleting. */
static const char *const delete_symbols[2][2][DELETE_WAYS] = {
    {{"_ZdlPv", "_ZdlPvm", "_ZdlPvRKSt9nothrow_t"},
     {"_ZdlPvSt11align_val_t", "_ZdlPvmSt11align_val_t", "_ZdlPvSt11align_val_tRKSt9nothrow_t"}},
    {{"_ZdaPv", "_ZdaPvm", "_ZdaPvRKSt9nothrow_t"},
     {"_ZdaPvSt11align_val_t", "_ZdaPvmSt11align_val_t", "_ZdaPvSt11align_val_tRKSt9nothrow_t"}},
};

static void *news[OPERATOR_FORMS];
static void *deletes[2][2][DELETE_WAYS];
static const char nothrow; /* an empty object, passed by reference */

void *operators_library_of(const char *name) {
    Dl_info info;
    void *address = dlsym(RTLD_DEFAULT, name);
    return address != NULL && dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

/* NULL unless it is the library's own. */
static void *look_up(const char *symbol, const void *library) {
    return operators_library_of(symbol) == library ? dlsym(RTLD_DEFAULT, symbol) : NULL;
}

int operators_start(const void *library) {
    int has_all = 1;
    for (unsigned form = 0; form < OPERATOR_FORMS; form++) {
        news[form] = look_up(new_symbols[form], library);
        has_all &= news[form] != NULL;
    }
    for (unsigned i = 0; i < 4 * DELETE_WAYS; i++) {
        void **place = &deletes[i & 1][i >> 1 & 1][i >> 2];
        *place = look_up(delete_symbols[i & 1][i >> 1 & 1][i >> 2], library);
        has_all &= *place != NULL;
    }
    return has_all;
}

const char *operators_name(unsigned form) { return new_names[form]; }

void *operators_new(unsigned form, size_t size, size_t alignment) {
    void *function = news[form];
    switch (form & (OPERATOR_NOTHROW | OPERATOR_ALIGNED)) {
    case 0:
        return ((new_function *)function)(size);
    case OPERATOR_NOTHROW:
        return ((new_nothrow_function *)function)(size, &nothrow);
    case OPERATOR_ALIGNED:
        return ((new_aligned_function *)function)(size, alignment);
    default:
        return ((new_aligned_nothrow_function *)function)(size, alignment, &nothrow);
    }
}

void operators_delete(unsigned form, void *bytes, size_t size, size_t alignment,
                      struct random_state *random) {
    int is_aligned = (form & OPERATOR_ALIGNED) != 0;
    unsigned way = random_below(random, DELETE_WAYS);
    void *function = deletes[form & OPERATOR_ARRAY][is_aligned][way];
    if (is_aligned && way == DELETE_PLAIN) {
        ((delete_word_function *)function)(bytes, alignment);
    } else if (is_aligned && way == DELETE_SIZED) {
        ((delete_words_function *)function)(bytes, size, alignment);
    } else if (is_aligned) {
        ((delete_aligned_nothrow_function *)function)(bytes, alignment, &nothrow);
    } else if (way == DELETE_PLAIN) {
        ((delete_function *)function)(bytes);
    } else if (way == DELETE_SIZED) {
        ((delete_word_function *)function)(bytes, size);
    } else {
        ((delete_nothrow_function *)function)(bytes, &nothrow);
    }
}
