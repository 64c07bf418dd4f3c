/* SPDX-License-Identifier: MIT */
/*
 * See fake_os.h. libc's calls, not raw ones: sanitizers then know which memory is mapped. All
 * state is atomic and relaxed, since tests read it while no other thread runs.
 */
#include "tests/unit/fake_os.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOAD(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define STORE(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
#define ADD(field, value) __atomic_add_fetch(&(field), (value), __ATOMIC_RELAXED)

static uint64_t clock_ms = 1000000;
static uint64_t calls[FAKE_OS_CALL_COUNT];
static uint64_t call_total;
static uint64_t failing_call; /* as counted by call_total; 0: none */
static bool is_failing_on;    /* and those after it */
static unsigned refused_kinds;
static size_t reserve_limit_bytes = SIZE_MAX;
static size_t open_limit_bytes = SIZE_MAX;
static void *next_place;
static uint64_t mapped_bytes;
static size_t huge_page_bytes; /* 0: none is set aside */
static size_t huge_pages_free;
static bool is_losing_next;
static uint64_t purged_bytes;
static size_t told_page_bytes; /* 0: the real one */
static uint64_t breaches;
static uint64_t rss_bytes;
static uint64_t rss_readings;
static uint32_t cpu;
static uint64_t memory_bytes = (uint64_t)1 << 40;

void fake_os_fail_nth(uint64_t nth) {
    STORE(failing_call, nth == 0 ? 0 : LOAD(call_total) + nth);
    STORE(is_failing_on, false);
}

void fake_os_fail_from(uint64_t nth) {
    fake_os_fail_nth(nth);
    STORE(is_failing_on, nth != 0);
}

bool fake_os_has_failed(void) {
    return LOAD(failing_call) != 0 && LOAD(call_total) >= LOAD(failing_call);
}

void fake_os_refuse(unsigned kinds) { STORE(refused_kinds, kinds); }

void fake_os_limit_reserve(size_t bytes) { STORE(reserve_limit_bytes, bytes); }

void fake_os_limit_open(size_t bytes) { STORE(open_limit_bytes, bytes); }

void fake_os_place_next(void *base) { STORE(next_place, base); }

void fake_os_set_ms(uint64_t now_ms) { STORE(clock_ms, now_ms); }

void fake_os_advance_ms(uint64_t ms) { ADD(clock_ms, ms); }

void fake_os_set_cpu(uint32_t new_cpu) { STORE(cpu, new_cpu); }

void fake_os_set_rss_bytes(uint64_t bytes) { STORE(rss_bytes, bytes); }

void fake_os_set_memory_bytes(uint64_t bytes) { STORE(memory_bytes, bytes); }

uint64_t fake_os_rss_readings(void) { return LOAD(rss_readings); }

uint64_t fake_os_calls(enum fake_os_call kind) { return LOAD(calls[kind]); }

uint64_t fake_os_mapped_bytes(void) { return LOAD(mapped_bytes); }

uint64_t fake_os_purged_bytes(void) { return LOAD(purged_bytes); }

void fake_os_set_page_bytes(size_t bytes) { STORE(told_page_bytes, bytes); }

uint64_t fake_os_breaches(void) { return LOAD(breaches); }

static void check_range(const void *base, size_t bytes) {
    size_t rest = ((uintptr_t)base | bytes) & (ps_os_page_bytes() - 1);
    ADD(breaches, rest != 0 || bytes == 0);
}

/*
 * The kernel changes a process's mappings one at a time, so what a thread did before it unmapped
 * comes before what another does with the same addresses. ThreadSanitizer needs an annotation.
 */
static void pass_kernel(void) {
    static uint32_t mappings_lock;
    __atomic_add_fetch(&mappings_lock, 1, __ATOMIC_ACQ_REL);
}

/* Counts a call and decides whether it may go through. */
static bool is_allowed(enum fake_os_call kind) {
    ADD(calls[kind], 1);
    uint64_t number = ADD(call_total, 1);
    pass_kernel();
    uint64_t failing = LOAD(failing_call);
    bool is_failing = LOAD(is_failing_on) ? number >= failing : number == failing;
    return !is_failing && (LOAD(refused_kinds) & FAKE_OS_BIT(kind)) == 0;
}

/* Restores errno, which the contract leaves to the caller. */
static bool is_success(int result, int saved_errno) {
    errno = saved_errno;
    return result == 0;
}

static char *map(void *place, size_t bytes, int access) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    flags |= place != NULL ? MAP_FIXED_NOREPLACE : 0;
    void *base = mmap(place, bytes, access, flags, -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

static void *reserve(size_t bytes, size_t align, int access) {
    int saved_errno = errno;
    check_range((void *)align, bytes);
    if (!is_allowed(FAKE_OS_RESERVE) || bytes > LOAD(reserve_limit_bytes)) {
        return NULL;
    }
    void *place = LOAD(next_place);
    STORE(next_place, NULL);
    size_t slack = place == NULL ? align : 0;
    char *base = bytes + slack >= bytes ? map(place, bytes + slack, access) : NULL;
    errno = saved_errno;
    pass_kernel();
    if (base == NULL || slack == 0) {
        ADD(mapped_bytes, base != NULL ? bytes : 0);
        return base;
    }
    char *aligned = (char *)(((uintptr_t)base + align - 1) & ~(uintptr_t)(align - 1));
    if (aligned != base) {
        munmap(base, (size_t)(aligned - base));
    }
    munmap(aligned + bytes, align - (size_t)(aligned - base));
    ADD(mapped_bytes, bytes);
    return aligned;
}

void *ps_os_reserve(size_t bytes, size_t align) {
    return reserve(bytes, align, PROT_READ | PROT_WRITE);
}

/* ThreadSanitizer has its own use for most addresses. */
#if defined(__SANITIZE_THREAD__)
#define CAN_CHOOSE false
#else
#define CAN_CHOOSE true
#endif

bool ps_os_reserve_at(void *base, size_t bytes) {
    int saved_errno = errno;
    check_range(base, bytes);
    if (!CAN_CHOOSE || !is_allowed(FAKE_OS_RESERVE) || bytes > LOAD(reserve_limit_bytes)) {
        return false;
    }
    bool is_mapped = map(base, bytes, PROT_READ | PROT_WRITE) == base;
    errno = saved_errno;
    ADD(mapped_bytes, is_mapped ? bytes : 0);
    return is_mapped;
}

void *ps_os_reserve_closed(size_t bytes, size_t align) { return reserve(bytes, align, PROT_NONE); }

static void return_huge_pages(const char *base, size_t bytes);

bool ps_os_release(void *base, size_t bytes) {
    int saved_errno = errno;
    check_range(base, bytes);
    if (!is_allowed(FAKE_OS_RELEASE) || !is_success(munmap(base, bytes), saved_errno)) {
        return false;
    }
    return_huge_pages(base, bytes);
    ADD(mapped_bytes, -bytes);
    return true;
}

static bool has_huge_page(const char *base, size_t bytes);

bool ps_os_purge(void *base, size_t bytes) {
    int saved_errno = errno;
    check_range(base, bytes);
    ADD(breaches, has_huge_page(base, bytes)); /* Linux may accept it, and drop nothing */
    if (!is_allowed(FAKE_OS_PURGE) ||
        !is_success(madvise(base, bytes, MADV_DONTNEED), saved_errno)) {
        return false;
    }
    ADD(purged_bytes, bytes);
    return true;
}

bool ps_os_protect(void *base, size_t bytes, bool is_accessible) {
    int saved_errno = errno;
    int access = is_accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
    bool is_too_long = is_accessible && bytes > LOAD(open_limit_bytes);
    return is_allowed(FAKE_OS_PROTECT) && !is_too_long &&
           is_success(mprotect(base, bytes, access), saved_errno);
}

/* No call that tests count or refuse: it happens once, and its failure changes nothing. */
bool ps_os_freeze(void *base, size_t bytes) {
    int saved_errno = errno;
    check_range(base, bytes);
    return is_success(mprotect(base, bytes, PROT_READ), saved_errno);
}

size_t ps_os_resident(void *base, size_t bytes) {
    int saved_errno = errno;
    unsigned char in_memory[512];
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t resident = 0;
    size_t most = sizeof in_memory * 4096; /* os_linux.c has why: for pages of 4 KiB */
    check_range(base, bytes);
    for (size_t done = 0; done < bytes; done += most) {
        size_t piece = bytes - done < most ? bytes - done : most;
        mincore((char *)base + done, piece, in_memory);
        for (size_t page = 0; page < piece / page_bytes; page++) {
            resident += in_memory[page] & 1 ? page_bytes : 0;
        }
    }
    errno = saved_errno;
    return resident;
}

static bool remap(void *from, size_t old_bytes, size_t new_bytes, int flags, void *to) {
    int saved_errno = errno;
    void *result = mremap(from, old_bytes, new_bytes, flags, to);
    return is_success(result == MAP_FAILED, saved_errno);
}

bool ps_os_resize(void *base, size_t old_bytes, size_t new_bytes) {
    check_range(base, old_bytes | new_bytes);
    if (!is_allowed(FAKE_OS_RESIZE) || !remap(base, old_bytes, new_bytes, 0, NULL)) {
        return false;
    }
    ADD(mapped_bytes, new_bytes - old_bytes);
    return true;
}

/* A refusal takes the target with it, which the contract allows. */
bool ps_os_move(void *from, size_t old_bytes, void *to, size_t new_bytes) {
    check_range(from, old_bytes);
    check_range(to, new_bytes);
    if (!is_allowed(FAKE_OS_MOVE) ||
        !remap(from, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to)) {
        (void)munmap(to, new_bytes);
        ADD(mapped_bytes, -new_bytes);
        return false;
    }
    ADD(mapped_bytes, -old_bytes);
    return true;
}

void ps_os_advise_huge(void *base, size_t bytes, bool is_wanted) {
    int saved_errno = errno;
    check_range(base, bytes);
    madvise(base, bytes, is_wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    errno = saved_errno;
}

/*
 * Huge pages that are set aside: which addresses have one is a list, so that each page that
 * is unmapped is counted as free again.
 */
#define HUGE_PAGES_LIMIT 4096
static char *huge_pages[HUGE_PAGES_LIMIT];

void fake_os_set_huge_pages(size_t count, size_t page_bytes) {
    STORE(huge_pages_free, count);
    STORE(huge_page_bytes, page_bytes);
}

size_t fake_os_huge_pages_free(void) { return LOAD(huge_pages_free); }

void fake_os_lose_next(void) { STORE(is_losing_next, true); }

static void note_huge_pages(char *base, size_t bytes) {
    for (size_t i = 0; i < HUGE_PAGES_LIMIT && bytes > 0; i++) {
        if (LOAD(huge_pages[i]) == NULL) {
            STORE(huge_pages[i], base);
            base += LOAD(huge_page_bytes);
            bytes -= LOAD(huge_page_bytes);
        }
    }
}

static void return_huge_pages(const char *base, size_t bytes) {
    for (size_t i = 0; LOAD(huge_page_bytes) != 0 && i < HUGE_PAGES_LIMIT; i++) {
        char *page = LOAD(huge_pages[i]);
        if (page >= base && page < base + bytes) {
            STORE(huge_pages[i], NULL);
            ADD(huge_pages_free, 1);
        }
    }
}

static bool has_huge_page(const char *base, size_t bytes) {
    bool has_any = false;
    for (size_t i = 0; LOAD(huge_page_bytes) != 0 && i < HUGE_PAGES_LIMIT; i++) {
        const char *page = LOAD(huge_pages[i]);
        has_any |= page != NULL && page < base + bytes && base < page + LOAD(huge_page_bytes);
    }
    return has_any;
}

static bool take_huge_pages(size_t bytes, size_t page_bytes) {
    size_t count = bytes / page_bytes;
    ADD(breaches, bytes % page_bytes != 0 || page_bytes != LOAD(huge_page_bytes));
    if (!is_allowed(FAKE_OS_HUGE) || count > LOAD(huge_pages_free)) {
        return false;
    }
    ADD(huge_pages_free, -count);
    return true;
}

void *ps_os_map_huge(size_t bytes, size_t page_bytes) {
    if (!take_huge_pages(bytes, page_bytes)) {
        return NULL;
    }
    void *base = reserve(bytes, page_bytes, PROT_READ | PROT_WRITE);
    if (base == NULL) {
        ADD(huge_pages_free, bytes / page_bytes);
    } else {
        note_huge_pages(base, bytes);
    }
    return base;
}

/* A fresh mapping in the place of the old one, as the contract says: of zeroes. */
static bool map_over(void *base, size_t bytes, int access) {
    int saved_errno = errno;
    void *result =
        mmap(base, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return is_success(result == MAP_FAILED, saved_errno);
}

enum ps_os_placing ps_os_place_huge(void *base, size_t bytes, size_t page_bytes) {
    ADD(breaches, ((uintptr_t)base & (page_bytes - 1)) != 0);
    if (LOAD(is_losing_next)) {
        STORE(is_losing_next, false);
        return map_over(base, bytes, PROT_NONE) ? PS_OS_LOST : PS_OS_REFUSED; /* another's */
    }
    if (!take_huge_pages(bytes, page_bytes)) {
        return PS_OS_REFUSED;
    }
    return_huge_pages(base, bytes);
    note_huge_pages(base, bytes);
    return map_over(base, bytes, PROT_READ | PROT_WRITE) ? PS_OS_PLACED : PS_OS_LOST;
}

bool ps_os_close(void *base, size_t bytes) {
    check_range(base, bytes);
    if (!is_allowed(FAKE_OS_CLOSE) || !map_over(base, bytes, PROT_NONE)) {
        return false;
    }
    return_huge_pages(base, bytes);
    return true;
}

size_t ps_os_page_bytes(void) {
    size_t told = LOAD(told_page_bytes);
    return told != 0 ? told : (size_t)sysconf(_SC_PAGESIZE);
}

uint64_t ps_os_memory_bytes(void) { return LOAD(memory_bytes); }

uint64_t ps_os_rss_bytes(void) {
    ADD(rss_readings, 1);
    return LOAD(rss_bytes);
}

uint64_t ps_os_now_ms(void) { return LOAD(clock_ms); }

uint64_t ps_os_now_us(void) { return LOAD(clock_ms) * 1000; }

uint32_t ps_os_thread_number(void) { return (uint32_t)gettid(); }

uint32_t ps_os_cpu(void) { return LOAD(cpu); }

ptrdiff_t ps_os_rseq_offset(void) { return 0; } /* fake_os_set_cpu would be none */

uint32_t ps_os_cpus(void) { return 1; }

void ps_os_name_thread(const char *name) { (void)pthread_setname_np(pthread_self(), name); }

bool ps_os_is_first_thread(void) { return gettid() == getpid(); }

bool ps_os_is_mapped(const void *address) { return address != NULL; }

uint32_t *ps_os_word_wiped_by_fork(void) {
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    int saved_errno = errno;
    void *page = map(NULL, bytes, PROT_READ | PROT_WRITE);
    if (page != NULL && madvise(page, bytes, MADV_WIPEONFORK) != 0) {
        munmap(page, bytes);
        page = NULL;
    }
    errno = saved_errno;
    return page;
}

uint64_t ps_os_random(void) {
    static uint64_t draws;
    return ADD(draws, 1) * 0x9e3779b97f4a7c15u; /* the same in every run */
}

void ps_os_write(int fd, const char *text, size_t bytes) {
    if (write(fd, text, bytes) < 0) {
        return; /* errors end the attempt silently */
    }
}

void ps_os_wait(uint32_t *word, uint32_t expected) {
    int saved_errno = errno;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
    errno = saved_errno;
}

/* The clock does not move by waiting. */
void ps_os_wait_ms(uint32_t *word, uint32_t expected, uint64_t ms) {
    static const struct timespec short_time = {.tv_nsec = 200000};
    int saved_errno = errno;
    (void)ms;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &short_time, NULL, 0);
    errno = saved_errno;
}

void ps_os_wake_one(uint32_t *word) {
    int saved_errno = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = saved_errno;
}
