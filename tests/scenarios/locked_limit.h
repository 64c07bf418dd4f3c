/* SPDX-License-Identifier: MIT */
/* The limit of locked memory that most systems set for users, in force also for a test by root. */
#ifndef PS_TESTS_LOCKED_LIMIT_H
#define PS_TESTS_LOCKED_LIMIT_H

#include "claim.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define LIMIT_BYTES ((size_t)8 << 20)
#define UNPRIVILEGED 65534 /* a user without rights, and its group */

/* Skips the scenario where the limit cannot be set. */
static void set_locked_limit(void) {
    struct rlimit limit;
    CLAIM(getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    if (limit.rlim_max < LIMIT_BYTES) {
        claim_skip("too little memory may be locked here");
    }
    limit = (struct rlimit){LIMIT_BYTES, LIMIT_BYTES};
    CLAIM(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    if (geteuid() == 0 && setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED) != 0) {
        claim_skip("root cannot become a user with that limit");
    }
}

#endif
