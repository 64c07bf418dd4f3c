// marks: slow
// flags: -O2
// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Forks by a signal handler at any instruction of a call of malloc or free, which goes on in the
 * child when the handler returns. POSIX allows fork there; what another thread was doing at that
 * moment can then not be repaired, since a section of the calling thread's own is under way, but it
 * must not harm. FORK_STEP_EVERY=1 forks at each instruction; the default leaves most out.
 */
#include "tests/slowness.h"
#include "tests/unit/engine.h"
#include "tests/unit/trap_flag.h"
#include "tests/unit/worker.h"

#include <errno.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#define BLOCKS 2000
#define BYTES 200

enum role {
    ROLE_NONE,
    ROLE_FORKS, /* forks every few steps */
    ROLE_STOPS, /* blocks every few steps, until it is answered */
};

static __thread enum role role;
static __thread uint64_t steps;
static __thread uint64_t every;
static uint64_t forks;
static bool is_child;
static sem_t stopped;
static sem_t answered;

static bool is_late; /* the thread that stops went on without an answer; atomic */

static void wait_for(sem_t *event) {
    while (sem_wait(event) != 0) { /* interrupted */
    }
}

static void answer(void) {
    if (!__atomic_exchange_n(&is_late, false, __ATOMIC_SEQ_CST)) {
        sem_post(&answered);
    }
}

#if CAN_STEP
/* The other thread may need a lock that this one has: so it does not stop for long. */
static void await_answer(void) {
    struct timespec end;
    REQUIRE(clock_gettime(CLOCK_REALTIME, &end) == 0);
    end.tv_sec++;
    while (sem_timedwait(&answered, &end) != 0) {
        if (errno == ETIMEDOUT) {
            __atomic_store_n(&is_late, true, __ATOMIC_SEQ_CST);
            return;
        }
    }
}

static void check_child(pid_t pid) {
    int status = 1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    forks++;
    if (status != 0) {
        unit_fail(__FILE__, __LINE__, "the child of step %ju ended with status 0x%x",
                  (uintmax_t)steps, (unsigned)status);
    }
}

static void fork_here(ucontext_t *context) {
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid != 0) {
        check_child(pid);
        return;
    }
    slowness_alarm(20);
    unit_failures = 0;
    is_child = true;
    context->uc_mcontext.gregs[REG_EFL] &=
        ~(greg_t)TEST_TRAP_FLAG; /* the rest of the call is not stepped */
}

static void step_done(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    if (++steps % every != 0 || is_child) {
        return;
    }
    if (role == ROLE_FORKS) {
        fork_here(context);
    } else if (role == ROLE_STOPS) {
        sem_post(&stopped);
        await_answer();
    }
}
#else
static void step_done(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
}
#endif

static void run_stepped(enum role as, uint64_t distance, void (*operation)(void)) {
    const char *wanted = getenv("FORK_STEP_EVERY");
    role = as;
    steps = 0;
    every = wanted != NULL && as == ROLE_FORKS ? strtoull(wanted, NULL, 10)
                                               : distance * (PS_CHECKED ? 5 : 1);
    set_trap_flag(true);
    operation();
    set_trap_flag(false);
    role = ROLE_NONE;
}

static void nothing(void) {}

static void begin(void) {
    struct sigaction action = {.sa_sigaction = step_done, .sa_flags = SA_SIGINFO};
    REQUIRE(sigaction(SIGTRAP, &action, NULL) == 0);
    REQUIRE(sem_init(&stopped, 0, 0) == 0 && sem_init(&answered, 0, 0) == 0);
    if (CAN_STEP) {
        run_stepped(ROLE_NONE, UINT32_MAX, nothing);
    }
    if (steps == 0) {
        UNIT_SKIP("stepping needs the processor's trap flag, and no sanitizer");
    }
    ps_engine_start();
}

/* ---- what a child does ---- */

static struct live_block blocks[3][BLOCKS];

static void *use_blocks(void *own) {
    struct live_block *mine = own;
    for (int round = 0; round < 2; round++) {
        live_start_all(mine, BLOCKS, BYTES);
        live_end_all(mine, BLOCKS); /* checks them */
    }
    return NULL;
}

static void *free_the_rest(void *unused) {
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 3 != 0) {
            live_end(&blocks[0][i]);
        }
    }
    ps_maintenance_trim(0);
    return NULL;
}

/* Another thread frees what this one allocates, from slabs that have room; then all allocate. */
static PS_NORETURN void use_everything(void) {
    pthread_t others[2];
    live_start_all(blocks[0], BLOCKS, BYTES);
    for (size_t i = 0; i < BLOCKS; i += 3) {
        live_end(&blocks[0][i]);
    }
    REQUIRE(pthread_create(&others[0], NULL, free_the_rest, NULL) == 0);
    pthread_join(others[0], NULL);
    for (size_t i = 0; i < 2; i++) {
        REQUIRE(pthread_create(&others[i], NULL, use_blocks, blocks[i + 1]) == 0);
    }
    (void)use_blocks(blocks[0]);
    for (size_t i = 0; i < 2; i++) {
        pthread_join(others[i], NULL);
    }
    ps_maintenance_trim(0);
    (void)engine_census();
    _exit(unit_failures == 0 ? 0 : 1);
}

/* ---- a thread begins ---- */

static void *first_block;

static void allocate_first(void) { first_block = ps_heap_alloc(100); }

static void *begin_stepped(void *unused) {
    (void)unused;
    run_stepped(ROLE_FORKS, 7, allocate_first);
    if (is_child) {
        use_everything();
    }
    ps_heap_free(first_block);
    return NULL;
}

static void begin_in_a_thread(void) {
    pthread_t thread;
    uint64_t before = forks;
    REQUIRE(pthread_create(&thread, NULL, begin_stepped, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK_CMP(forks - before, >=, 20);
}

FRESH_TEST(a_thread_is_interrupted_while_it_begins) {
    begin();
    begin_in_a_thread();
}

FRESH_TEST(a_thread_is_interrupted_while_it_begins_after_another_has_ended) {
    begin();
    ps_heap_free(ps_heap_alloc(100));
    begin_in_a_thread(); /* and ends */
    begin_in_a_thread();
}

/* ---- another thread releases memory ---- */

static void fill(void *unused) {
    (void)unused;
    live_start_all(blocks[1], BLOCKS, BYTES);
}

static void release_all(void) { (void)ps_maintenance_trim(0); }

static void *release(void *unused) {
    (void)unused;
    run_stepped(ROLE_STOPS, 1009, release_all);
    is_child = true; /* over; there is no fork any more */
    sem_post(&stopped);
    return NULL;
}

/* Under a lock that the other thread rarely has. */
static void use_a_region(void) { ps_heap_free(ps_heap_alloc(300 * KIB)); }

FRESH_TEST(a_thread_is_interrupted_while_another_releases_memory) {
    struct worker owner;
    pthread_t other;
    begin();
    worker_start(&owner);
    worker_do(&owner, fill, NULL); /* and makes no call any more */
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i < BLOCKS / 2 || i % 2 == 0) { /* whole slabs, and parts of others */
            live_end(&blocks[1][i]);
        }
    }
    void *kept = ps_heap_alloc(300 * KIB); /* its region serves the next ones */
    REQUIRE(pthread_create(&other, NULL, release, NULL) == 0);
    for (wait_for(&stopped); !is_child; wait_for(&stopped)) {
        run_stepped(ROLE_FORKS, 61, use_a_region);
        if (is_child) {
            use_everything();
        }
        answer();
    }
    pthread_join(other, NULL);
    ps_heap_free(kept);
    worker_stop(&owner);
    CHECK_CMP(forks, >=, 10);
}

UNIT_MAIN
