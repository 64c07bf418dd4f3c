/* SPDX-License-Identifier: MIT */
/* The OS contract on Linux; errno is the caller's throughout. */
#include "pools/engine/os/os.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>

#define MIB ((size_t)1 << 20)
#define TOO_MUCH ((size_t)1 << 60)

static bool is_zero(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i += 64) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

TEST(a_reservation_is_aligned_zero_and_writable) {
    for (size_t align = 4096; align <= (size_t)1 << 31; align *= 8) {
        for (size_t bytes = ps_os_page_bytes(); bytes <= 8 * MIB; bytes *= 16) {
            unsigned char *base = ps_os_reserve(bytes, align);
            REQUIRE(base != NULL);
            CHECK_EQ((uintptr_t)base % align, 0);
            CHECK(is_zero(base, bytes));
            base[0] = 1;
            base[bytes - 1] = 1;
            CHECK(ps_os_release(base, bytes));
        }
    }
}

TEST(impossible_requests_are_refused_and_errno_kept) {
    errno = 4711;
    CHECK_PTR_EQ(ps_os_reserve(TOO_MUCH, 4096), NULL);
    CHECK_PTR_EQ(ps_os_reserve(SIZE_MAX & ~(size_t)4095, (size_t)1 << 30), NULL);
    CHECK_PTR_EQ(ps_os_reserve(1 * MIB, (size_t)1 << 62), NULL);
    unsigned char *base = ps_os_reserve(1 * MIB, 4096);
    REQUIRE(base != NULL);
    CHECK(!ps_os_resize(base, 1 * MIB, TOO_MUCH));
    CHECK(!ps_os_release(base + 1, 4096));
    CHECK(!ps_os_purge(base + 1, 4096));
    CHECK_EQ(errno, 4711);
    CHECK(ps_os_release(base, 1 * MIB));
}

TEST(a_purge_drops_the_memory_and_keeps_the_addresses) {
    unsigned char *base = ps_os_reserve(4 * MIB, 4096);
    REQUIRE(base != NULL);
    ps_os_advise_huge(base, 4 * MIB, false);
    memset(base, 0x5a, 4 * MIB);
    CHECK_EQ(ps_os_resident(base, 4 * MIB), 4 * MIB);
    CHECK(ps_os_purge(base + MIB, 2 * MIB));
    CHECK(is_zero(base + MIB, 2 * MIB) && base[MIB - 1] == 0x5a && base[3 * MIB] == 0x5a);
    CHECK(ps_os_purge(base, 4 * MIB));
    CHECK_EQ(ps_os_resident(base, 4 * MIB), 0);
    base[5] = 1;
    CHECK_EQ(ps_os_resident(base, 4 * MIB), ps_os_page_bytes());
    CHECK(ps_os_release(base, 4 * MIB));
}

TEST(what_is_in_memory_is_read_without_leaving_a_descriptor) {
    errno = 4711;
    uint64_t before = ps_os_rss_bytes();
    unsigned char *base = ps_os_reserve(64 * MIB, 4096);
    REQUIRE(base != NULL);
    CHECK_CMP(before, >, 100 * 1024);
    CHECK_CMP(ps_os_rss_bytes(), <, before + 32 * MIB);
    memset(base, 1, 64 * MIB);
    uint64_t peak = ps_os_rss_bytes();
    CHECK_CMP(peak, >=, before + 60 * MIB);
    CHECK(ps_os_release(base, 64 * MIB));
    CHECK_CMP(ps_os_rss_bytes(), <=, peak - 60 * MIB);
    CHECK_CMP(ps_os_memory_bytes(), >, ps_os_rss_bytes());
    CHECK_EQ(errno, 4711);
    int lowest = dup(0);
    REQUIRE(lowest >= 0);
    close(lowest);
    (void)ps_os_rss_bytes();
    CHECK_EQ(dup(0), lowest);
    close(lowest);
}

/* Whether the kernel can read a byte there: it says EFAULT where we may not. */
static bool is_readable(const void *address) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    bool is_written = write(ends[1], address, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return is_written;
}

TEST(protection_takes_access_and_gives_it_back_with_the_contents) {
    size_t page = ps_os_page_bytes();
    unsigned char *base = ps_os_reserve(4 * page, page);
    REQUIRE(base != NULL);
    memset(base, 0x5a, 4 * page);
    errno = 4711;
    CHECK(ps_os_protect(base + page, 2 * page, false));
    CHECK(!ps_os_protect(base + 1, page, false));
    CHECK_EQ(errno, 4711);
    CHECK(is_readable(base + page - 1) && is_readable(base + 3 * page));
    CHECK(!is_readable(base + page) && !is_readable(base + 3 * page - 1));
    CHECK(ps_os_protect(base + 2 * page, page, true));
    CHECK(!is_readable(base + page));
    CHECK_EQ(base[2 * page], 0x5a);
    base[3 * page - 1] = 1;
    CHECK(ps_os_release(base, 4 * page));
}

TEST(a_mapping_grows_and_shrinks_where_it_stands_if_there_is_room) {
    unsigned char *base = ps_os_reserve(16 * MIB, 4096);
    REQUIRE(base != NULL);
    CHECK(ps_os_resize(base, 16 * MIB, 4 * MIB));
    memset(base, 0x5a, 4 * MIB);
    CHECK(ps_os_resize(base, 4 * MIB, 8 * MIB));
    CHECK(base[4 * MIB - 1] == 0x5a && is_zero(base + 4 * MIB, 4 * MIB));
    CHECK(ps_os_release(base, 8 * MIB));
}

TEST(moving_takes_contents_along_and_replaces_the_target) {
    unsigned char *from = ps_os_reserve(2 * MIB, 4096);
    unsigned char *to = ps_os_reserve(6 * MIB, 4096);
    REQUIRE(from != NULL && to != NULL);
    memset(from, 0x5a, 2 * MIB);
    memset(to, 0x11, 6 * MIB);
    CHECK(ps_os_move(from, 2 * MIB, to, 6 * MIB));
    CHECK(to[0] == 0x5a && to[2 * MIB - 1] == 0x5a && is_zero(to + 2 * MIB, 4 * MIB));
    CHECK_EQ(ps_os_resident(from, 4096), 4096); /* no longer mapped: the system reports nothing */
    CHECK(ps_os_release(to, 6 * MIB));
}

TEST(the_page_size_is_the_systems_and_the_clocks_never_go_back) {
    CHECK_EQ(ps_os_page_bytes(), sysconf(_SC_PAGESIZE));
    uint64_t last_ms = ps_os_now_ms();
    uint64_t first_us = ps_os_now_us();
    uint64_t last_us = first_us;
    CHECK_CMP(last_ms, >, 0);
    for (int i = 0; i < 100000 || last_us < first_us + 2000; i++) {
        uint64_t now_ms = ps_os_now_ms();
        CHECK(now_ms >= last_ms);
        last_ms = now_ms;
        uint64_t now_us = ps_os_now_us();
        CHECK(now_us >= last_us);
        last_us = now_us;
    }
    CHECK_CMP(last_us / 1000, >=, last_ms); /* precise: not before the coarse one */
}

TEST(writing_is_whole_and_silent_about_errors) {
    int ends[2];
    char text[5000];
    char read_back[5000];
    memset(text, 'x', sizeof text);
    REQUIRE(pipe(ends) == 0);
    ps_os_write(ends[1], text, sizeof text);
    CHECK_EQ(read(ends[0], read_back, sizeof read_back), sizeof text);
    CHECK(memcmp(text, read_back, sizeof text) == 0);
    errno = 4711;
    ps_os_write(-1, text, 3);
    ps_os_write(ends[1], text, 0);
    CHECK_EQ(errno, 4711);
    close(ends[0]);
    close(ends[1]);
}

/* ---- a write that a signal cuts short ---- */

static struct {
    int end;
    char text[192 << 10]; /* longer than a pipe */
} interrupted;
static uint32_t x_signals;

static void note_signal(int signal) {
    (void)signal;
    __atomic_add_fetch(&x_signals, 1, __ATOMIC_RELEASE);
}

static void *write_all(void *unused) {
    (void)unused;
    ps_os_write(interrupted.end, interrupted.text, sizeof interrupted.text);
    close(interrupted.end);
    return NULL;
}

TEST(a_write_goes_on_where_a_signal_has_stopped_it) {
#if defined(__SANITIZE_THREAD__)
    return; /* it defers a signal to the end of a system call that it does not know */
#endif
    static char read_back[sizeof interrupted.text + 1];
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    for (size_t i = 0; i < sizeof interrupted.text; i++) {
        interrupted.text[i] = (char)(i % 251);
    }
    interrupted.end = ends[1];
    struct sigaction action = {.sa_handler = note_signal};
    REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    pthread_t thread;
    int full = fcntl(ends[0], F_GETPIPE_SZ);
    REQUIRE(full > 0 && (size_t)full < sizeof interrupted.text);
    REQUIRE(pthread_create(&thread, NULL, write_all, NULL) == 0);
    for (int held = 0; held < full; sched_yield()) { /* then the thread is inside of the call */
        REQUIRE(ioctl(ends[0], FIONREAD, &held) == 0);
    }
    REQUIRE(pthread_kill(thread, SIGUSR1) == 0);
    while (__atomic_load_n(&x_signals, __ATOMIC_ACQUIRE) == 0) { /* ends: in the handler */
        sched_yield();
    }
    size_t total = 0;
    for (ssize_t got; (got = read(ends[0], read_back + total, sizeof read_back - total)) > 0;) {
        total += (size_t)got;
    }
    CHECK_EQ(total, sizeof interrupted.text);
    CHECK(memcmp(interrupted.text, read_back, sizeof interrupted.text) == 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    close(ends[0]);
}

static uint32_t x_word;

static void *wait_for_change(void *unused) {
    (void)unused;
    while (__atomic_load_n(&x_word, __ATOMIC_ACQUIRE) == 1) {
        ps_os_wait(&x_word, 1);
    }
    return NULL;
}

TEST(a_wait_ends_when_the_word_has_changed_and_is_signalled) {
    x_word = 7;
    ps_os_wait(&x_word, 1); /* returns: it is not 1 */
    x_word = 1;
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, wait_for_change, NULL) == 0);
    for (int i = 0; i < 1000; i++) {
        sched_yield();
    }
    __atomic_store_n(&x_word, 2, __ATOMIC_RELEASE);
    ps_os_wake_one(&x_word);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

UNIT_MAIN
