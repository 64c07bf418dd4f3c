// SPDX-License-Identifier: MIT
// Heaps in shared memory: 512 blocks of 64 bytes allocated and freed, last first (pairs); 1000 live
// blocks of 16 to 1000 bytes replaced at random, by one process (replace) or by two at once, each
// with blocks of its own (processes). The wall clock; of both processes, from a common start.
#include "contest.hpp"

#include <atomic>
#include <poolshim/shared.h>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if __has_include(<boost/interprocess/managed_shared_memory.hpp>)
#include <boost/interprocess/managed_shared_memory.hpp>
#include <boost/interprocess/mem_algo/simple_seq_fit.hpp>
#endif

namespace {

constexpr std::size_t PAIRS = 512;
constexpr std::size_t LIVE = 1000;
constexpr std::size_t BYTES = 64u << 20;
constexpr double CALLS = 1e6;

class Ps {
  public:
    Ps() {
        int fd = memfd_create("bench", MFD_CLOEXEC);
        ps_shared_options options{};
        options.initial_bytes = options.max_bytes = BYTES;
        if (ps_shared_open_fd(&heap_, fd, PS_SHARED_CREATE, &options) != PS_SHARED_OK) {
            contest::fail("no shared heap");
        }
        close(fd);
    }
    void *alloc(std::size_t bytes) { return ps_shared_alloc(heap_, bytes); }
    void free(void *block) { ps_shared_free(heap_, block); }

  private:
    ps_shared *heap_ = nullptr;
};

#if __has_include(<boost/interprocess/managed_shared_memory.hpp>)
// Under a lock of POSIX, which is not robust: rbtree_best_fit, as it comes, or simple_seq_fit.
template <class Segment> class Boost {
  public:
    Boost()
        : name_("poolshim-bench-" + std::to_string(getpid())),
          segment_(boost::interprocess::create_only, name_.c_str(), BYTES) {
        boost::interprocess::shared_memory_object::remove(name_.c_str());
    }
    void *alloc(std::size_t bytes) { return segment_.allocate(bytes); }
    void free(void *block) { segment_.deallocate(block); }

  private:
    std::string name_;
    Segment segment_;
};

using BoostTree = Boost<boost::interprocess::managed_shared_memory>;
using BoostList = Boost<boost::interprocess::basic_managed_shared_memory<
    char, boost::interprocess::simple_seq_fit<boost::interprocess::mutex_family>,
    boost::interprocess::iset_index>>;
#endif

// What a heap costs that is not shared: no lock between processes, no repair. No target.
class Malloc {
  public:
    void *alloc(std::size_t bytes) { return std::malloc(bytes); }
    void free(void *block) { std::free(block); }
};

template <class Heap> Heap &lasting() {
    static Heap heap;
    return heap;
}

template <class Heap> double pairs(double scale) {
    Heap &heap = lasting<Heap>();
    auto rounds = static_cast<std::size_t>(CALLS * scale / PAIRS) + 1;
    void *blocks[PAIRS];
    return contest::timed([&] {
        for (std::size_t round = 0; round < rounds; round++) {
            for (void *&block : blocks) {
                block = heap.alloc(64);
                contest::require(block);
                contest::keep(block);
            }
            for (std::size_t i = PAIRS; i-- > 0;) {
                heap.free(blocks[i]);
            }
        }
    });
}

template <class Heap> void churn(Heap &heap, unsigned seed, std::size_t calls) {
    std::minstd_rand random(seed);
    std::vector<std::uint32_t *> blocks(LIVE, nullptr);
    for (std::size_t call = 0; call < calls; call++) {
        std::uint32_t number = static_cast<std::uint32_t>(random());
        std::uint32_t *&block = blocks[number % LIVE];
        if (block != nullptr) {
            if (*block != number % LIVE) {
                contest::fail("a block was overwritten");
            }
            heap.free(block);
        }
        block = static_cast<std::uint32_t *>(heap.alloc(16 + number / LIVE % 985));
        contest::require(block);
        *block = number % LIVE;
    }
    for (std::uint32_t *block : blocks) {
        if (block != nullptr) {
            heap.free(block);
        }
    }
}

template <class Heap> double replace(double scale) {
    Heap &heap = lasting<Heap>();
    auto calls = static_cast<std::size_t>(CALLS * scale) + 1;
    return contest::timed([&] { churn(heap, 7, calls); });
}

template <class Heap> double processes(double scale) {
    Heap &heap = lasting<Heap>();
    auto calls = static_cast<std::size_t>(CALLS * scale / 2) + 1;
    auto *ready = static_cast<std::atomic<int> *>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    pid_t pid = fork();
    if (pid == 0) {
        ready->fetch_add(1);
        while (ready->load() < 2) {
        }
        churn(heap, 11, calls);
        _exit(0);
    }
    while (ready->load() < 1) {
    }
    double ms = contest::timed([&] {
        ready->fetch_add(1);
        churn(heap, 7, calls);
        int status = 1;
        if (waitpid(pid, &status, 0) != pid || status != 0) {
            contest::fail("the other process failed");
        }
    });
    munmap(ready, 4096);
    return ms;
}

template <class Heap> struct Entry {
    explicit Entry(const char *name) {
        contest::Register("shared", "pairs", name, pairs<Heap>);
        contest::Register("shared", "replace", name, replace<Heap>);
        contest::Register("shared", "processes", name, processes<Heap>);
    }
};

const Entry<Ps> use_shared("ps_shared");
const Entry<Malloc> use_malloc("malloc");
#if __has_include(<boost/interprocess/managed_shared_memory.hpp>)
const Entry<BoostTree> use_boost("boost_interprocess");
const Entry<BoostList> use_boost_list("boost_interprocess_seq");
#endif

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
