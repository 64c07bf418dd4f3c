/* SPDX-License-Identifier: MIT */
/*
 * A test program that becomes itself again, to see what a process reads once at its start. Where
 * $TEST_EMULATOR runs it (the absolute path of an emulator and its options), so does it again: the
 * kernel may know the machine's own programs only. Header only, included by tests.
 */
#ifndef PS_TESTS_UNIT_AGAIN_H
#define PS_TESTS_UNIT_AGAIN_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AGAIN_WORDS_MAX 24

/* arguments[0] is only a name. Returns when the system refuses. */
__attribute__((unused)) static void exec_again(char *const *arguments, char *const *environment) {
    static char emulator[1024];
    static char program[1024];
    char *words[AGAIN_WORDS_MAX + 1];
    size_t count = 0;
    const char *set = getenv("TEST_EMULATOR");
    if (set == NULL || *set == '\0') {
        execve("/proc/self/exe", arguments, environment);
        return;
    }
    strncpy(emulator, set, sizeof emulator - 1);
    for (char *word = strtok(emulator, " "); word != NULL && count < AGAIN_WORDS_MAX / 2;
         word = strtok(NULL, " ")) {
        words[count++] = word;
    }
    if (count == 0 || readlink("/proc/self/exe", program, sizeof program - 1) < 0) {
        return;
    }
    words[count++] = program;
    for (size_t i = 1; arguments[i] != NULL && count < AGAIN_WORDS_MAX; i++) {
        words[count++] = arguments[i];
    }
    words[count] = NULL;
    execve(words[0], words, environment);
}

#endif
