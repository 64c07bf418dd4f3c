// SPDX-License-Identifier: MIT
// One process, one contestant, one case: what the benchmark programs of the pools share. A program
// registers its contests; `--list` names them, so that no list is written by hand. Cold is the
// first pass in the fresh process, warm the best of the later ones. Only what a case times is
// timed: it brackets that by Timer::start and stop.
#ifndef PS_BENCH_POOLS_CONTEST_HPP
#define PS_BENCH_POOLS_CONTEST_HPP

#include "lib/bench.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <getopt.h>
#include <string>
#include <vector>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT (void)0
#define CALLGRIND_DUMP_STATS_AT(name) (void)0
#endif

namespace contest {

// Under callgrind a Timer counts instructions: collection is on while it runs (pools.py passes
// --collect-atstart=no). Elsewhere a request is a few instructions without effect.

// False: a Timer runs around a preparation, which is not counted.
inline bool &is_counting() {
    static bool on = true;
    return on;
}

class Timer {
  public:
    // The wall clock, or the CPU time of the process.
    explicit Timer(bool is_cpu = false) : is_cpu_(is_cpu) {}
    void start() {
        begin_ = now();
        toggle();
    }
    void stop() {
        toggle();
        total_ += now() - begin_;
    }
    double ms() const { return static_cast<double>(total_) / 1e6; }

  private:
    __attribute__((always_inline)) static void toggle() {
        if (is_counting()) {
            CALLGRIND_TOGGLE_COLLECT;
        }
    }
    std::uint64_t now() const {
        return is_cpu_ ? bench_cpu_ns(CLOCK_PROCESS_CPUTIME_ID) : bench_now_ns();
    }
    bool is_cpu_;
    std::uint64_t begin_ = 0;
    std::uint64_t total_ = 0;
};

// Milliseconds of the wall clock that the work takes.
template <class Work> double timed(Work &&work) {
    Timer timer;
    timer.start();
    work();
    timer.stop();
    return timer.ms();
}

// Times one pass. scale: 1 is the size of the original's benchmark.
using Pass = std::function<double(double scale)>;

struct Contest {
    std::string group; // the originals' benchmark
    std::string name;  // the case
    std::string pool;  // the contestant; poolshim's begin with "ps_"
    Pass pass;
    unsigned passes;
};

inline std::vector<Contest> &all() {
    static std::vector<Contest> contests;
    return contests;
}

struct Register {
    Register(const std::string &group, const std::string &name, const std::string &pool,
             const Pass &pass, unsigned passes = 4) {
        all().push_back({group, name, pool, pass, passes});
    }
};

// Prevents the compiler from dropping an object whose bytes are not read.
template <class T> inline void keep(T *object) { __asm__ volatile("" : : "r"(object) : "memory"); }

[[noreturn]] inline void fail(const char *what) {
    std::fprintf(stderr, "wrong work: %s\n", what);
    std::exit(BENCH_EXIT_WRONG);
}

inline void require(const void *object) {
    if (__builtin_expect(object == nullptr, 0)) {
        fail("an allocation returned nothing");
    }
}

inline int list() {
    for (const Contest &contest : all()) {
        std::printf("%s %s %s\n", contest.group.c_str(), contest.name.c_str(),
                    contest.pool.c_str());
    }
    return 0;
}

// A dump of callgrind's counts per pass.
inline double run_pass(const Contest &contest, double scale) {
    double ms = contest.pass(scale);
    CALLGRIND_DUMP_STATS_AT("pass");
    return ms;
}

inline int run(const Contest &contest, double scale) {
    double cold = run_pass(contest, scale);
    double warm = 0;
    for (unsigned i = 1; i < contest.passes; i++) {
        double ms = run_pass(contest, scale);
        warm = i == 1 ? ms : std::min(warm, ms);
    }
    std::printf("{\"group\": \"%s\", \"case\": \"%s\", \"pool\": \"%s\", \"cold_ms\": %.6f, "
                "\"warm_ms\": %.6f, \"peak_rss_kib\": %llu}\n",
                contest.group.c_str(), contest.name.c_str(), contest.pool.c_str(), cold, warm,
                static_cast<unsigned long long>(bench_peak_rss_kib()));
    return 0;
}

inline int usage(const char *program) {
    std::fprintf(stderr, "usage: %s --list | --case NAME --pool NAME [--scale N]\n", program);
    return BENCH_EXIT_USAGE;
}

inline int main(int argc, char **argv) {
    static const option options[] = {
        {"list", no_argument, nullptr, 'l'},       {"case", required_argument, nullptr, 'c'},
        {"pool", required_argument, nullptr, 'p'}, {"scale", required_argument, nullptr, 's'},
        {"json", no_argument, nullptr, 'j'},       {nullptr, 0, nullptr, 0}};
    std::string name;
    std::string pool;
    double scale = 1;
    for (int letter; (letter = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
        switch (letter) {
        case 'l':
            return list();
        case 'c':
            name = optarg;
            break;
        case 'p':
            pool = optarg;
            break;
        case 's':
            scale = std::atof(optarg);
            break;
        case 'j':
            break; // the report is JSON anyway
        default:
            return usage(argv[0]);
        }
    }
    for (const Contest &contest : all()) {
        if (name == contest.name && pool == contest.pool && scale > 0) {
            return run(contest, scale);
        }
    }
    return usage(argv[0]);
}

} // namespace contest

#endif
