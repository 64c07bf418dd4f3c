// verdict: leak, forget_reply
/* SPDX-License-Identifier: MIT */
/* Each request loses some blocks. */
#include "tests/causes/cause.h"

SITE void forget_reply(void) {
    size_t bytes = random_between(200, 900);
    filled(malloc(bytes), bytes);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    seed_from(argc, argv);
    for (unsigned step = 0; step < 220; step++) {
        for (unsigned i = 0; i < 400; i++) {
            forget_reply();
        }
        answer_request();
        pause_ms(10);
    }
    return 0;
}
