/* SPDX-License-Identifier: MIT */
/*
 * See cxx.h: in a program that has libpoolshim.a and the C++ run-time in one file, the run-time has
 * no operator new beside ours to ask. So the loop that C++ requires is here, with the run-time's
 * handler and its bad_alloc. Its own nothrow forms call our operators, and catch. No locks.
 */
#include "shim/cxx.h"

typedef void handler(void);

#define DEFAULT_ALIGN 16 /* __STDCPP_DEFAULT_NEW_ALIGNMENT__ of 64-bit targets */

PS_COLD void *ps_cxx_fail_aligned(size_t size, size_t align, void *caller) {
    /* std::get_new_handler and std::__throw_bad_alloc, of libstdc++ and libc++. */
    extern handler *get_handler(void) __asm__("_ZSt15get_new_handlerv");
    extern PS_NORETURN void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv");
    void *block = NULL;
    (void)caller;
    while (block == NULL) { /* as C++ requires: until the handler throws or ends the program */
        handler *handle = ps_is_power_of_two(align) ? get_handler() : NULL;
        if (handle == NULL) {
            throw_bad_alloc();
        }
        handle();
        block = ps_block_alloc_aligned(size, align);
    }
    return block;
}

PS_COLD void *ps_cxx_fail(size_t size, void *caller) {
    return ps_cxx_fail_aligned(size, DEFAULT_ALIGN, caller);
}

ps_cxx_append *ps_cxx_find_append(void) {
    extern ps_cxx_append usual __asm__(PS_CXX_APPEND) __attribute__((weak));
    extern ps_cxx_append of_libcxx __asm__(PS_CXX_APPEND_LIBCXX) __attribute__((weak));
    extern ps_cxx_append old __asm__(PS_CXX_APPEND_OLD) __attribute__((weak));
    return usual != NULL ? usual : of_libcxx != NULL ? of_libcxx : old;
}
