/* SPDX-License-Identifier: MIT */
/*
 * A signal handler that makes records of what it has seen, which the program reads later. Nothing
 * is allocated, nothing blocks. Checks itself.
 */
#include <poolshim/fixed.h>
#include <signal.h>
#include <stdio.h>

struct record {
    struct record *next;
    int number;
};

static PS_FIXED(struct record, 8) records = PS_FIXED_INIT(records);
static struct record *newest; /* the handler's, and the program's while the signal is blocked */
static volatile sig_atomic_t dropped;

static void note(int number) {
    struct record *record = ps_fixed_alloc_shared(&records.pool);
    if (record == NULL) { /* all records are unread */
        dropped++;
        return;
    }
    *record = (struct record){newest, number};
    newest = record;
}

/* Takes the records out, and returns how many there were. */
static int read_records(void) {
    sigset_t blocked;
    sigset_t before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    struct record *record = newest;
    newest = NULL;
    sigprocmask(SIG_SETMASK, &before, NULL);
    int count = 0;
    while (record != NULL) {
        struct record *next = record->next;
        count += record->number == SIGUSR1;
        ps_fixed_free_shared(&records.pool, record);
        record = next;
    }
    return count;
}

int main(void) {
    struct sigaction action = {.sa_handler = note};
    sigaction(SIGUSR1, &action, NULL);
    int read = 0;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i <= round; i++) {
            raise(SIGUSR1);
        }
        read += read_records();
    }
    printf("%d signals read, %d dropped\n", read, (int)dropped);
    return read + dropped == 55 && dropped == 3 ? 0 : 1;
}
