/* SPDX-License-Identifier: MIT */
/*
 * The randomised multi-threaded checker: random calls over the whole allocation API by threads
 * that start, end, pass blocks to each other and fork, with every block filled with a pattern that
 * is verified when it is freed, regrown or read, and all live bytes in a map that shows any
 * overlap. Prints its seed; ends with status 1 and one line at the first finding.
 *
 *   checker [--ops N] [--threads N] [--seed N] [--max-live-bytes N] [--fork N]
 *           [--plain]    (no aligned calls, no requests that fail)
 *           [--short]    (short threads only, thousands of them)
 *           [--spare N]  (no more than N bytes of addresses; requests that are refused are none)
 *
 * Threads other than main belong to lanes: each thread starts its successor, which joins it.
 */
#include "tests/stress/lib/finding.h"
#include "tests/stress/lib/mailbox.h"
#include "tests/stress/lib/shadow.h"
#include "tests/stress/lib/worker.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LANES_MAX 64
#define GENERATION_OPS_MIN 8
#define GENERATION_OPS_SHORT 256
#define GENERATION_OPS_USUAL 1024
#define GENERATION_OPS_MAX 262144
#define CHILD_SECONDS 60
#define LIMITED_STACK_BYTES ((size_t)256 << 10)

struct lane {
    struct worker worker;
    uint64_t operations_left;
    pthread_t predecessor;
    int has_predecessor;
    unsigned index;
};

struct options {
    uint64_t operations;
    uint64_t seed;
    size_t live_bytes_max;
    unsigned threads;
    unsigned forks;
    size_t spare_bytes; /* 0: no limit */
    int is_plain;
    int is_short;
};

static struct lane lanes[LANES_MAX];
static struct worker child_worker;
static uint64_t thread_serials;
static uint64_t operations_done;
static unsigned lane_count;
static int is_short;
static int is_limited; /* in addresses */
static sem_t lanes_finished;

static void *live_one_generation(void *argument);

/* Returns whether there is one: with a limit there may be no addresses for its stack. */
static int start_thread(struct lane *lane) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (is_limited) {
        pthread_attr_setstacksize(&attributes, LIMITED_STACK_BYTES);
    }
    int result = pthread_create(&thread, &attributes, live_one_generation, lane);
    if (result != 0 && !(is_limited && result == EAGAIN)) {
        finding_report("pthread_create returned %d", result);
    }
    pthread_attr_destroy(&attributes);
    return result == 0;
}

static void enter_thread(void) {
    finding_place.thread_serial = __atomic_add_fetch(&thread_serials, 1, __ATOMIC_RELAXED);
    finding_place.operation = 0;
}

/* Most threads are short: what they leave serves the next ones. A few do most of the work. */
static uint64_t generation_operations(struct random_state *random) {
    if (is_short) {
        return random_log_uniform(random, GENERATION_OPS_MIN, GENERATION_OPS_SHORT);
    }
    if (random_below(random, 4) != 0) {
        return random_log_uniform(random, GENERATION_OPS_MIN, GENERATION_OPS_USUAL);
    }
    return random_log_uniform(random, GENERATION_OPS_USUAL, GENERATION_OPS_MAX);
}

static void live(struct lane *lane) {
    enter_thread();
    uint64_t share = generation_operations(&lane->worker.random);
    share = share < lane->operations_left ? share : lane->operations_left;
    worker_run(&lane->worker, share);
    lane->operations_left -= share;
    if (lane->operations_left == 0) {
        worker_free_all(&lane->worker);
    } else {
        worker_leave(&lane->worker);
    }
    __atomic_fetch_add(&operations_done, finding_place.operation, __ATOMIC_RELAXED);
}

static void *live_one_generation(void *argument) {
    struct lane *lane = argument;
    if (lane->has_predecessor) {
        pthread_join(lane->predecessor, NULL);
    }
    lane->predecessor = pthread_self();
    lane->has_predecessor = 1;
    live(lane);
    while (lane->operations_left != 0) {
        if (start_thread(lane)) {
            return NULL;
        }
        live(lane); /* without a successor */
    }
    sem_post(&lanes_finished);
    return NULL;
}

/* A fork child may free whatever any thread of its parent had at the moment of the fork. */
static void free_blocks_of_parent(void) {
    for (unsigned i = 0; i < lane_count; i++) {
        for (size_t slot = 0; slot < WORKER_SLOTS; slot++) {
            if (lanes[i].worker.slots[slot].bytes != NULL) {
                block_give_back(&lanes[i].worker.slots[slot], &child_worker.random);
            }
        }
    }
    worker_empty_mailboxes(&child_worker);
}

static void *work_in_child_thread(void *argument) {
    enter_thread();
    worker_run(argument, 2000);
    return NULL;
}

static void live_as_child(unsigned number) {
    alarm(CHILD_SECONDS);
    enter_thread();
    child_worker.random.value = finding_seed * 31 + number;
    child_worker.live_bytes_max = (size_t)4 << 20;
    if (number % 2 == 0) {
        free_blocks_of_parent();
    }
    worker_run(&child_worker, 2000);
    pthread_t thread;
    if (pthread_create(&thread, NULL, work_in_child_thread, &child_worker) == 0) {
        pthread_join(thread, NULL);
    }
    worker_free_all(&child_worker);
    if (number % 3 == 0) {
        exit(0);
    }
    _exit(0);
}

static void fork_and_wait(unsigned number) {
    mailbox_lock_all();
    pid_t child = fork();
    mailbox_unlock_all();
    if (child == 0) {
        live_as_child(number);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        finding_report("fork number %u failed", number);
    }
    if (WIFSIGNALED(status)) {
        const char *what = WTERMSIG(status) == SIGALRM ? " (it hung)" : "";
        finding_report("fork child %u died by signal %d%s", number, WTERMSIG(status), what);
    }
    if (WEXITSTATUS(status) != 0) {
        finding_report("fork child %u ended with status %d", number, WEXITSTATUS(status));
    }
}

static struct options parse_options(int count, char **arguments) {
    static const struct option names[] = {{"ops", required_argument, NULL, 'o'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"max-live-bytes", required_argument, NULL, 'm'},
                                          {"fork", required_argument, NULL, 'f'},
                                          {"plain", no_argument, NULL, 'p'},
                                          {"short", no_argument, NULL, 'r'},
                                          {"spare", required_argument, NULL, 'e'},
                                          {NULL, 0, NULL, 0}};
    struct options options = {1000000, 1, (size_t)256 << 20, 4, 0, 0, 0, 0};
    int name;
    while ((name = getopt_long(count, arguments, "", names, NULL)) != -1) {
        uint64_t number = optarg != NULL ? strtoull(optarg, NULL, 10) : 0;
        switch (name) {
        case 'o':
            options.operations = number;
            break;
        case 't':
            options.threads = number > LANES_MAX ? LANES_MAX : (unsigned)number;
            break;
        case 's':
            options.seed = number;
            break;
        case 'm':
            options.live_bytes_max = number;
            break;
        case 'f':
            options.forks = (unsigned)number;
            break;
        case 'e':
            options.spare_bytes = number;
            break;
        case 'p':
            options.is_plain = 1;
            break;
        case 'r':
            options.is_short = 1;
            break;
        default:
            exit(2);
        }
    }
    if (options.threads == 0 || options.operations < options.threads || optind != count) {
        fprintf(stderr, "checker: wrong options\n");
        exit(2);
    }
    return options;
}

/* Half of the budget lies in the lanes' tables, a quarter in bursts, a quarter in mailboxes. */
static void start_lanes(const struct options *options) {
    lane_count = options->threads;
    for (unsigned i = 0; i < lane_count; i++) {
        struct lane *lane = &lanes[i];
        lane->index = i;
        lane->operations_left = options->operations / lane_count;
        lane->worker.random.value = options->seed * 1000003 + i;
        lane->worker.live_bytes_max = options->live_bytes_max / 2 / lane_count;
        if (!start_thread(lane)) {
            finding_report("no thread could be started");
        }
    }
}

static void wait_for_lanes(const struct options *options) {
    unsigned finished = 0;
    unsigned forked = 0;
    while (finished < lane_count || forked < options->forks) {
        if (forked < options->forks) {
            fork_and_wait(forked++);
        }
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 5000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        finished += sem_timedwait(&lanes_finished, &until) == 0;
    }
}

static void limit_addresses(size_t spare_bytes) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu", &pages) != 1) {
        fprintf(stderr, "checker: /proc/self/statm cannot be read\n");
        exit(77);
    }
    fclose(file);
    size_t bytes = pages * (size_t)sysconf(_SC_PAGESIZE) + spare_bytes;
    const struct rlimit limit = {bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
}

int main(int count, char **arguments) {
    struct options options = parse_options(count, arguments);
    finding_seed = options.seed;
    is_short = options.is_short;
    is_limited = options.spare_bytes != 0;
    if (shadow_start() != 0) {
        fprintf(stderr, "checker: no address space for the map of live bytes\n");
        return 77;
    }
    block_start(options.is_plain, options.spare_bytes != 0);
    mailbox_start(options.live_bytes_max / 4 / MAILBOX_COUNT);
    sem_init(&lanes_finished, 0, 0);
    child_worker.random.value = options.seed;
    fprintf(stderr, "checker: seed %llu, %llu operations, %u threads, %u forks\n",
            (unsigned long long)options.seed, (unsigned long long)options.operations,
            options.threads, options.forks);
    start_lanes(&options);
    if (is_limited) {
        limit_addresses(options.spare_bytes);
    }
    wait_for_lanes(&options);
    for (unsigned i = 0; i < lane_count; i++) {
        pthread_join(lanes[i].predecessor, NULL);
    }
    worker_empty_mailboxes(&child_worker);
    printf("operations: %llu\nthreads: %llu\nrefused: %llu\n",
           (unsigned long long)(operations_done + finding_place.operation),
           (unsigned long long)thread_serials, block_refusals);
    return 0;
}
