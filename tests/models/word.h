/* SPDX-License-Identifier: MIT */
/*
 * An atomic word with all values it had. Included by memory.c.
 */
#ifndef WORD_H
#define WORD_H

#include "checker.h"
#include "habits.h"

#define MESSAGES_MAX 96

/* One value of an atomic word. */
struct message {
    uint64_t value;
    uint64_t name; /* of the step that stored it */
    struct clock released;
    uint32_t step; /* of the writer's clock */
    uint8_t writer;
    bool is_seq_cst;
};

/* Up to which message a thread had seen at a step. */
struct sight {
    uint32_t step;
    uint32_t message;
};

struct word {
    uintptr_t address;
    uint32_t run; /* the rest is of this execution, down to the sights */
    uint32_t bytes;
    uint32_t count;
    uint32_t sight_count[CLOCKS];
    struct message messages[MESSAGES_MAX];
    struct sight sights[CLOCKS][MESSAGES_MAX];
    struct habit known;   /* that this pass goes by */
    struct habit learned; /* in this pass too */
    uint32_t fenced_from; /* the message that the fences of others let the caller see, see below */
    bool is_shared;       /* in some execution, see meet */
    uint32_t lock;        /* not 0: a thread blocks until 0, in some execution; its bit */
};

#endif
