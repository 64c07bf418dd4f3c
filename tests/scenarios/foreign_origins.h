/* SPDX-License-Identifier: MIT */
/*
 * Pointers of every origin that is not the shim's, each given to every call that takes a block, in
 * a child of its own: what it prints and how it ends is compared to the letter. For the scenarios
 * of the three policies; one thread.
 */
#ifndef PS_TESTS_FOREIGN_ORIGINS_H
#define PS_TESTS_FOREIGN_ORIGINS_H

#include "claim.h"
#include "heap_use.h"

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define ORIGINS_MAX 64

struct origin {
    const char *name;
    void *pointer;
};

static struct origin origins[ORIGINS_MAX];
static int origin_count;
static char origin_static[256];
extern char **environ;

static void add_origin(const char *name, const void *pointer) {
    CLAIM(origin_count < ORIGINS_MAX && pointer != NULL);
    origins[origin_count++] = (struct origin){name, claim_hide((void *)(uintptr_t)pointer)};
}

static void add_number(const char *name, uintptr_t number) {
    add_origin(name, (const void *)number);
}

/* What ld.so and libc made before any preloaded library had its say. */
static void add_loader_origins(void) {
    struct link_map *map = NULL;
    void *self = dlopen(NULL, RTLD_NOW);
    CLAIM(self != NULL && dlinfo(self, RTLD_DI_LINKMAP, &map) == 0);
    add_origin("the program's link map", map);
    add_origin("a library's link map", map->l_next->l_next);
    add_origin("a library's name", map->l_next->l_next->l_name);
    add_origin("a word of libc's static TLS", &errno);
    add_origin("the thread's control block", __builtin_thread_pointer());
    add_origin("a string of the environment", environ[0]);
    add_origin("the environment", environ);
    add_origin("the program's name", program_invocation_name);
    add_origin("the vDSO or its neighbour", (char *)map->l_next->l_addr + 64);
}

/* Live blocks of other allocators, among them those of a second libc. */
static void add_allocator_origins(void) {
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *second = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    void *(*libc_malloc)(size_t) = (void *(*)(size_t))dlsym(libc, "malloc");
    CLAIM(libc_malloc != NULL && libc_malloc != malloc);
    add_origin("a small block of libc", libc_malloc(40));
    add_origin("a mapped block of libc", libc_malloc((size_t)1 << 20));
    if (second != NULL) { /* libc may refuse a second one where static TLS is short */
        void *(*second_malloc)(size_t) = (void *(*)(size_t))dlsym(second, "malloc");
        CLAIM(second_malloc != NULL);
        add_origin("a block of a second libc", second_malloc(40));
    }
    void *top = sbrk(65536);
    CLAIM(top != (void *)-1);
    add_origin("memory from sbrk", (char *)top + 64);
}

static void add_mapping_origins(void) {
    size_t bytes = (size_t)1 << 20;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *usable = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    char *barred = mmap(NULL, bytes, PROT_NONE, flags, -1, 0);
    char *gone = mmap(NULL, bytes, PROT_READ, flags, -1, 0);
    CLAIM(usable != MAP_FAILED && barred != MAP_FAILED && gone != MAP_FAILED);
    CLAIM(munmap(gone, bytes) == 0);
    add_origin("a mapping's start", usable);
    add_origin("a custom allocator's block", usable + 4096 + 16);
    add_origin("a misaligned address", usable + 4097);
    add_origin("a page without access", barred + 32);
    add_origin("an unmapped page", gone + 32);
}

static void add_other_origins(char *room) {
    add_origin("the stack", room + 16);
    add_origin("a misaligned address of the stack", room + 3);
    add_origin("static memory", origin_static + 128);
    add_origin("code", (const void *)(uintptr_t)add_other_origins);
    add_origin("read-only data", "some words in no block");
    add_origin("a function of the shim", (const void *)(uintptr_t)malloc);
    add_number("one", 1);
    add_number("a small number", 0x10);
    add_number("the first page's end", 0xfff);
    add_number("the last user address", 0x7fffffffeff0);
    add_number("the hole after it", 0x800000000000);
    add_number("not canonical", 0xdead00000000beb0);
    add_number("not canonical, top clear", 0x0001000000000010);
    add_number("kernel half's first", 0xffff800000000000);
    add_number("kernel half", 0xffff888012345670);
    add_number("the vsyscall page", 0xffffffffff600000);
    add_number("the last but one word", UINTPTR_MAX - 15);
    add_number("the last byte", UINTPTR_MAX);
}

static void collect_origins(char *room) {
    if (!claim_is_shimmed()) {
        claim_skip("only the shim knows POOLSHIM_FOREIGN");
    }
    free(claim_hide(malloc(64)));
    add_loader_origins();
    add_allocator_origins();
    add_mapping_origins();
    add_other_origins(room);
}

typedef void delete_function(void *);
typedef void delete_sized_function(void *, size_t);
typedef void delete_aligned_function(void *, size_t, size_t);

static void *shim_symbol(const char *name) {
    void *symbol = dlsym(RTLD_DEFAULT, name);
    CLAIM(symbol != NULL);
    return symbol;
}

#define OPERATIONS 12

/* Does one call and returns the words with which the shim must name it. */
static const char *misuse(int operation, void *foreign, int is_done) {
    static const char freed[] = "free of foreign pointer";
    static const char resized[] = "realloc of foreign pointer";
    static const char *const words[OPERATIONS] = {
        freed, resized, resized, "size of foreign pointer", freed, freed, freed, freed, freed,
        freed, freed,   freed};
    if (!is_done) {
        return words[operation];
    }
    switch (operation) {
    case 0:
        free(foreign);
        break;
    case 1:
        CLAIM(realloc(foreign, 1000) == NULL && errno == ENOMEM);
        break;
    case 2:
        CLAIM(reallocarray(foreign, 10, 3) == NULL && errno == ENOMEM);
        break;
    case 3:
        CLAIM(malloc_usable_size(foreign) == 0);
        break;
    case 4:
        CLAIM(realloc(foreign, 0) == NULL);
        break;
    case 5:
        ((delete_function *)shim_symbol("cfree"))(foreign);
        break;
    case 6:
        ((delete_sized_function *)shim_symbol("free_sized"))(foreign, 40);
        break;
    case 7:
        ((delete_aligned_function *)shim_symbol("free_aligned_sized"))(foreign, 16, 40);
        break;
    case 8:
        ((delete_function *)shim_symbol("_ZdlPv"))(foreign);
        break;
    case 9:
        ((delete_sized_function *)shim_symbol("_ZdlPvm"))(foreign, 40);
        break;
    case 10:
        ((delete_sized_function *)shim_symbol("_ZdaPvSt11align_val_t"))(foreign, 64);
        break;
    default:
        ((delete_aligned_function *)shim_symbol("_ZdaPvmSt11align_val_t"))(foreign, 40, 64);
        break;
    }
    return words[operation];
}

/* Runs the call in a child with its stderr in `text`; the child's status. */
static int misuse_in_child(int operation, void *foreign, char *text, size_t capacity) {
    int ends[2];
    int status = 0;
    size_t length = 0;
    CLAIM(pipe(ends) == 0);
    pid_t child = fork();
    CLAIM(child >= 0);
    if (child == 0) {
        dup2(ends[1], 2);
        slowness_alarm(20);
        errno = 0;
        misuse(operation, foreign, 1);
        CLAIM(operation != 0 || heap_use());
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], text + length, capacity - 1 - length)) > 0;) {
        length += (size_t)got;
    }
    text[length] = '\0';
    close(ends[0]);
    CLAIM(waitpid(child, &status, 0) == child);
    return status;
}

/* Every origin to every call: each must end with `signal` (0: well) after its line, or none. */
__attribute__((unused)) static void misuse_all(int signal, int has_line) {
    char text[4096];
    char line[256];
    int calls = 0;
    for (int i = 0; i < origin_count; i++) {
        for (int operation = 0; operation < OPERATIONS; operation++, calls++) {
            void *foreign = origins[i].pointer;
            int status = misuse_in_child(operation, foreign, text, sizeof text);
            snprintf(line, sizeof line, "poolshim: %s %p\n", misuse(operation, foreign, 0),
                     foreign);
            int is_right = signal == 0 ? WIFEXITED(status) && WEXITSTATUS(status) == 0
                                       : WIFSIGNALED(status) && WTERMSIG(status) == signal;
            if (!is_right || strcmp(text, has_line ? line : "") != 0) {
                dprintf(2, "%s, call %d: status 0x%x, wanted signal %d and <%s>, got <%s>\n",
                        origins[i].name, operation, status, signal, has_line ? line : "", text);
                _exit(1);
            }
        }
    }
    printf("origins: %d, calls: %d\n", origin_count, calls);
}

#endif
