/* SPDX-License-Identifier: MIT */
/*
 * Arenas whose writer is killed. First at every system call of a creation, a commit, a close and a
 * recovery, one after the other (by ptrace); then at random moments. Each time the file must have
 * the last commit that was reported, or the one under way, and nothing else.
 *
 * With a number as argument: as many random kills; tests/pools/test_pools_arena.py asks for
 * hundreds.
 */
#include "tests/pools/arena_work.h"
#include "tests/unit/fresh.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>

static const char *const path = "kill.arena";
static const char *const journal = "kill.arena-journal";
static const char *const kept_path = "kept.arena";
static const char *const kept_journal = "kept.arena-journal";

static int random_kills = 40 / FRESH_SLOWNESS;

static void copy_file(const char *from, const char *to) {
    char bytes[65536];
    int source = open(from, O_RDONLY);
    if (source < 0) {
        unlink(to);
        return;
    }
    int target = open(to, O_WRONLY | O_CREAT, 0666);
    REQUIRE(target >= 0);
    ssize_t count;
    off_t length = 0;
    while ((count = read(source, bytes, sizeof bytes)) > 0) {
        REQUIRE(write(target, bytes, (size_t)count) == count);
        length += count;
    }
    REQUIRE(ftruncate(target, length) == 0);
    close(source);
    close(target);
}

static void keep(void) {
    copy_file(path, kept_path);
    copy_file(journal, kept_journal);
}

static void bring_back(void) {
    copy_file(kept_path, path);
    copy_file(kept_journal, journal);
}

/* Opens what a kill has left, as a reader and then as a writer; returns the number of commits. */
static uint64_t look(unsigned flags, const struct work_model *before) {
    struct work_model model = *before;
    struct ps_arena *arena;
    if (access(path, F_OK) == 0 &&
        ps_arena_open(&arena, path, PS_ARENA_READ | PS_ARENA_VERIFY, NULL) == PS_ARENA_OK) {
        while (model.commits < work_commits(arena)) {
            work_model_step(&model);
        }
        WORK_CHECK(arena, &model);
        ps_arena_close(arena);
    }
    enum ps_arena_status status = ps_arena_open(&arena, path, flags | PS_ARENA_VERIFY, NULL);
    CHECK_STR_EQ(ps_arena_explain(status), ps_arena_explain(PS_ARENA_OK));
    REQUIRE(status == PS_ARENA_OK);
    uint64_t commits = work_commits(arena);
    CHECK_CMP(commits, >=, model.commits);
    while (model.commits < commits) {
        work_model_step(&model);
    }
    WORK_CHECK(arena, &model);
    THEN("it can be worked with");
    CHECK(work_arena_step(arena));
    work_model_step(&model);
    CHECK_EQ(ps_arena_commit(arena), PS_ARENA_OK);
    ps_arena_close(arena);
    REQUIRE(ps_arena_open(&arena, path, PS_ARENA_VERIFY, NULL) == PS_ARENA_OK);
    WORK_CHECK(arena, &model);
    ps_arena_close(arena);
    return commits;
}

/* The child's work: opens, makes `commits` commits, closes if told. */
static int work(unsigned flags, int commits, bool is_closed) {
    struct ps_arena *arena;
    if (ps_arena_open(&arena, path, flags, NULL) != PS_ARENA_OK) {
        return 1;
    }
    while (commits-- > 0) {
        if (!work_arena_step(arena) || ps_arena_commit(arena) != PS_ARENA_OK) {
            return 1;
        }
    }
    if (is_closed) {
        ps_arena_close(arena);
    }
    return 0;
}

/* Runs the work in a child up to its stop number `stops` at a system call, and kills it there.
 * False: the work was done before. */
static bool run_until(int stops, unsigned flags, int commits, bool is_closed) {
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(77);
        }
        raise(SIGSTOP);
        _exit(work(flags, commits, is_closed));
    }
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status)) {
        UNIT_SKIP("no ptrace here");
    }
    for (; stops > 0; stops--) {
        REQUIRE(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
        REQUIRE(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status)) {
            CHECK_EQ(WEXITSTATUS(status), 0);
            return false;
        }
        REQUIRE(WIFSTOPPED(status));
    }
    kill(pid, SIGKILL);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return true;
}

/* Kills the work, begun from the saved files, at every system call. */
static void kill_everywhere(unsigned flags, int commits, bool is_closed,
                            const struct work_model *before) {
    uint64_t last = before->commits;
    int stops = 1;
    for (bool is_killed = true; is_killed; stops++) {
        bring_back();
        is_killed = run_until(stops, flags, commits, is_closed);
        uint64_t found = look(flags, before);
        CHECK_CMP(found, >=, last); /* later kills leave no less */
        CHECK_CMP(found, <=, before->commits + (uint64_t)commits);
        last = found;
    }
    CHECK_EQ(last, before->commits + (uint64_t)commits);
    printf("killed at %d stops\n", stops - 2);
}

TEST(a_kill_at_any_system_call_of_a_creation) {
    unlink(path);
    unlink(journal);
    keep();
    struct work_model model = {0};
    kill_everywhere(PS_ARENA_CREATE, 1, true, &model);
}

TEST(a_kill_at_any_system_call_of_two_commits_and_a_close) {
    unlink(path);
    unlink(journal);
    REQUIRE(work(PS_ARENA_CREATE, 5, true) == 0);
    struct work_model model = {0};
    while (model.commits < 5) {
        work_model_step(&model);
    }
    keep();
    kill_everywhere(0, 2, true, &model);
    kill_everywhere(PS_ARENA_COMPARE, 1, true, &model);
}

TEST(a_kill_at_any_system_call_of_a_recovery) {
    unlink(path);
    unlink(journal);
    REQUIRE(work(PS_ARENA_CREATE, 8, true) == 0);
    struct work_model model = {0};
    while (model.commits < 9) {
        work_model_step(&model);
    }
    GIVEN("a file whose last batch is not in its places, since a reader delayed it");
    struct ps_arena *reader;
    REQUIRE(ps_arena_open(&reader, path, PS_ARENA_READ, NULL) == PS_ARENA_OK);
    REQUIRE(work(0, 1, true) == 0);
    REQUIRE(access(journal, F_OK) == 0);
    keep();
    ps_arena_close(reader);
    kill_everywhere(0, 1, true, &model);
}

/* Works until it is killed, and says after each commit how far it is. */
static int work_on(unsigned flags, uint64_t *x_done, uint64_t seed) {
    struct ps_arena *arena;
    if (ps_arena_open(&arena, path, flags, NULL) != PS_ARENA_OK) {
        return 1;
    }
    for (;;) { /* ends by the kill */
        if (work_random(&seed) % 8 == 0) {
            if (!work_arena_step(arena) || ps_arena_rollback(arena) != PS_ARENA_OK) {
                return 1;
            }
        }
        if (!work_arena_step(arena) || ps_arena_commit(arena) != PS_ARENA_OK) {
            return 1;
        }
        /* release: pairs with the parent's load; the commit is done before it is told. */
        __atomic_store_n(x_done, work_commits(arena), __ATOMIC_RELEASE);
        if (work_random(&seed) % 32 == 0) {
            ps_arena_close(arena);
            if (ps_arena_open(&arena, path, flags, NULL) != PS_ARENA_OK) {
                return 1;
            }
        }
    }
}

/* Lets the child make some commits, then a little more, and kills it. */
static void kill_at_random(pid_t pid, const uint64_t *x_done, uint64_t until) {
    int status;
    /* acquire: pairs with the child's store. */
    while (__atomic_load_n(x_done, __ATOMIC_ACQUIRE) < until) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            fprintf(stderr, "the child ended by itself, wait status 0x%x\n", (unsigned)status);
            exit(1);
        }
        sched_yield();
    }
    for (volatile uint64_t spin = unit_random() % 200000; spin > 0; spin--) {
    }
    kill(pid, SIGKILL);
    REQUIRE(waitpid(pid, &status, 0) == pid);
}

static void storm(unsigned flags, int kills) {
    unlink(path);
    unlink(journal);
    uint64_t *x_done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(x_done != MAP_FAILED);
    struct work_model model = {0};
    int in_flight = 0;
    for (int round = 0; round < kills; round++) {
        struct ps_arena *reader = NULL;
        struct work_model seen = model;
        if (round > 0 && unit_random() % 3 == 0) {
            REQUIRE(ps_arena_open(&reader, path, PS_ARENA_READ, NULL) == PS_ARENA_OK);
        }
        uint64_t seed = unit_random();
        *x_done = model.commits;
        fflush(NULL);
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            _exit(work_on(flags | PS_ARENA_CREATE, x_done, seed));
        }
        kill_at_random(pid, x_done, model.commits + unit_random() % 6);
        if (reader != NULL) {
            THEN("a reader still sees what it saw when it opened");
            WORK_CHECK(reader, &seen);
            ps_arena_close(reader);
        }
        struct ps_arena *arena;
        bool is_reader = unit_random() % 2 == 0 && round > 0;
        enum ps_arena_status status = ps_arena_open(
            &arena, path, PS_ARENA_VERIFY | (is_reader ? PS_ARENA_READ : PS_ARENA_CREATE), NULL);
        CHECK_STR_EQ(ps_arena_explain(status), ps_arena_explain(PS_ARENA_OK));
        REQUIRE(status == PS_ARENA_OK);
        uint64_t commits = work_commits(arena);
        CHECK_CMP(commits, >=, *x_done);
        CHECK_CMP(commits, <=, *x_done + 1);
        in_flight += commits > *x_done;
        while (model.commits < commits) {
            work_model_step(&model);
        }
        WORK_CHECK(arena, &model);
        ps_arena_close(arena);
    }
    printf("%d kills, %" PRIu64 " commits, %d of them finished but not reported\n", kills,
           model.commits, in_flight);
    munmap(x_done, 4096);
}

TEST(a_kill_at_any_moment_loses_what_was_not_committed) {
    storm(0, random_kills * 3 / 4);
    storm(PS_ARENA_COMPARE, random_kills / 4);
}

/* Advances the model to the commit of the arena, then compares them. */
static void follow(struct work_model *model, const struct ps_arena *arena) {
    CHECK_CMP(work_commits(arena), >=, model->commits);
    while (model->commits < work_commits(arena)) {
        work_model_step(model);
    }
    WORK_CHECK(arena, model);
}

TEST(readers_beside_a_busy_writer_see_whole_commits) {
    unlink(path);
    unlink(journal);
    REQUIRE(work(PS_ARENA_CREATE, 1, true) == 0);
    uint64_t *x_done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(x_done != MAP_FAILED);
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        _exit(work_on(0, x_done, 1));
    }
    struct work_model model = {0};
    struct ps_arena *reader;
    for (int i = 0; i < 60 / FRESH_SLOWNESS; i++) {
        enum ps_arena_status status =
            ps_arena_open(&reader, path, PS_ARENA_READ | PS_ARENA_VERIFY, NULL);
        CHECK_STR_EQ(ps_arena_explain(status), ps_arena_explain(PS_ARENA_OK));
        REQUIRE(status == PS_ARENA_OK);
        for (int again = i % 4; again >= 0; again--) {
            follow(&model, reader);
            CHECK_EQ(ps_arena_refresh(reader), PS_ARENA_OK);
            follow(&model, reader);
        }
        ps_arena_close(reader);
    }
    kill_at_random(pid, x_done, 0);
    printf("up to commit %" PRIu64 "\n", model.commits);
    munmap(x_done, 4096);
}

int main(int argc, char **argv) {
    if (argc == 2 && atoi(argv[1]) > 0) {
        random_kills = atoi(argv[1]);
        static char name[] = "a_kill_at_any_moment_loses_what_was_not_committed";
        argv[1] = name;
    }
    return unit_main(argc, argv);
}
