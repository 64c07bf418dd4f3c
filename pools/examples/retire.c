/* SPDX-License-Identifier: MIT */
/*
 * A configuration that one thread replaces while others read it, without a lock. Checks itself.
 */
#include <poolshim/retire.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct config {
    int version;
    int twice; /* of the version: readers see both or neither */
};

enum { READERS = 2, VERSIONS = 2000 };
static struct ps_retire *domain;
static struct config *x_current;

static struct config *new_config(int version) {
    struct config *config = malloc(sizeof *config);
    if (config == NULL) {
        abort();
    }
    *config = (struct config){version, 2 * version};
    return config;
}

static void *read_config(void *unused) {
    (void)unused;
    size_t wrong = 0;
    for (int version = 0; version < VERSIONS;) {
        if (!ps_retire_enter(domain)) {
            return (void *)1;
        }
        const struct config *config = __atomic_load_n(&x_current, __ATOMIC_ACQUIRE);
        wrong += config->twice != 2 * config->version || config->version < version;
        version = config->version;
        ps_retire_leave(domain);
    }
    return (void *)wrong;
}

int main(void) {
    struct ps_retire_options options = {.limit_items = 64, .is_waiting = true};
    domain = ps_retire_create(&options);
    if (domain == NULL) {
        return 1;
    }
    x_current = new_config(0);
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++) {
        if (pthread_create(&readers[i], NULL, read_config, NULL) != 0) {
            return 1;
        }
    }
    size_t most = 0;
    for (int version = 1; version <= VERSIONS; version++) {
        struct config *fresh = new_config(version);
        struct config *old = __atomic_exchange_n(&x_current, fresh, __ATOMIC_ACQ_REL);
        if (!ps_retire_malloc(domain, old)) {
            return 1;
        }
        struct ps_retire_stats stats;
        ps_retire_stats(domain, &stats);
        most = stats.waiting_count > most ? stats.waiting_count : most;
    }
    size_t wrong = 0;
    for (int i = 0; i < READERS; i++) {
        void *result = NULL;
        pthread_join(readers[i], &result);
        wrong += (size_t)result;
    }
    ps_retire_destroy(domain);
    free(x_current);
    printf("%zu wrong, %zu old configurations at most\n", wrong, most);
    return wrong == 0 && most <= 64 ? 0 : 1;
}
