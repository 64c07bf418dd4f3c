/* SPDX-License-Identifier: MIT */
/*
 * The OS contract (pools/engine/os/os.h) for tests: real memory, but calls fail on
 * request, only the test advances the clock, and everything is counted. Linked before the
 * core, whose own body is then left out. Calls may come from any thread; the controls below are for
 * a moment when no other thread runs.
 */
#ifndef PS_TESTS_UNIT_FAKE_OS_H
#define PS_TESTS_UNIT_FAKE_OS_H

#include "pools/engine/os/os.h"

/* The calls that may fail. */
enum fake_os_call {
    FAKE_OS_RESERVE,
    FAKE_OS_RELEASE,
    FAKE_OS_PURGE,
    FAKE_OS_RESIZE,
    FAKE_OS_MOVE,
    FAKE_OS_PROTECT,
    FAKE_OS_HUGE, /* maps or places huge pages that are set aside */
    FAKE_OS_CLOSE,
    FAKE_OS_CALL_COUNT,
};

#define FAKE_OS_BIT(call) (1u << (call))
#define FAKE_OS_ALL (FAKE_OS_BIT(FAKE_OS_CALL_COUNT) - 1)

/* The nth call from now fails, once, whatever it is; 0: none. */
void fake_os_fail_nth(uint64_t nth);

/* Like fake_os_fail_nth, but all later calls fail, too. */
void fake_os_fail_from(uint64_t nth);

/* True when the call that fake_os_fail_nth names has failed. */
bool fake_os_has_failed(void);

/* Calls of these kinds (bits) fail from now on; 0: none. */
void fake_os_refuse(unsigned kinds);

/* Reservations longer than this fail from now on; SIZE_MAX: none. */
void fake_os_limit_reserve(size_t bytes);

/* Making more than this accessible at once fails from now on; SIZE_MAX: never. */
void fake_os_limit_open(size_t bytes);

/* The next reservation lies there, or fails when the addresses are taken; NULL: anywhere. */
void fake_os_place_next(void *base);

/* The page size that the engine reads, at least the real one; before its first call. */
void fake_os_set_page_bytes(size_t bytes);

/* Calls so far whose range was not of whole pages of that size: a real system refuses them. */
uint64_t fake_os_breaches(void);

/* Huge pages that the system has set aside, none at first: ordinary ones play them. Taking more
 * fails. */
void fake_os_set_huge_pages(size_t count, size_t page_bytes);

/* Those that are not taken. */
size_t fake_os_huge_pages_free(void);

/* The next placing fails, and its addresses are lost. */
void fake_os_lose_next(void);

/* The clock starts at 1000000 ms. */
void fake_os_set_ms(uint64_t now_ms);
void fake_os_advance_ms(uint64_t ms);

/* The processor that all threads run on; 0 at first. */
void fake_os_set_cpu(uint32_t cpu);

/* What the process has in memory, and the machine. */
void fake_os_set_rss_bytes(uint64_t bytes);
void fake_os_set_memory_bytes(uint64_t bytes);

/* Readings of the former so far. */
uint64_t fake_os_rss_readings(void);

/* Calls of a kind so far, failed ones included. */
uint64_t fake_os_calls(enum fake_os_call kind);

/* Bytes reserved and not released: address space that the engine must be able to account for. */
uint64_t fake_os_mapped_bytes(void);

/* Bytes whose memory was dropped by purging so far. */
uint64_t fake_os_purged_bytes(void);

#endif
