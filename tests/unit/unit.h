/* SPDX-License-Identifier: MIT */
/*
 * What a unit test file includes: TEST, GIVEN/WHEN/THEN, the CHECK family and UNIT_MAIN. Owns the
 * list of the file's tests and the failure count. Header only; each test is a program of its own.
 *
 *     TEST(remote_free_returns_block_to_owner)
 *     {
 *         GIVEN("a block of another thread");
 *         WHEN("it is freed here");
 *         THEN("another thread can allocate it");
 *         CHECK_EQ(live_blocks(), 0);
 *     }
 *     UNIT_MAIN
 *
 * The program runs all tests, or those named as arguments; --list names them. It exits 0 when all
 * passed, 1 when one failed, 77 when the last word was UNIT_SKIP. A failed CHECK prints file, line
 * and values and continues; REQUIRE ends the program. Checks may be used from any thread.
 */
#ifndef PS_TESTS_UNIT_H
#define PS_TESTS_UNIT_H

#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNIT_FAILURES_MAX 20 /* then the program ends: a failing loop must not flood */

struct unit_test {
    const char *name;
    void (*run)(void);
    struct unit_test *next;
};

static struct unit_test *unit_first;
__attribute__((unused)) static struct unit_test **unit_last = &unit_first;
static const char *unit_step = "";
static int unit_failures;

/* Defines a test and registers it; tests run in the order of the file. */
#define TEST(claim)                                                                                \
    static void claim(void);                                                                       \
    __attribute__((constructor)) static void unit_register_##claim(void) {                         \
        static struct unit_test test = {#claim, claim, NULL};                                      \
        *unit_last = &test;                                                                        \
        unit_last = &test.next;                                                                    \
    }                                                                                              \
    static void claim(void)

/* The step is printed with a failure that follows it. */
#define GIVEN(text) (unit_step = "given " text)
#define WHEN(text) (unit_step = "when " text)
#define THEN(text) (unit_step = "then " text)

#define CHECK(condition)                                                                           \
    ((condition) ? (void)0 : unit_fail(__FILE__, __LINE__, "%s is false", #condition))

#define REQUIRE(condition)                                                                         \
    ((condition) ? (void)0 : (unit_fail(__FILE__, __LINE__, "%s is false", #condition), exit(1)))

/* Integers of any type, compared as intmax_t: CHECK_CMP(used, <=, capacity). */
#define CHECK_CMP(left, op, right)                                                                 \
    do {                                                                                           \
        intmax_t left_ = (intmax_t)(left), right_ = (intmax_t)(right);                             \
        if (!(left_ op right_)) {                                                                  \
            unit_fail(__FILE__, __LINE__, "%s " #op " %s: left %jd (0x%jx), right %jd (0x%jx)",    \
                      #left, #right, left_, (uintmax_t)left_, right_, (uintmax_t)right_);          \
        }                                                                                          \
    } while (0)
#define CHECK_EQ(left, right) CHECK_CMP(left, ==, right)
#define CHECK_NE(left, right) CHECK_CMP(left, !=, right)

#define CHECK_PTR_EQ(left, right)                                                                  \
    do {                                                                                           \
        const void *left_ = (left), *right_ = (right);                                             \
        if (left_ != right_) {                                                                     \
            unit_fail(__FILE__, __LINE__, "%s == %s: left %p, right %p", #left, #right, left_,     \
                      right_);                                                                     \
        }                                                                                          \
    } while (0)

#define CHECK_STR_EQ(left, right)                                                                  \
    do {                                                                                           \
        const char *left_ = (left), *right_ = (right);                                             \
        if (strcmp(left_, right_) != 0) {                                                          \
            unit_fail(__FILE__, __LINE__, "%s == %s:\n    left  \"%s\"\n    right \"%s\"", #left,  \
                      #right, left_, right_);                                                      \
        }                                                                                          \
    } while (0)

/* Runs the statement in a child, which must die by SIGABRT with the text on its stderr. */
#define CHECK_ABORTS(statement, text)                                                              \
    do {                                                                                           \
        struct unit_child child_ = unit_child_start();                                             \
        if (child_.pid == 0) {                                                                     \
            statement;                                                                             \
            _exit(0);                                                                              \
        }                                                                                          \
        unit_child_check_abort(&child_, (text), __FILE__, __LINE__);                               \
    } while (0)

#define UNIT_SKIPPED 77

/* Ends the program; a failure before counts all the same. */
#define UNIT_SKIP(reason)                                                                          \
    do {                                                                                           \
        printf("skip: %s\n", (reason));                                                            \
        exit(unit_failures == 0 ? UNIT_SKIPPED : 1);                                               \
    } while (0)

#define UNIT_MAIN                                                                                  \
    int main(int argc, char **argv) { return unit_main(argc, argv); }

__attribute__((format(printf, 3, 4), unused)) static void unit_fail(const char *file, int line,
                                                                    const char *format, ...) {
    char message[1024];
    __builtin_va_list arguments;
    __builtin_va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    __builtin_va_end(arguments);
    fprintf(stderr, "%s:%d: %s\n    %s\n", file, line, message, unit_step);
    if (__atomic_add_fetch(&unit_failures, 1, __ATOMIC_RELAXED) >= UNIT_FAILURES_MAX) {
        fprintf(stderr, "too many failures\n");
        _exit(1);
    }
}

struct unit_child {
    pid_t pid;
    int stderr_fd;
};

/* Without handlers of the fork, so that the child is in the parent's state, where there is such. */
#if defined(__GLIBC_PREREQ) && !defined(__SANITIZE_THREAD__)
#if __GLIBC_PREREQ(2, 34)
#define UNIT_FORK _Fork
#endif
#endif
static pid_t unit_fork(void) {
#if defined(UNIT_FORK)
    return UNIT_FORK();
#else
    return fork();
#endif
}

/* Forks; in the child stderr goes into the pipe that the parent reads in the check below. */
__attribute__((unused)) static struct unit_child unit_child_start(void) {
    int ends[2];
    fflush(NULL);
    REQUIRE(pipe(ends) == 0);
    pid_t pid = unit_fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
    }
    close(ends[1]);
    return (struct unit_child){pid, ends[0]};
}

__attribute__((unused)) static void
unit_child_check_abort(struct unit_child *child, const char *text, const char *file, int line) {
    char output[2048];
    size_t length = 0;
    ssize_t got;
    while ((got = read(child->stderr_fd, output + length, sizeof output - 1 - length)) > 0) {
        length += (size_t)got;
    }
    output[length] = '\0';
    close(child->stderr_fd);
    int status = 0;
    waitpid(child->pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || strstr(output, text) == NULL) {
        unit_fail(file, line, "expected SIGABRT and \"%s\", got wait status 0x%x and \"%s\"", text,
                  (unsigned)status, output);
    }
}

/* After a fork: ends the child, which must have found no failure; the parent checks that. */
__attribute__((unused)) static void unit_join_child(pid_t pid) {
    if (pid == 0) {
        _exit(unit_failures == 0 ? 0 : 1);
    }
    int status = 1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
}

/* xorshift64: fixed seed, or UNIT_SEED from the environment; printed at first use. One thread. */
__attribute__((unused)) static uint64_t unit_random(void) {
    static uint64_t state;
    if (state == 0) {
        const char *text = getenv("UNIT_SEED");
        state = text != NULL ? strtoull(text, NULL, 0) | 1 : 0x9e3779b97f4a7c15u;
        printf("seed: UNIT_SEED=0x%" PRIx64 "\n", state);
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int unit_is_named(const char *name, int argc, char **argv) {
    for (int index = 1; index < argc; index++) {
        if (strcmp(argv[index], name) == 0) {
            return 1;
        }
    }
    return argc == 1;
}

__attribute__((unused)) static int unit_main(int argc, char **argv) {
    int gap_blocks = 0;
    int is_listing = argc == 2 && strcmp(argv[1], "--list") == 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (struct unit_test *test = unit_first; test != NULL; test = test->next) {
        if (is_listing) {
            puts(test->name);
        } else if (unit_is_named(test->name, argc, argv)) {
            int failures_before = unit_failures;
            unit_step = "";
            test->run();
            gap_blocks++;
            printf("%s %s\n", unit_failures == failures_before ? "pass" : "FAIL", test->name);
        }
    }
    if (!is_listing && gap_blocks == 0) {
        fprintf(stderr, "no test to run\n");
        return 1;
    }
    return unit_failures == 0 ? 0 : 1;
}

#endif
