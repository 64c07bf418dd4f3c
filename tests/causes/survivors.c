// verdict: fragmentation, remember_user
/* SPDX-License-Identifier: MIT */
/* Long-lived blocks among many short-lived ones of about their size. */
#include "tests/causes/cause.h"

#define BLOCKS 160000
#define PER_USER 40

static void *messages[BLOCKS];
static void *users[BLOCKS / PER_USER];

SITE void *receive_message(void) {
    size_t bytes = random_between(330, 380);
    void *block = filled(malloc(bytes), bytes);
    __asm__ volatile("");
    return block;
}

SITE void *remember_user(void) {
    size_t bytes = random_between(330, 380);
    void *block = filled(malloc(bytes), bytes);
    __asm__ volatile("");
    return block;
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (size_t i = 0; i < BLOCKS; i++) {
        messages[i] = receive_message();
        if (i % PER_USER == 0) {
            users[i / PER_USER] = remember_user();
        }
    }
    work_on(20);
    for (size_t i = 0; i < BLOCKS; i++) {
        free(messages[i]);
    }
    work_on(180);
    return users[0] == NULL;
}
