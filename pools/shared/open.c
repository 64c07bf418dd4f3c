/* SPDX-License-Identifier: MIT */
/*
 * Makes, opens and closes shared heaps. See shared.h. A file that was there is written only if it
 * is empty, or if its first word says that a process was making a heap of it.
 */
#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"
#include "pools/shared/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <poolshim/pages.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_BYTES ((size_t)1 << 30)

const char *ps_shared_explain(enum ps_shared_status status) {
    static const char *const texts[] = {
        [PS_SHARED_OK] = "all is well",
        [PS_SHARED_SYSTEM] = "the system refused",
        [PS_SHARED_EMPTY] = "no heap has been made in the file yet",
        [PS_SHARED_FOREIGN] = "the file is not a shared heap of this machine and C library",
        [PS_SHARED_VERSION] = "the heap is of another version of the library",
        [PS_SHARED_TRUNCATED] = "the file is shorter than the heap",
        [PS_SHARED_CORRUPT] = "the header of the heap is damaged",
        [PS_SHARED_STALE] = "the heap was made before the last start of the system",
    };
    return (size_t)status < sizeof texts / sizeof *texts ? texts[status] : "unknown status";
}

static uint64_t sum_of(const void *bytes, size_t count) {
    const unsigned char *from = bytes;
    uint64_t sum = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < count; i++) {
        sum = (sum ^ from[i]) * 0x100000001b3u;
    }
    return sum;
}

static uint64_t label_sum(const struct shared_label *label) {
    const size_t from = offsetof(struct shared_label, version);
    return sum_of((const char *)label + from, offsetof(struct shared_label, sum) - from);
}

/* A fresh lock of this C library. 0: there are none that are robust and shared. */
static uint64_t lock_sum(void) {
    pthread_mutex_t lock;
    memset(&lock, 0, sizeof lock);
    int result = ps_shared_lock_init(&lock);
    if (result != 0) {
        errno = result;
        return 0;
    }
    return sum_of(&lock, sizeof lock);
}

static void read_boot(char *boot) {
    memset(boot, 0, SHARED_BOOT_BYTES);
    (void)ps_file_read("/proc/sys/kernel/random/boot_id", boot, SHARED_BOOT_BYTES - 1);
}

/* Addresses for all that the heap may grow to: pages beyond the end of the file are not touched,
 * and when the file grows they are there. */
static bool map(struct ps_shared *heap, size_t bytes) {
    int access = shared_is_reader(heap) ? PROT_READ : PROT_READ | PROT_WRITE;
    void *base = mmap(NULL, bytes, access, MAP_SHARED | MAP_NORESERVE, heap->fd, 0);
    if (base == MAP_FAILED) {
        return false;
    }
    heap->view = (struct ps_shared_view){base, bytes};
    return true;
}

/* The file is empty, or its creation was interrupted; all bytes after the first word are zero. */
static enum ps_shared_status make(struct ps_shared *heap, const struct ps_shared_options *options) {
    const size_t page = ps_os_page_bytes();
    size_t bytes = options->initial_bytes != 0 ? options->initial_bytes : PS_SHARED_LEAST_BYTES;
    size_t max_bytes = options->max_bytes != 0 ? options->max_bytes : ps_max(bytes, MAX_BYTES);
    if (bytes < PS_SHARED_LEAST_BYTES || max_bytes < bytes || max_bytes > PS_OFFSET_HEAP_LARGEST) {
        errno = EINVAL;
        return PS_SHARED_SYSTEM;
    }
    bytes = ps_round_up(bytes, page);
    max_bytes = ps_round_up(max_bytes, page);
    const uint64_t making = SHARED_MAKING;
    uint64_t sum = lock_sum();
    if (sum == 0 || ftruncate(heap->fd, 0) != 0 ||
        pwrite(heap->fd, &making, sizeof making, 0) != sizeof making ||
        fallocate(heap->fd, 0, 0, (off_t)bytes) != 0 || !map(heap, max_bytes)) {
        return PS_SHARED_SYSTEM;
    }
    struct shared_header *header = shared_header(heap);
    struct shared_label *label = &header->label;
    label->version = SHARED_VERSION;
    label->lock_sum = sum;
    label->max_bytes = max_bytes;
    read_boot(label->boot);
    label->sum = label_sum(label);
    int result = ps_shared_lock_init(&header->lock);
    if (result != 0) {
        errno = result;
        return PS_SHARED_SYSTEM;
    }
    struct ps_offset_memory memory = {heap->view.base, &header->heap, NULL};
    ps_offset_heap_format(&memory, ps_os_random(), bytes);
    /* release: pairs with load; a process that is killed before this leaves no heap. */
    ps_store_release(&label->x_magic, SHARED_MAGIC);
    return PS_SHARED_OK;
}

/* As much of the label as the file has, then zeros. */
static bool read_label(int fd, struct shared_label *label) {
    memset(label, 0, sizeof *label);
    ssize_t got;
    do { /* ends with the signals */
        got = pread(fd, label, sizeof *label, 0);
    } while (got < 0 && errno == EINTR);
    return got >= 0;
}

static enum ps_shared_status label_fault(const struct shared_label *label, uint64_t bytes) {
    char boot[SHARED_BOOT_BYTES];
    if (label->x_magic != SHARED_MAGIC) {
        return bytes == 0 || label->x_magic == SHARED_MAKING ? PS_SHARED_EMPTY : PS_SHARED_FOREIGN;
    }
    if (label->version != SHARED_VERSION) {
        return PS_SHARED_VERSION;
    }
    if (bytes < PS_SHARED_LEAST_BYTES) {
        return PS_SHARED_TRUNCATED;
    }
    if (label->sum != label_sum(label)) {
        return PS_SHARED_CORRUPT;
    }
    uint64_t sum = lock_sum();
    if (sum == 0) {
        return PS_SHARED_SYSTEM;
    }
    read_boot(boot);
    return label->lock_sum != sum                        ? PS_SHARED_FOREIGN
           : memcmp(boot, label->boot, sizeof boot) != 0 ? PS_SHARED_STALE
                                                         : PS_SHARED_OK;
}

/* A heap that is there. */
static enum ps_shared_status load(struct ps_shared *heap) {
    struct stat file;
    struct shared_label label;
    if (fstat(heap->fd, &file) != 0 || !read_label(heap->fd, &label)) {
        return PS_SHARED_SYSTEM;
    }
    enum ps_shared_status status = label_fault(&label, (uint64_t)file.st_size);
    if (status != PS_SHARED_OK) {
        return status;
    }
    if (!map(heap, label.max_bytes)) {
        return PS_SHARED_SYSTEM;
    }
    /* relaxed: an older length is a length, too. The file may have grown since it was asked. */
    uint64_t end = ps_load_relaxed(&shared_header(heap)->heap.end);
    if (end < sizeof(struct shared_header) || end > label.max_bytes || end % PS_FIT_HEAD != 0) {
        return PS_SHARED_CORRUPT;
    }
    if (fstat(heap->fd, &file) != 0) {
        return PS_SHARED_SYSTEM;
    }
    return (uint64_t)file.st_size < end + PS_FIT_HEAD ? PS_SHARED_TRUNCATED : PS_SHARED_OK;
}

/* Excludes processes that make a heap of the file. The lock ends with the open file. Far beyond the
 * end of any heap, so that the program may have locks of its own. */
static bool lock_file(int fd, short type) {
    struct flock request = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)1 << 61, .l_len = 1};
    int result;
    do { /* ends with the signals */
        result = fcntl(fd, F_OFD_SETLKW, &request);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

static enum ps_shared_status open_all(struct ps_shared *heap,
                                      const struct ps_shared_options *options) {
    struct stat file;
    if (fstat(heap->fd, &file) != 0) {
        return PS_SHARED_SYSTEM;
    }
    if (!S_ISREG(file.st_mode)) {
        return PS_SHARED_FOREIGN;
    }
    bool is_creator = (heap->flags & PS_SHARED_CREATE) != 0;
    if (!lock_file(heap->fd, is_creator ? F_WRLCK : F_RDLCK)) {
        return PS_SHARED_SYSTEM;
    }
    enum ps_shared_status status = load(heap);
    if (status == PS_SHARED_EMPTY && is_creator) {
        status = make(heap, options);
    }
    int saved_errno = errno;
    (void)lock_file(heap->fd, F_UNLCK);
    errno = saved_errno;
    return status;
}

void ps_shared_close(struct ps_shared *heap) {
    if (heap == NULL) {
        return;
    }
    int saved_errno = errno;
    if (heap->view.base != NULL) {
        (void)munmap(heap->view.base, heap->view.bytes); /* refused: the mapping is leaked */
    }
    close(heap->fd);
    struct ps_chunks chunks = heap->chunks;
    ps_chunk_give(&chunks, heap, sizeof *heap);
    errno = saved_errno;
}

/* Takes fd, which is -1 with errno if there is none. */
static enum ps_shared_status open_taken(struct ps_shared **result, int fd, unsigned flags,
                                        const struct ps_shared_options *options) {
    static const struct ps_shared_options none;
    options = options != NULL ? options : &none;
    struct ps_chunks chunks;
    ps_chunks_init(&chunks, &options->chunks, "shared", PS_PAGE_BYTES, PS_PAGE_BYTES);
    struct ps_shared *heap =
        fd < 0 ? NULL : ps_chunk_take_exact(&chunks, sizeof *heap, PS_ALIGN_DEFAULT);
    if (heap == NULL) {
        int saved_errno = errno;
        if (fd >= 0) {
            close(fd);
        }
        errno = saved_errno;
        return PS_SHARED_SYSTEM;
    }
    *heap = (struct ps_shared){.flags = flags, .fd = fd, .chunks = chunks};
    enum ps_shared_status status = open_all(heap, options);
    if (status != PS_SHARED_OK) {
        ps_shared_close(heap);
        return status;
    }
    *result = heap;
    return PS_SHARED_OK;
}

static bool are_flags(unsigned flags) {
    const unsigned both = PS_SHARED_CREATE | PS_SHARED_READ;
    if ((flags & ~both) != 0 || flags == both) {
        errno = EINVAL;
        return false;
    }
    return true;
}

enum ps_shared_status ps_shared_open(struct ps_shared **heap, const char *path, unsigned flags,
                                     const struct ps_shared_options *options) {
    *heap = NULL;
    if (!are_flags(flags)) {
        return PS_SHARED_SYSTEM;
    }
    int access = (flags & PS_SHARED_READ) != 0     ? O_RDONLY
                 : (flags & PS_SHARED_CREATE) != 0 ? O_RDWR | O_CREAT
                                                   : O_RDWR;
    int fd = open(path, access | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (fd < 0 && errno == EISDIR) {
        return PS_SHARED_FOREIGN;
    }
    return open_taken(heap, fd, flags, options);
}

enum ps_shared_status ps_shared_open_fd(struct ps_shared **heap, int fd, unsigned flags,
                                        const struct ps_shared_options *options) {
    *heap = NULL;
    if (!are_flags(flags)) {
        return PS_SHARED_SYSTEM;
    }
    return open_taken(heap, fcntl(fd, F_DUPFD_CLOEXEC, 0), flags, options);
}
