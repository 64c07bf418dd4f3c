/* SPDX-License-Identifier: MIT */
/*
 * A library that calls back, with a frame of so many bytes. Two of them differ in nothing else, so
 * that both have the same code addresses, where they are loaded at one address in turn.
 */
#ifndef PS_TESTS_UNWIND_PLUGIN_H
#define PS_TESTS_UNWIND_PLUGIN_H

#include <stddef.h>

typedef void unwind_callback(void);

#define UNWIND_PLUGIN(bytes)                                                                       \
    void unwind_plugin(unwind_callback *callback);                                                 \
    void unwind_plugin(unwind_callback *callback) {                                                \
        volatile char room[bytes];                                                                 \
        room[0] = 1;                                                                               \
        callback();                                                                                \
        room[(bytes)-1] = room[0];                                                                 \
    }

#endif
