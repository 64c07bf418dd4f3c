// expect: exit 0
// marks: fork
/* SPDX-License-Identifier: MIT */
/*
 * fork while other threads are inside stdio: one flushes all streams, which holds libc's list of
 * streams and waits for each of them, others hold a stream and allocate under it. fork waits for
 * that list after it has called the fork handlers, so a handler that holds a lock of the heap until
 * the fork is over closes a circle of three (glibc bug 19431).
 */
#include "claim.h"

#include <pthread.h>
#include <sys/wait.h>

#define FORKS 100
#define READERS 2
#define LINE_BYTES 150000 /* larger than any block that a thread serves from its own spans */

static volatile int is_over;

static void *flush_all(void *unused) {
    (void)unused;
    while (!is_over) {
        CLAIM(fflush(NULL) == 0);
        usleep(100); /* the streams are contended enough for a fork to wait */
    }
    return NULL;
}

/* Reads one long line into a buffer that grows with it, the stream's lock held all the time. */
static void *read_lines(void *unused) {
    (void)unused;
    char *text = malloc(LINE_BYTES);
    CLAIM(text != NULL);
    memset(text, 'x', LINE_BYTES);
    text[LINE_BYTES - 1] = '\n';
    FILE *stream = fmemopen(text, LINE_BYTES, "r");
    CLAIM(stream != NULL);
    while (!is_over) {
        char *line = NULL;
        size_t room = 0;
        rewind(stream);
        CLAIM(getline(&line, &room, stream) == LINE_BYTES);
        free(line);
    }
    CLAIM(fclose(stream) == 0);
    free(text);
    return NULL;
}

static void fork_child(void) {
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        alarm(10);
        free(claim_hide(malloc(LINE_BYTES)));
        _exit(0);
    }
    int status = 0;
    CLAIM(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    pthread_t threads[READERS + 1];
    alarm(50);
    for (int i = 0; i <= READERS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, i == 0 ? flush_all : read_lines, NULL) == 0);
    }
    for (int i = 0; i < FORKS; i++) {
        fork_child();
    }
    is_over = 1;
    for (int i = 0; i <= READERS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}
