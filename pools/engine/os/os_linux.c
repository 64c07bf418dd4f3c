/* SPDX-License-Identifier: MIT */
/*
 * The OS contract on Linux. Called by page/, heap/ and locks. Calls the kernel only, and its
 * code in the process for the clock and the processor's number. No locks.
 */
#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/os/auxiliary.h"
#include "pools/engine/os/clock.h"
#include "pools/engine/os/hugetlb.h"
#include "pools/engine/os/mte.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#pragma weak __rseq_offset
#pragma weak __rseq_size
#endif
#include <sys/sysinfo.h>
#include <time.h>

#define CPU_MASK_WORDS 128 /* more processors than Linux allows */

/* The word of the processor in the area of restartable sequences, and the first of its values that
 * say that the thread is not registered. */
#define RSEQ_CPU_INDEX 1
#define CPU_UNKNOWN ((uint32_t)-2)

/* mincore writes one byte for each page, qemu-user one for each page of the machine, which may be
 * smaller than the program's: buffers have room for as many. */
#define MINCORE_PAGE_BYTES 4096

static void *map_anonymous(size_t bytes, long access) {
    long result = ps_syscall6(SYS_mmap, 0, (long)bytes, access,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return ps_syscall_failed(result) ? NULL : (void *)result;
}

bool ps_os_release(void *base, size_t bytes) {
    return !ps_syscall_failed(ps_syscall3(SYS_munmap, (long)base, (long)bytes, 0));
}

static void *reserve(size_t bytes, size_t align, long access) {
    /* Neighbours of equal alignment are usually aligned: try the exact size first. */
    char *base = map_anonymous(bytes, access);
    if (base == NULL || ((uintptr_t)base & (align - 1)) == 0) {
        return base;
    }
    ps_os_release(base, bytes);
    size_t slack = align - ps_os_page_bytes();
    if (bytes + slack < bytes) {
        return NULL;
    }
    base = map_anonymous(bytes + slack, access);
    if (base == NULL) {
        return NULL;
    }
    char *aligned = (char *)ps_round_up((uintptr_t)base, align);
    size_t head = (size_t)(aligned - base);
    /* A tail that cannot be unmapped remains as unused address space, without memory. */
    if (head != 0) {
        ps_os_release(base, head);
    }
    if (slack != head) {
        ps_os_release(aligned + bytes, slack - head);
    }
    return aligned;
}

void *ps_os_reserve(size_t bytes, size_t align) {
    return reserve(bytes, align, PROT_READ | PROT_WRITE);
}

bool ps_os_reserve_at(void *base, size_t bytes) {
    long result =
        ps_syscall6(SYS_mmap, (long)base, (long)bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (!ps_syscall_failed(result) && result != (long)base) { /* Linux before 4.17: a wish */
        ps_os_release((void *)result, bytes);
    }
    return result == (long)base;
}

void *ps_os_reserve_closed(size_t bytes, size_t align) { return reserve(bytes, align, PROT_NONE); }

bool ps_os_purge(void *base, size_t bytes) {
    /* DONTNEED, not FREE: FREE leaves the pages in RSS until pressure, which users read as a leak.
     */
    return !ps_syscall_failed(ps_syscall3(SYS_madvise, (long)base, (long)bytes, MADV_DONTNEED));
}

bool ps_os_protect(void *base, size_t bytes, bool is_accessible) {
    long access = is_accessible ? PROT_READ | PROT_WRITE | ps_mte_access : PROT_NONE;
    return !ps_syscall_failed(ps_syscall3(SYS_mprotect, (long)base, (long)bytes, access));
}

bool ps_os_freeze(void *base, size_t bytes) {
    return !ps_syscall_failed(ps_syscall3(SYS_mprotect, (long)base, (long)bytes, PROT_READ));
}

size_t ps_os_resident(void *base, size_t bytes) {
    unsigned char in_memory[512];
    size_t page_bytes = ps_os_page_bytes();
    size_t resident = 0;
    for (size_t done = 0; done < bytes;) {
        size_t piece = ps_min(bytes - done, sizeof in_memory * MINCORE_PAGE_BYTES);
        if (ps_syscall_failed(ps_syscall3(SYS_mincore, (long)((char *)base + done), (long)piece,
                                          (long)in_memory))) {
            return bytes;
        }
        for (size_t page = 0; page < piece / page_bytes; page++) {
            resident += in_memory[page] & 1 ? page_bytes : 0;
        }
        done += piece;
    }
    return resident;
}

bool ps_os_resize(void *base, size_t old_bytes, size_t new_bytes) {
    return !ps_syscall_failed(
        ps_syscall6(SYS_mremap, (long)base, (long)old_bytes, (long)new_bytes, 0, 0, 0));
}

bool ps_os_move(void *from, size_t old_bytes, void *to, size_t new_bytes) {
    if (!ps_syscall_failed(ps_syscall6(SYS_mremap, (long)from, (long)old_bytes, (long)new_bytes,
                                       MREMAP_MAYMOVE | MREMAP_FIXED, (long)to, 0))) {
        return true;
    }
    /* A kernel that unmaps `to` before it checks `from` leaves a hole here, which another thread's
     * mapping may have filled by now. Release only addresses that can be mapped again without
     * replacing a mapping; otherwise they remain reserved, without memory. */
    long again =
        ps_syscall6(SYS_mmap, (long)to, (long)new_bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (!ps_syscall_failed(again)) {
        ps_os_release((void *)again, new_bytes); /* old kernels treat the flag as a hint */
    }
    return false;
}

void ps_os_advise_huge(void *base, size_t bytes, bool is_wanted) {
    (void)ps_syscall3(SYS_madvise, (long)base, (long)bytes,
                      is_wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

/* The pages are counted as taken now, without MAP_NORESERVE, and touched by the system. */
static void *map_huge(void *base, size_t bytes, size_t page_bytes, int flags) {
    long result =
        ps_syscall6(SYS_mmap, (long)base, (long)bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | flags | ps_hugetlb_flags(page_bytes), -1, 0);
    return ps_syscall_failed(result) ? NULL : (void *)result;
}

/* A page that was counted can be missing all the same: a control group limits what is touched
 * (hugetlb.2MB.max), and memory nodes are counted together. The system does not report it. */
static bool has_all_pages(void *base, size_t bytes) { return ps_os_resident(base, bytes) == bytes; }

void *ps_os_map_huge(size_t bytes, size_t page_bytes) {
    void *base = map_huge(NULL, bytes, page_bytes, MAP_POPULATE);
    if (base != NULL && !has_all_pages(base, bytes)) {
        ps_os_release(base, bytes);
        return NULL;
    }
    return base;
}

/*
 * Before Linux 6.12 a refused MAP_FIXED leaves a hole, which another thread's mapping may fill. So
 * the pages are first counted elsewhere. Between the two calls another process may take them; then
 * the hole is closed again, unless something is there.
 */
enum ps_os_placing ps_os_place_huge(void *base, size_t bytes, size_t page_bytes) {
    void *counted = map_huge(NULL, bytes, page_bytes, 0);
    if (counted == NULL) {
        return PS_OS_REFUSED;
    }
    if (!ps_os_release(counted, bytes)) {
        (void)ps_os_close(counted, bytes); /* the addresses are lost */
    }
    if (map_huge(base, bytes, page_bytes, MAP_FIXED | MAP_POPULATE) == NULL) {
        long again =
            ps_syscall6(SYS_mmap, (long)base, (long)bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (!ps_syscall_failed(again) && again != (long)base) { /* Linux before 4.17: a wish */
            ps_os_release((void *)again, bytes);
        }
        return again == (long)base ? PS_OS_REFUSED : PS_OS_LOST;
    }
    if (has_all_pages(base, bytes)) {
        return PS_OS_PLACED;
    }
    return ps_os_close(base, bytes) ? PS_OS_REFUSED : PS_OS_LOST;
}

bool ps_os_close(void *base, size_t bytes) {
    return !ps_syscall_failed(ps_syscall6(SYS_mmap, (long)base, (long)bytes, PROT_NONE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                                          -1, 0));
}

size_t ps_os_page_bytes(void) {
    static size_t x_bytes;
    size_t bytes = ps_load_relaxed(&x_bytes); /* relaxed, both: each thread finds the same */
    if (PS_UNLIKELY(bytes == 0)) {
        bytes = (size_t)ps_auxiliary(AT_PAGESZ);
        ps_store_relaxed(&x_bytes, bytes);
    }
    return bytes;
}

uint64_t ps_os_memory_bytes(void) {
    struct sysinfo info = {0};
    (void)ps_syscall3(SYS_sysinfo, (long)&info, 0, 0);
    return (uint64_t)info.totalram * info.mem_unit;
}

uint64_t ps_os_rss_bytes(void) {
    char text[128];
    uint64_t all_pages;
    uint64_t resident_pages;
    text[ps_file_read("/proc/self/statm", text, sizeof text - 1)] = '\0';
    const char *at = text;
    bool is_read =
        ps_file_number(&at, &all_pages) && *at++ == ' ' && ps_file_number(&at, &resident_pages);
    return is_read ? resident_pages * ps_os_page_bytes() : 0;
}

static uint64_t read_ms(void) {
    struct timespec now;
    ps_clock_read(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t ps_os_now_ms(void) {
    static struct ps_clock clock;
    return ps_clock_steady(&clock, read_ms);
}

static uint64_t read_us(void) {
    struct timespec now;
    ps_clock_read(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t ps_os_now_us(void) {
    static struct ps_clock clock;
    return ps_clock_steady(&clock, read_us);
}

uint32_t ps_os_thread_number(void) { return (uint32_t)ps_syscall3(SYS_gettid, 0, 0, 0); }

typedef int cpu_function(unsigned *cpu, unsigned *node, void *unused);

/* For vDSOs without such a function. */
static int cpu_by_call(unsigned *cpu, unsigned *node, void *unused) {
    return (int)ps_syscall3(SYS_getcpu, (long)cpu, (long)node, (long)unused);
}

/* The processor of a thread that libc has not registered. */
static PS_COLD uint32_t ask_cpu(void) {
    static cpu_function *x_found;
    unsigned cpu = 0;
    cpu_function *found = ps_load_relaxed(&x_found); /* relaxed, both: all find the same */
    if (found == NULL) {
        found = (cpu_function *)ps_auxiliary_vdso("__vdso_getcpu");
        found = found != NULL ? found : cpu_by_call;
        ps_store_relaxed(&x_found, found);
    }
    return found(&cpu, NULL, NULL) == 0 ? cpu : 0;
}

uint32_t ps_os_cpu(void) {
    ptrdiff_t area = ps_os_rseq_offset();
    const uint32_t *words = (const uint32_t *)(ps_thread_pointer() + (uintptr_t)area);
    /* relaxed: the kernel writes it, for this thread. */
    uint32_t cpu = area != 0 ? ps_load_relaxed(&words[RSEQ_CPU_INDEX]) : CPU_UNKNOWN;
    return PS_LIKELY(cpu < CPU_UNKNOWN) ? cpu : ask_cpu();
}

ptrdiff_t ps_os_rseq_offset(void) {
#if __has_include(<sys/rseq.h>) /* glibc 2.35; at run time it may be an older one */
    /* The size is 0 where the kernel has none, or a tunable forbids it. */
    return &__rseq_size != NULL && __rseq_size != 0 ? __rseq_offset : 0;
#else
    return 0;
#endif
}

uint32_t ps_os_cpus(void) {
    unsigned long mask[CPU_MASK_WORDS] = {0};
    long bytes = ps_syscall3(SYS_sched_getaffinity, 0, sizeof mask, (long)mask);
    uint32_t cpus = 0;
    for (size_t i = 0; !ps_syscall_failed(bytes) && i < CPU_MASK_WORDS; i++) {
        cpus += (uint32_t)__builtin_popcountl(mask[i]);
    }
    return cpus;
}

void ps_os_name_thread(const char *name) {
    (void)ps_syscall3(SYS_prctl, PR_SET_NAME, (long)name, 0);
}

bool ps_os_is_first_thread(void) {
    return ps_syscall3(SYS_gettid, 0, 0, 0) == ps_syscall3(SYS_getpid, 0, 0, 0);
}

bool ps_os_is_mapped(const void *address) {
    size_t page_bytes = ps_os_page_bytes();
    unsigned char in_memory[PS_PAGE_BYTES_LIMIT / MINCORE_PAGE_BYTES];
    return ps_syscall3(SYS_mincore, (long)((uintptr_t)address & ~(page_bytes - 1)),
                       (long)page_bytes, (long)in_memory) != -ENOMEM;
}

uint32_t *ps_os_word_wiped_by_fork(void) {
    size_t bytes = ps_os_page_bytes();
    char *page = map_anonymous(bytes, PROT_READ | PROT_WRITE);
    if (page != NULL &&
        ps_syscall_failed(ps_syscall3(SYS_madvise, (long)page, (long)bytes, MADV_WIPEONFORK))) {
        ps_os_release(page, bytes);
        page = NULL;
    }
    return (uint32_t *)page;
}

uint64_t ps_os_random(void) {
    uint64_t value = 0;
    long got = ps_syscall3(SYS_getrandom, (long)&value, sizeof value, GRND_NONBLOCK);
    /* Fallback: the address of the stack and the time. */
    return got == (long)sizeof value ? value
                                     : ((uintptr_t)&value ^ ps_os_now_ms() << 20) * PS_GOLDEN_64;
}

void ps_os_write(int fd, const char *text, size_t bytes) {
    while (bytes > 0) {
        long written = ps_syscall3(SYS_write, fd, (long)text, (long)bytes);
        if (written == -EINTR) {
            continue;
        }
        if (written <= 0) {
            return;
        }
        text += written;
        bytes -= (size_t)written;
    }
}

void ps_os_wait(uint32_t *word, uint32_t expected) {
    (void)ps_syscall6(SYS_futex, (long)word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, (long)expected, 0, 0,
                      0);
}

void ps_os_wait_ms(uint32_t *word, uint32_t expected, uint64_t ms) {
    struct timespec limit = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)ps_syscall6(SYS_futex, (long)word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, (long)expected,
                      (long)&limit, 0, 0);
}

void ps_os_wake_one(uint32_t *word) {
    (void)ps_syscall3(SYS_futex, (long)word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
}
