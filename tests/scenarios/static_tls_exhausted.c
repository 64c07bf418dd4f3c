// expect: exit 0
// lib: static_tls_user.c
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * Libraries with thread-local words of the initial-exec model are loaded, as copies, until the room
 * that libc reserves for them is used up and dlopen fails, cleanly; the heap of this thread and of
 * new ones continues to work. Under the shim as many fit as without: what it needs was set aside at
 * start.
 */
#include "claim.h"
#include "heap_use.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

#define COPIES_MAX 400

static void *live(void *unused) {
    (void)unused;
    CLAIM(heap_use());
    return NULL;
}

static void copy_library(const char *from, const char *to) {
    char buffer[65536];
    int in = open(from, O_RDONLY);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    CLAIM(in >= 0 && out >= 0);
    for (ssize_t got; (got = read(in, buffer, sizeof buffer)) > 0;) {
        CLAIM(write(out, buffer, (size_t)got) == got);
    }
    close(in);
    close(out);
}

static int load_copies(const char *library) {
    char folder[] = "/tmp/poolshim-tls-XXXXXX";
    char path[128];
    int loaded = 0;
    CLAIM(mkdtemp(folder) != NULL);
    for (; loaded < COPIES_MAX; loaded++) {
        snprintf(path, sizeof path, "%s/lib%d.so", folder, loaded);
        copy_library(library, path);
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        const char *error = handle == NULL ? dlerror() : NULL;
        unlink(path);
        if (handle == NULL) {
            CLAIM(strstr(error, "static TLS") != NULL);
            break;
        }
        int (*answer)(void) = (int (*)(void))dlsym(handle, "static_tls_user_answer");
        CLAIM(answer != NULL && answer() == 42);
    }
    rmdir(folder);
    return loaded;
}

/* How many fit in the same program without the shim. */
static int copies_that_fit_in_libc(void) {
    FILE *other = popen("LD_PRELOAD= /proc/$PPID/exe count", "r");
    int count = 0;
    CLAIM(other != NULL && fscanf(other, "%d", &count) == 1);
    CLAIM(pclose(other) == 0);
    return count;
}

int main(int count, char **words) {
    char path[4096];
    claim_library_path(path, sizeof path, "static_tls_user");
    if (count > 1 && strcmp(words[1], "count") == 0) {
        printf("%d\n", load_copies(path));
        return 0;
    }
    int wanted = copies_that_fit_in_libc();
    int loaded = load_copies(path);
    CLAIM(loaded > 2 && loaded < COPIES_MAX && loaded >= wanted - 1);
    CLAIM(heap_use());
    for (int round = 0; round < 20; round++) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) {
            CLAIM(pthread_create(&threads[i], NULL, live, NULL) == 0);
        }
        for (int i = 0; i < 4; i++) {
            CLAIM(pthread_join(threads[i], NULL) == 0);
        }
    }
    printf("copies: %d, without the shim %d\n", loaded, wanted);
    return 0;
}
