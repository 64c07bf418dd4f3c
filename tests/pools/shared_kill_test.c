/* SPDX-License-Identifier: MIT */
/*
 * Shared heaps whose processes are killed. First at random moments, many processes at once; then at
 * each instruction of each kind of call (the processor's trap flag), and of the repair of such a
 * call. Each time the heap must be whole, the call done or not done, every other block as it was,
 * and no block lost beyond what shared.h says.
 *
 * KILL_STEP_EVERY=1 kills at each instruction; by default at about fifteen of each call. With a
 * number as argument: as many random kills. tests/pools/test_pools_shared.py does both.
 */
#include "tests/pools/new_shared.h"
#include "tests/unit/fresh.h"
#include "tests/unit/trap_flag.h"

#include "pools/shared/shared.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>

static int random_kills = 40 / FRESH_SLOWNESS;

/* False under an emulator of processes, where the kernel knows no list of robust locks. */
static bool has_robust_locks(void) {
    pthread_mutex_t *lock =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(lock != MAP_FAILED && ps_shared_lock_init(lock) == 0);
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        pthread_mutex_lock(lock);
        _exit(0);
    }
    REQUIRE(waitpid(pid, NULL, 0) == pid);
    bool is_robust = pthread_mutex_trylock(lock) == EOWNERDEAD;
    munmap(lock, 4096);
    return is_robust;
}

/* ---- at random ---- */

enum { WORKERS = 4, PLACES = 24 };

/* In the heap. A worker's places are its own, and its successor's. */
struct records {
    uint64_t x_done[WORKERS]; /* calls */
    struct {
        ps_offset block;
        uint64_t is_filled; /* and thus has its marks */
    } places[WORKERS][PLACES];
};

static void mark(uint64_t *block, size_t bytes, uint64_t value) {
    block[0] = value;
    block[bytes / 8 - 1] = value;
}

static bool is_marked(struct ps_shared *heap, const uint64_t *block, uint64_t value) {
    return block[0] == value && block[ps_shared_usable_size(heap, block) / 8 - 1] == value;
}

static bool give(struct ps_shared *heap, struct records *records, int worker, size_t i,
                 bool is_noted) {
    ps_offset *place = &records->places[worker][i].block;
    uint64_t *block = ps_shared_at(heap, *place);
    if (records->places[worker][i].is_filled && !is_marked(heap, block, *place + i)) {
        return false;
    }
    records->places[worker][i].is_filled = 0;
    if (is_noted) {
        ps_shared_free_from(heap, place);
    } else {
        *place = 0;
        ps_shared_free(heap, block);
    }
    return true;
}

static bool take(struct ps_shared *heap, struct records *records, int worker, size_t i,
                 size_t bytes, bool is_noted) {
    ps_offset *place = &records->places[worker][i].block;
    uint64_t *block =
        is_noted ? ps_shared_alloc_into(heap, bytes, place) : ps_shared_alloc(heap, bytes);
    if (block == NULL) {
        return false;
    }
    *place = ps_shared_offset(heap, block);
    mark(block, ps_shared_usable_size(heap, block), *place + i);
    /* release: the marks are there before this says so, to a successor. */
    ps_store_release(&records->places[worker][i].is_filled, 1);
    return true;
}

/* Works until it is killed. is_noted: by the calls that change the record with the block. */
static int work(struct ps_shared *heap, int worker, uint64_t seed, bool is_noted) {
    struct records *records = ps_shared_at(heap, ps_shared_root(heap, "records"));
    for (;;) { /* ends by the kill */
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t i = (seed >> 33) % PLACES;
        size_t bytes = (seed >> 40) % 32 == 0 ? 20000 : 16 + (seed >> 45) % 700;
        bool is_done = records->places[worker][i].block != 0
                           ? give(heap, records, worker, i, is_noted)
                           : take(heap, records, worker, i, bytes, is_noted);
        if (!is_done) {
            return 1;
        }
        /* release: pairs with kill_one. */
        ps_store_release(&records->x_done[worker], records->x_done[worker] + 1);
    }
}

static pid_t start(int fd, int worker, bool is_noted) {
    uint64_t seed = unit_random();
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it has no other end if the test fails */
        _exit(work(shared_open(fd), worker, seed, is_noted));
    }
    return pid;
}

static void end(pid_t pid) {
    int status;
    kill(pid, SIGKILL);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Lets a worker make some calls, and a little more, and kills it. */
static void kill_one(const struct records *records, int worker, pid_t pid) {
    /* acquire: pairs with work. */
    uint64_t until = ps_load_acquire(&records->x_done[worker]) + 1 + unit_random() % 40;
    while (ps_load_acquire(&records->x_done[worker]) < until) {
        if (waitpid(pid, NULL, WNOHANG) == pid) {
            fprintf(stderr, "a worker ended by itself\n");
            exit(1);
        }
        sched_yield();
    }
    for (volatile uint64_t spin = unit_random() % 20000; spin > 0; spin--) {
    }
    end(pid);
}

/* How many blocks no record leads to, when all workers have been killed. */
static size_t storm(bool is_noted) {
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    struct records *records = ps_shared_zalloc(heap, sizeof *records);
    CHECK(ps_shared_set_root(heap, "records", ps_shared_offset(heap, records)));
    pid_t pids[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        pids[i] = start(fd, i, is_noted);
    }
    for (int i = 0; i < random_kills; i++) {
        int worker = (int)(unit_random() % WORKERS);
        kill_one(records, worker, pids[worker]);
        shared_check(heap);
        pids[worker] = start(fd, worker, is_noted);
    }
    for (int i = 0; i < WORKERS; i++) {
        end(pids[i]);
    }
    shared_check(heap);
    struct ps_shared_stats stats = shared_stats(heap);
    size_t known = 1;
    for (int worker = 0; worker < WORKERS; worker++) {
        for (size_t i = 0; i < PLACES; i++) {
            known += records->places[worker][i].block != 0;
        }
    }
    size_t unknown = stats.used_count - known;
    printf("%d kills, %zu recoveries, %zu of %zu blocks unknown\n", random_kills,
           stats.recovery_count, unknown, stats.used_count);
    for (int worker = 0; worker < WORKERS; worker++) {
        for (size_t i = 0; i < PLACES; i++) {
            if (records->places[worker][i].block != 0) {
                CHECK(give(heap, records, worker, i, is_noted));
            }
        }
    }
    CHECK_EQ(shared_stats(heap).used_count, unknown + 1);
    shared_check(heap);
    ps_shared_close(heap);
    close(fd);
    return unknown;
}

FRESH_TEST(no_block_is_lost_whose_record_changes_with_it) {
    if (!has_robust_locks()) {
        UNIT_SKIP("no robust locks here");
    }
    CHECK_EQ(storm(true), 0);
}

FRESH_TEST(a_kill_loses_one_block_at_most) {
    if (!has_robust_locks()) {
        UNIT_SKIP("no robust locks here");
    }
    CHECK_CMP(storm(false), <=, random_kills + WORKERS);
}

/* ---- at each instruction ---- */

enum { KEPT = 14, STATES_MAX = 4 };

static struct ps_shared *stepped;
static char *kept[KEPT]; /* blocks; NULL: free */
static size_t kept_bytes[KEPT];
static ps_offset *place, *noted;
static uint64_t step_count, last_step;

/* Blocks side by side: 2, 5 and 8 are free, and after 12 and 13 is the rest. */
static void set_up(int fd) {
    stepped = shared_open(fd);
    place = ps_shared_zalloc(stepped, 2 * sizeof *place);
    noted = place + 1;
    for (size_t i = 0; i < KEPT; i++) {
        kept_bytes[i] = i == 10 ? 3000 : 40 + i * 48;
        kept[i] = ps_shared_alloc(stepped, kept_bytes[i]);
        REQUIRE(kept[i] != NULL);
        memset(kept[i], (int)i + 1, kept_bytes[i]);
    }
    for (size_t i = 2; i <= 8; i += 3) {
        ps_shared_free(stepped, kept[i]);
        kept[i] = NULL;
    }
    *noted = ps_shared_offset(stepped, kept[4]);
    REQUIRE(ps_shared_set_root(stepped, "old", 16));
}

static void keep_result(void *block) { __asm__ volatile("" : : "r"(block) : "memory"); }

static void alloc_cuts(void) { keep_result(ps_shared_alloc(stepped, 60)); }
static void alloc_fits(void) { keep_result(ps_shared_alloc(stepped, kept_bytes[5])); }
static void alloc_aligned(void) { keep_result(ps_shared_alloc_aligned(stepped, 100, 512)); }
static void alloc_grows(void) { keep_result(ps_shared_alloc(stepped, 100000)); }
static void alloc_into(void) { keep_result(ps_shared_alloc_into(stepped, 60, place)); }
static void free_alone(void) { ps_shared_free(stepped, kept[0]); }
static void free_behind_free(void) { ps_shared_free(stepped, kept[3]); }
static void free_before_free(void) { ps_shared_free(stepped, kept[7]); }
static void free_last(void) { ps_shared_free(stepped, kept[13]); }
static void realloc_longer(void) { keep_result(ps_shared_realloc(stepped, kept[1], 100)); }
static void realloc_shorter(void) { keep_result(ps_shared_realloc(stepped, kept[12], 100)); }
static void realloc_moves(void) { keep_result(ps_shared_realloc(stepped, kept[0], 2000)); }
static void free_large(void) { ps_shared_free(stepped, kept[10]); }
static void free_from(void) { ps_shared_free_from(stepped, noted); }
static void name_new(void) { (void)ps_shared_set_root(stepped, "new", 32); }
static void name_old(void) { (void)ps_shared_claim_root(stepped, "old", 32); }

/* Between two free blocks. */
static void free_between(void) {
    ps_shared_free(stepped, kept[3]);
    ps_shared_free(stepped, kept[4]);
}

struct operation {
    void (*run)(void);
    int freed[2]; /* of `kept`, which may be free afterwards; -1: none */
};

static void step(int number) {
    (void)number;
    if (++step_count == last_step) {
        kill(getpid(), SIGKILL);
    }
}

/* The operation in a child that is killed at a step. False: it was done before. */
static bool run_until(const struct operation *operation, uint64_t wanted) {
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        step_count = 0;
        last_step = wanted;
        set_trap_flag(true);
        operation->run();
        set_trap_flag(false);
        _exit(0);
    }
    int status;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(status == 0 || status == SIGKILL);
    return status == SIGKILL;
}

static bool is_intact(size_t i) {
    for (size_t b = 0; b < kept_bytes[i]; b++) {
        if (kept[i][b] != (char)(i + 1)) {
            return false;
        }
    }
    return true;
}

/* What a kill has left: whole, one of the states in which calls begin and end, and usable. */
static void check_left(const struct operation *operation, const struct ps_shared_stats *before,
                       const struct ps_shared_stats *after) {
    shared_check(stepped);
    struct ps_shared_stats left = shared_stats(stepped);
    size_t low = before->used_count < after->used_count ? before->used_count : after->used_count;
    size_t high = before->used_count + after->used_count - low;
    bool is_between = left.used_count + 1 == before->used_count && low + 2 == high;
    bool is_moving = left.used_count == before->used_count + 1 && low == high;
    bool is_before = left.used_count == before->used_count && left.used_bytes == before->used_bytes;
    bool is_after = left.used_count == after->used_count && left.used_bytes == after->used_bytes;
    CHECK(is_before || is_after || is_between || is_moving);
    for (int i = 0; i < KEPT; i++) {
        bool may_be_freed = i == operation->freed[0] || i == operation->freed[1];
        if (kept[i] != NULL && (!may_be_freed || is_before)) {
            CHECK(is_intact((size_t)i));
        }
    }
    CHECK_EQ(*place != 0, operation->run == alloc_into && !is_before);
    bool is_freed = operation->run == free_from && !is_before;
    CHECK_EQ(*noted, is_freed ? 0 : ps_shared_offset(stepped, kept[4]));
    ps_offset named = ps_shared_root(stepped, "new");
    CHECK(named == 0 || (named == 32 && operation->run == name_new));
    CHECK_EQ(ps_shared_root(stepped, "old"), 16);
    THEN("it can be worked with");
    void *blocks[10];
    for (size_t i = 0; i < 10; i++) {
        blocks[i] = ps_shared_alloc(stepped, 30 + i * 100);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 0x55, 30 + i * 100);
    }
    shared_check(stepped);
    for (size_t i = 0; i < 10; i++) {
        ps_shared_free(stepped, blocks[i]);
    }
    CHECK(ps_shared_set_root(stepped, "new", 48));
    shared_check(stepped);
    CHECK_EQ(shared_stats(stepped).used_count, left.used_count);
}

/* The figures when the operation is done; step_count: its instructions. */
static struct ps_shared_stats run_whole(const struct operation *operation) {
    int fd = shared_file();
    set_up(fd);
    step_count = last_step = 0;
    set_trap_flag(true);
    operation->run();
    set_trap_flag(false);
    struct ps_shared_stats stats = shared_stats(stepped);
    ps_shared_close(stepped);
    close(fd);
    return stats;
}

static void start_stepping(void) {
    struct sigaction action = {.sa_handler = step};
    REQUIRE(sigaction(SIGTRAP, &action, NULL) == 0);
    last_step = 0;
    step_count = 0;
    set_trap_flag(true);
    keep_result(NULL);
    set_trap_flag(false);
    if (!CAN_STEP || step_count == 0 || !has_robust_locks()) {
        UNIT_SKIP("stepping needs the processor's trap flag, and no sanitizer");
    }
}

/* The distance of two kills: about `kills` of them in the instructions just stepped through. */
static uint64_t step_every(uint64_t kills) {
    const char *wanted = getenv("KILL_STEP_EVERY");
    uint64_t every = wanted != NULL ? strtoull(wanted, NULL, 10) : step_count / kills | 1;
    REQUIRE(every != 0);
    return every;
}

FRESH_TEST(a_kill_at_any_instruction_of_a_call) {
    static const struct operation operations[] = {
        {alloc_cuts, {-1, -1}},      {alloc_fits, {-1, -1}},      {alloc_aligned, {-1, -1}},
        {alloc_grows, {-1, -1}},     {alloc_into, {-1, -1}},      {free_alone, {0, -1}},
        {free_behind_free, {3, -1}}, {free_before_free, {7, -1}}, {free_last, {13, -1}},
        {realloc_longer, {-1, -1}},  {realloc_shorter, {12, -1}}, {realloc_moves, {0, -1}},
        {name_new, {-1, -1}},        {name_old, {-1, -1}},        {free_from, {4, -1}},
        {free_between, {3, 4}},      {free_large, {10, -1}},
    };
    start_stepping();
    size_t kills = 0, recoveries = 0;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        struct ps_shared_stats after = run_whole(&operations[i]);
        uint64_t every = step_every(15);
        bool is_killed = true;
        for (uint64_t at = 1 + i * 7 % every; is_killed; at += every) {
            int fd = shared_file();
            set_up(fd);
            struct ps_shared_stats before = shared_stats(stepped);
            is_killed = run_until(&operations[i], at);
            kills += is_killed;
            check_left(&operations[i], &before, &after);
            recoveries += shared_stats(stepped).recovery_count;
            ps_shared_close(stepped);
            close(fd);
        }
    }
    printf("%zu kills, %zu of them with the lock held\n", kills, recoveries);
    CHECK_CMP(recoveries, >=, kills / 4);
}

FRESH_TEST(a_kill_at_any_instruction_of_a_repair) {
    static const struct operation between = {free_between, {3, 4}}, repair = {alloc_cuts, {3, 4}};
    start_stepping();
    (void)run_whole(&repair);
    uint64_t every = step_every(15);
    size_t kills = 0;
    bool is_killed = true;
    for (uint64_t at = 1; is_killed; at += every) {
        int fd = shared_file();
        set_up(fd);
        struct ps_shared_stats before = shared_stats(stepped);
        struct ps_shared_stats after = before;
        uint64_t entries = 0;
        for (uint64_t first = 100; entries < 5 && run_until(&between, first); first += 40) {
            entries = shared_header(stepped)->log.count;
            if (entries < 5) {
                shared_check(stepped); /* repairs it, for another try */
            }
        }
        REQUIRE(entries >= 5);
        is_killed = run_until(&repair, at);
        kills += is_killed;
        after.used_count++;
        shared_check(stepped);
        struct ps_shared_stats left = shared_stats(stepped);
        CHECK(left.used_count == before.used_count - 1 || left.used_count == before.used_count ||
              left.used_count == after.used_count);
        for (size_t i = 0; i < KEPT; i++) {
            CHECK(kept[i] == NULL || i == 3 || i == 4 || is_intact(i));
        }
        ps_shared_close(stepped);
        close(fd);
    }
    printf("%zu kills\n", kills);
    CHECK_CMP(kills, >=, 10);
}

int main(int argc, char **argv) {
    if (argc == 2 && atoi(argv[1]) > 0) {
        random_kills = atoi(argv[1]);
        argc = 1;
    }
    return unit_main(argc, argv);
}
