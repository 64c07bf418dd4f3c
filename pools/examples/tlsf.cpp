/* SPDX-License-Identifier: MIT */
/*
 * A controller allocates its jobs in a fixed buffer: any size, bounded time, and no leaks.
 */
#include <poolshim/tlsf.hpp>

#include <cstdio>

struct job {
    job(int deadline_ms, job *next) : deadline_ms(deadline_ms), next(next) {}
    int deadline_ms;
    job *next;
};

alignas(16) static std::byte memory[64 << 10];

int main() {
    ps::tlsf pool(memory, sizeof memory);
    job *jobs = nullptr;
    for (int deadline_ms = 0; deadline_ms < 100; deadline_ms++) {
        jobs = pool.create<job>(deadline_ms, jobs);
    }
    int sum = 0;
    while (jobs != nullptr) {
        job *next = jobs->next;
        sum += jobs->deadline_ms;
        pool.destroy(jobs);
        jobs = next;
    }
    std::printf("%d\n", sum);
    return sum == 4950 && pool.stats().used_count == 0 ? 0 : 1;
}
