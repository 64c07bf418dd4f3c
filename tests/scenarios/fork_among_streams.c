// expect: exit 0
// marks: fork
/* SPDX-License-Identifier: MIT */
/*
 * fork while other threads are inside stdio. One flushes all streams: it locks libc's list of
 * streams and then each stream. Others lock a stream and allocate. fork locks that list after it
 * has called the fork handlers. A handler that locks the heap until the fork is over would
 * therefore deadlock (glibc bug 19431).
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
        usleep(100); /* the streams are contended enough to delay a fork */
    }
    return NULL;
}

/* Reads one long line into a buffer that grows with it, always under the stream's lock. */
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
        slowness_alarm(10);
        free(claim_hide(malloc(LINE_BYTES)));
        _exit(0);
    }
    int status = 0;
    CLAIM(waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    pthread_t threads[READERS + 1];
    slowness_alarm(50);
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
