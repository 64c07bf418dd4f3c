// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * gperftools' MallocExtension, in C and as a class, as its header declares them: results and
 * invariants that are the same in libtcmalloc, with which tests/shim/test_tcmalloc.py runs it, too.
 */
#include "claim.h"

#include <malloc.h>
#include <string>
#include <thread>
#include <vector>

#define WEAK __attribute__((weak))

class MallocExtension {
  public:
    virtual ~MallocExtension();
    virtual bool VerifyAllMemory();
    virtual bool VerifyNewMemory(const void *);
    virtual bool VerifyArrayNewMemory(const void *);
    virtual bool VerifyMallocMemory(const void *);
    virtual bool MallocMemoryStats(int *, size_t *, int *);
    virtual void GetStats(char *, int);
    virtual void GetHeapSample(std::string *);
    virtual void GetHeapGrowthStacks(std::string *);
    virtual void Ranges(void *, void (*)(void *, const void *));
    virtual bool GetNumericProperty(const char *, size_t *);
    virtual bool SetNumericProperty(const char *, size_t);
    virtual void MarkThreadIdle();
    virtual void MarkThreadBusy();
    virtual void *GetSystemAllocator();
    virtual void SetSystemAllocator(void *);
    virtual void ReleaseToSystem(size_t);
    virtual void ReleaseFreeMemory();
    virtual void SetMemoryReleaseRate(double);
    virtual double GetMemoryReleaseRate();
    virtual size_t GetEstimatedAllocatedSize(size_t);
    virtual size_t GetAllocatedSize(const void *);
    virtual int GetOwnership(const void *);
    struct FreeListInfo {
        size_t least;
        size_t most;
        size_t free;
        const char *type;
    };
    virtual void GetFreeListSizes(std::vector<FreeListInfo> *);
    virtual void **ReadStackTraces(int *);
    virtual void **ReadHeapGrowthStackTraces();
    virtual size_t GetThreadCacheSize();
    virtual void MarkThreadTemporarilyIdle();
    static MallocExtension *instance() WEAK;
};

extern "C" {
int MallocExtension_VerifyAllMemory() WEAK;
int MallocExtension_VerifyNewMemory(const void *) WEAK;
int MallocExtension_VerifyArrayNewMemory(const void *) WEAK;
int MallocExtension_VerifyMallocMemory(const void *) WEAK;
int MallocExtension_MallocMemoryStats(int *, size_t *, int *) WEAK;
void MallocExtension_GetStats(char *, int) WEAK;
int MallocExtension_GetNumericProperty(const char *, size_t *) WEAK;
int MallocExtension_SetNumericProperty(const char *, size_t) WEAK;
void MallocExtension_MarkThreadIdle() WEAK;
void MallocExtension_MarkThreadBusy() WEAK;
void MallocExtension_MarkThreadTemporarilyIdle() WEAK;
void MallocExtension_ReleaseToSystem(size_t) WEAK;
void MallocExtension_ReleaseFreeMemory() WEAK;
size_t MallocExtension_GetEstimatedAllocatedSize(size_t) WEAK;
size_t MallocExtension_GetAllocatedSize(const void *) WEAK;
size_t MallocExtension_GetThreadCacheSize() WEAK;
int MallocExtension_GetOwnership(const void *) WEAK;
}

enum { OWNED = 1, NOT_OWNED = 2 };

static MallocExtension *extension() { return MallocExtension::instance(); }

/* The value by the class, which is that in C. */
static size_t property(const char *name) {
    size_t value = 1;
    size_t same = 2;
    CLAIM(extension()->GetNumericProperty(name, &value));
    CLAIM(MallocExtension_GetNumericProperty(name, &same) == 1 && same == value);
    return value;
}

static void sizes_and_owners() {
    char on_stack[64];
    void *block = claim_hide(malloc(1000));
    CLAIM(extension()->GetOwnership(block) == OWNED &&
          MallocExtension_GetOwnership(block) == OWNED);
    CLAIM(extension()->GetOwnership(on_stack) == NOT_OWNED);
    CLAIM(MallocExtension_GetOwnership(nullptr) == NOT_OWNED);
    CLAIM(MallocExtension_GetOwnership((void *)&property) == NOT_OWNED);
    CLAIM(MallocExtension_GetAllocatedSize(nullptr) == 0);
    free(block);
    for (size_t size = 0; size < 4000000; size += 1 + size / 7) {
        block = claim_hide(malloc(size));
        size_t usable = extension()->GetAllocatedSize(block);
        CLAIM(usable == MallocExtension_GetAllocatedSize(block) &&
              usable == malloc_usable_size(block));
        CLAIM(usable >= extension()->GetEstimatedAllocatedSize(size));
        CLAIM(MallocExtension_GetEstimatedAllocatedSize(size) >= size);
        CLAIM(MallocExtension_GetOwnership(block) == OWNED);
        free(block);
    }
}

static void checks_find_nothing() {
    void *block = claim_hide(malloc(10));
    CLAIM(extension()->VerifyAllMemory() && MallocExtension_VerifyAllMemory() == 1);
    CLAIM(extension()->VerifyMallocMemory(block));
    CLAIM(MallocExtension_VerifyMallocMemory(block) == 1);
    CLAIM(MallocExtension_VerifyNewMemory(nullptr) == 1);
    CLAIM(MallocExtension_VerifyArrayNewMemory(nullptr) == 1);
    free(block);
}

static void properties_follow_the_heap() {
    static const char allocated[] = "generic.current_allocated_bytes";
    size_t before = property(allocated);
    free(claim_hide(malloc(200)));
    CLAIM(property(allocated) == before);
    void *small = claim_hide(malloc(5000));
    void *large = claim_hide(malloc(50000000));
    CLAIM(property(allocated) >= before + 50005000);
    CLAIM(property(allocated) <= before + 51000000);
    CLAIM(property("generic.heap_size") == property(allocated) +
                                               property("tcmalloc.thread_cache_free_bytes") +
                                               property("tcmalloc.transfer_cache_free_bytes") +
                                               property("tcmalloc.central_cache_free_bytes") +
                                               property("tcmalloc.pageheap_free_bytes") +
                                               property("tcmalloc.pageheap_unmapped_bytes"));
    CLAIM(property("tcmalloc.slack_bytes") ==
          property("tcmalloc.pageheap_free_bytes") + property("tcmalloc.pageheap_unmapped_bytes"));
    CLAIM(property("tcmalloc.pageheap_committed_bytes") ==
          property("tcmalloc.pageheap_total_commit_bytes") -
              property("tcmalloc.pageheap_total_decommit_bytes"));
    CLAIM(property("generic.total_physical_bytes") >= property(allocated));
    CLAIM(property("tcmalloc.pageheap_reserve_count") > 0);
    CLAIM(property("tcmalloc.pageheap_commit_count") > 0);
    CLAIM(property("tcmalloc.pageheap_total_reserve_bytes") >= property(allocated));
    CLAIM(property("tcmalloc.pageheap_scavenge_count") <=
          property("tcmalloc.pageheap_decommit_count"));
    free(small);
    free(large);
    CLAIM(property(allocated) == before);
    size_t value = 77;
    for (const char *name : {"", "generic", "generic.heap_sizes", "tcmalloc.cpu_free"}) {
        CLAIM(!extension()->GetNumericProperty(name, &value) && value == 77);
        CLAIM(MallocExtension_SetNumericProperty(name, 1) == 0);
    }
    CLAIM(!extension()->SetNumericProperty("generic.heap_size", 1));
}

/* What is set is read again, within gperftools' bounds. */
static void settings() {
    static const char cache[] = "tcmalloc.max_total_thread_cache_bytes";
    static const char decommit[] = "tcmalloc.aggressive_memory_decommit";
    static const char limit[] = "tcmalloc.heap_limit_mb";
    CLAIM(property(cache) > 0 && property(decommit) == 0 && property(limit) == 0);
    for (size_t bytes : {(size_t)0, (size_t)1 << 20, (size_t)1 << 40, (size_t)32 << 20}) {
        CLAIM(extension()->SetNumericProperty(cache, bytes));
        size_t least = (size_t)512 << 10;
        size_t most = (size_t)1 << 30;
        CLAIM(property(cache) == (bytes < least ? least : bytes > most ? most : bytes));
    }
    CLAIM(MallocExtension_SetNumericProperty(decommit, 7) == 1 && property(decommit) == 1);
    CLAIM(MallocExtension_SetNumericProperty(decommit, 0) == 1 && property(decommit) == 0);
    CLAIM(MallocExtension_SetNumericProperty(limit, 100000) == 1 && property(limit) == 100000);
    CLAIM(MallocExtension_SetNumericProperty(limit, 0) == 1 && property(limit) == 0);
    CLAIM(extension()->GetMemoryReleaseRate() == 1);
    extension()->SetMemoryReleaseRate(0);
    CLAIM(extension()->GetMemoryReleaseRate() == 0);
    extension()->SetMemoryReleaseRate(2.5);
    CLAIM(extension()->GetMemoryReleaseRate() == 2.5);
    extension()->SetMemoryReleaseRate(0); /* nothing is released meanwhile */
}

/* At least what was asked for, and less later where it was more. */
static void release() {
    static const char unmapped[] = "tcmalloc.pageheap_unmapped_bytes";
    const size_t mib = (size_t)1 << 20;
    void *one = claim_hide(malloc(mib));
    void *other = claim_hide(malloc(mib));
    extension()->ReleaseFreeMemory();
    size_t start = property(unmapped);
    extension()->ReleaseFreeMemory();
    extension()->ReleaseToSystem(mib);
    CLAIM(property(unmapped) == start);
    free(one);
    MallocExtension_ReleaseToSystem(mib / 2);
    CLAIM(property(unmapped) == start + mib);
    extension()->ReleaseToSystem(mib / 4);
    CLAIM(property(unmapped) == start + mib);
    free(other);
    extension()->ReleaseToSystem(mib / 2);
    CLAIM(property(unmapped) == start + 2 * mib);
    MallocExtension_ReleaseFreeMemory();
    CLAIM(property(unmapped) == start + 2 * mib);
    free(claim_hide(malloc(mib)));
    CLAIM(property(unmapped) == start + mib);
    extension()->ReleaseToSystem(1);
    CLAIM(property(unmapped) == start + 2 * mib);
}

static void use_heap() {
    static thread_local void *blocks[100];
    for (size_t size = 8; size <= 65536; size *= 2) {
        for (void *&block : blocks) {
            block = claim_hide(malloc(size));
        }
        for (void *block : blocks) {
            free(block);
        }
    }
}

static void idle_threads_have_no_cache() {
    static const char all[] = "tcmalloc.current_total_thread_cache_bytes";
    extension()->MarkThreadIdle();
    extension()->MarkThreadIdle();
    size_t before = property(all);
    CLAIM(extension()->GetThreadCacheSize() == 0 && MallocExtension_GetThreadCacheSize() == 0);
    MallocExtension_MarkThreadBusy();
    use_heap();
    CLAIM(property(all) > before);
    CLAIM(extension()->GetThreadCacheSize() > 0);
    CLAIM(extension()->GetThreadCacheSize() == MallocExtension_GetThreadCacheSize());
    extension()->MarkThreadIdle();
    CLAIM(property(all) <= before);
    CLAIM(extension()->GetThreadCacheSize() == 0);
    use_heap();
    MallocExtension_MarkThreadTemporarilyIdle();
    CLAIM(MallocExtension_GetThreadCacheSize() == 0);
    extension()->MarkThreadBusy();
}

/* The free blocks of several sizes that threads share are within the bound that is set. */
static void caches_are_bounded() {
    static thread_local void *blocks[200];
    static const char most[] = "tcmalloc.max_total_thread_cache_bytes";
    CLAIM(extension()->SetNumericProperty(most, 0));
    for (size_t size = 400; size <= 200000; size += size / 2) {
        for (void *&block : blocks) {
            block = claim_hide(malloc(size));
        }
        for (void *block : blocks) {
            free(block);
        }
    }
    size_t bytes = property("tcmalloc.transfer_cache_free_bytes");
    CLAIM(bytes > 0 || !claim_is_shimmed());
    CLAIM(bytes <= property(most) || !claim_is_shimmed());
    CLAIM(extension()->SetNumericProperty(most, (size_t)32 << 20));
}

/* The number after a label of the report. */
static size_t reported(const char *text, const char *label) {
    const char *at = strstr(text, label);
    CLAIM(at != nullptr);
    while (at > text && at[-1] != '\n') {
        at--;
    }
    at += strcspn(at, "0123456789");
    return strtoull(at, nullptr, 10);
}

static void texts() {
    static char large[40000];
    char small[100];
    char one[1] = {'x'};
    memset(large, 1, sizeof large);
    MallocExtension_GetStats(large, sizeof large);
    CLAIM(reported(large, "Bytes in use by application") > 0);
    CLAIM(reported(large, "Actual memory used (physical + swap)") ==
          reported(large, "Bytes in use by application") +
              reported(large, "Bytes in page heap freelist") +
              reported(large, "Bytes in central cache freelist") +
              reported(large, "Bytes in transfer cache freelist") +
              reported(large, "Bytes in thread cache freelists") +
              reported(large, "Bytes in malloc metadata"));
    CLAIM(reported(large, "Virtual address space used") ==
          reported(large, "Actual memory used") + reported(large, "Bytes released to OS"));
    CLAIM(reported(large, "Tcmalloc page size") == 8192);
    CLAIM(strstr(large, "\nclass ") != nullptr);
    extension()->GetStats(small, sizeof small);
    CLAIM(strlen(small) == sizeof small - 1 && memcmp(small, large, 50) == 0);
    extension()->GetStats(one, 1);
    CLAIM(one[0] == '\0');
    std::string sample = "before:";
    extension()->GetHeapSample(&sample);
    CLAIM(sample.compare(0, 7, "before:") == 0);
    CLAIM(sample.find("heap profile: ") != std::string::npos);
    CLAIM(sample.find(" @ heap_v2/") != std::string::npos);
    CLAIM(sample.find("\nMAPPED_LIBRARIES:\n") != std::string::npos);
    CLAIM(sample.find("/malloc_extension") != std::string::npos);
    std::string growth;
    extension()->GetHeapGrowthStacks(&growth);
    CLAIM(!growth.empty() && growth.back() == '\n');
}

static void lists() {
    std::vector<MallocExtension::FreeListInfo> found;
    for (int round = 0; round < 2; round++) {
        extension()->GetFreeListSizes(&found);
        size_t central = 0;
        size_t last = 0;
        for (const auto &list : found) {
            CLAIM(list.least <= list.most && strncmp(list.type, "tcmalloc.", 9) == 0);
            if (strcmp(list.type, "tcmalloc.central") == 0) {
                CLAIM(list.least == last + 1);
                last = list.most;
                central++;
            }
        }
        CLAIM(central > 20 && last > 4096);
    }
    int period = -1;
    void **stacks = extension()->ReadStackTraces(&period);
    CLAIM(stacks != nullptr && stacks[0] == nullptr && period == 0);
    delete[] stacks;
    int blocks = -1;
    size_t total = 1;
    int histogram[64];
    CLAIM(extension()->MallocMemoryStats(&blocks, &total, histogram));
    long sum = 0;
    for (int count : histogram) {
        sum += count;
    }
    CLAIM(sum == blocks && blocks >= 0 && (blocks == 0) == (total == 0));
    CLAIM(blocks > 0 || !claim_is_shimmed());
}

int main() {
    if (&MallocExtension::instance == nullptr) {
        claim_skip("no MallocExtension here");
    }
    extension()->SetMemoryReleaseRate(1);
    sizes_and_owners();
    checks_find_nothing();
    properties_follow_the_heap();
    settings();
    release();
    std::thread(caches_are_bounded).join();
    std::thread(idle_threads_have_no_cache).join();
    texts();
    lists();
    return 0;
}
