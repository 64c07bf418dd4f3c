/* SPDX-License-Identifier: MIT */
/* A library with 64 bytes of thread-local words at a fixed distance from the thread pointer. */
static __thread int words[16] __attribute__((tls_model("initial-exec")));

int static_tls_user_answer(void) {
    int *volatile own = words;
    own[3] = 42;
    return own[3];
}
