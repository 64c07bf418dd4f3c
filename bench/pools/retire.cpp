// SPDX-License-Identifier: MIT
// An object that threads read while it is replaced: two readers alone (read), or one reader and a
// writer that replaces it and has the old one freed (replace). Timed: the wall clock of both, from
// a common start; frees after that are not.
#include "contest.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <poolshim/retire.h>
#include <shared_mutex>
#include <thread>

#if __has_include(<urcu/urcu-memb.h>)
#define _LGPL_SOURCE // its readers inline, as it recommends to programs that may
#include <urcu/urcu-memb.h>
#endif

namespace {

constexpr double READS = 4e6;
constexpr double CHANGES = 4e5;

struct Object {
    std::uint64_t number;
    std::uint64_t same;
};

void look(const Object *object) {
    if (__builtin_expect(object->number != object->same, 0)) {
        contest::fail("an object was read that is freed");
    }
}

class Ps {
  public:
    Ps() {
        ps_retire_options options{};
        options.is_waiting = true;
        domain_ = ps_retire_create(&options);
        contest::require(domain_);
    }
    struct Thread {};
    void read() {
        ps_retire_enter(domain_);
        look(current_.load(std::memory_order_acquire));
        ps_retire_leave(domain_);
    }
    void replace(std::uint64_t number) {
        Object *old = current_.exchange(new Object{number, number}, std::memory_order_acq_rel);
        if (!ps_retire(domain_, old, end, nullptr)) {
            contest::fail("an object was refused");
        }
    }

  private:
    static void end(void *object, void *) { delete static_cast<Object *>(object); }
    struct ::ps_retire *domain_;
    std::atomic<Object *> current_{new Object{0, 0}};
};

class SharedMutex {
  public:
    struct Thread {};
    void read() {
        std::shared_lock<std::shared_mutex> lock(mutex_);
        look(current_.get());
    }
    void replace(std::uint64_t number) {
        auto fresh = std::make_unique<Object>(Object{number, number});
        std::lock_guard<std::shared_mutex> lock(mutex_);
        current_.swap(fresh);
    }

  private:
    std::shared_mutex mutex_;
    std::unique_ptr<Object> current_{new Object{0, 0}};
};

class SharedPointer {
  public:
    struct Thread {};
    void read() { look(std::atomic_load(&current_).get()); }
    void replace(std::uint64_t number) {
        std::atomic_store(&current_, std::make_shared<Object>(Object{number, number}));
    }

  private:
    std::shared_ptr<Object> current_ = std::make_shared<Object>(Object{0, 0});
};

#if __has_include(<urcu/urcu-memb.h>)
// liburcu: readers without a barrier, since its grace periods have the system make one in all
// threads (membarrier); a thread of its own frees.
class Urcu {
  public:
    struct Thread {
        Thread() { urcu_memb_register_thread(); }
        ~Thread() { urcu_memb_unregister_thread(); }
    };
    void read() {
        urcu_memb_read_lock();
        look(current_.load(std::memory_order_acquire));
        urcu_memb_read_unlock();
    }
    void replace(std::uint64_t number) {
        auto *fresh = new Retired;
        fresh->object = {number, number};
        Object *old = current_.exchange(&fresh->object, std::memory_order_acq_rel);
        urcu_memb_call_rcu(&reinterpret_cast<Retired *>(old)->head, end);
    }

  private:
    struct Retired {
        Object object; // first
        rcu_head head;
    };
    static void end(rcu_head *head) {
        delete reinterpret_cast<Retired *>(reinterpret_cast<char *>(head) -
                                           offsetof(Retired, head));
    }
    std::atomic<Object *> current_{&(new Retired{})->object};
};
#endif

template <class Structure> Structure &lasting() {
    static Structure structure;
    return structure;
}

template <class Structure> double run(double scale, bool is_changing) {
    Structure &structure = lasting<Structure>();
    auto reads = static_cast<std::size_t>(READS * scale) + 1;
    auto changes = static_cast<std::size_t>(CHANGES * scale) + 1;
    std::atomic<int> ready{0};
    auto body = [&](bool is_writer) {
        typename Structure::Thread thread;
        (void)thread;
        ready++;
        while (ready.load() < 3) {
        }
        for (std::size_t i = 0; is_writer && i < changes; i++) {
            structure.replace(i);
        }
        for (std::size_t i = 0; !is_writer && i < reads; i++) {
            structure.read();
        }
    };
    std::thread one([&] { body(false); });
    std::thread two([&] { body(is_changing); });
    while (ready.load() < 2) {
    }
    return contest::timed([&] {
        ready++;
        one.join();
        two.join();
    });
}

template <class Structure> double read(double scale) { return run<Structure>(scale, false); }

template <class Structure> double replace(double scale) { return run<Structure>(scale, true); }

template <class Structure> struct Entry {
    explicit Entry(const char *name) {
        contest::Register("retire", "read", name, read<Structure>);
        contest::Register("retire", "replace", name, replace<Structure>);
    }
};

const Entry<Ps> use_retire("ps_retire");
const Entry<SharedMutex> use_mutex("std_shared_mutex");
const Entry<SharedPointer> use_pointer("std_shared_ptr");
#if __has_include(<urcu/urcu-memb.h>)
const Entry<Urcu> use_urcu("liburcu_memb");
#endif

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
