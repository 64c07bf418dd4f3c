// SPDX-License-Identifier: MIT
// pool_for.hpp - one pool per type and thread, for objects that any thread may destroy.
//
//     Message *message = ps::pool_for<Message>().create(text);
//     ps::pool_for<Message>().destroy(message); // in this thread or in another
//
// create() and destroy() in the same thread touch nothing shared. An object that another thread
// destroys goes on a stack of its home, which the home empties when it has no free object. Each
// object carries the address of its home: one pointer more per object.
//
// A home whose thread has ended returns its free chunks; the next thread that needs a home takes
// it. Its live objects remain valid, and homes are never destroyed. So objects may be used in
// destructors of static and of thread-local objects. Those that still live at the end of the
// program are not destroyed.
//
// Any thread, without locks; also in the child of a fork, where the homes of threads that do not
// exist there still own their objects and serve no other thread. The never destroyed pool per type
// is that of Boost.Pool's singleton_pool, which takes a mutex for each call.
#ifndef POOLSHIM_POOL_FOR_HPP
#define POOLSHIM_POOL_FOR_HPP

#include <atomic>
#include <cstddef>
#include <new>
#include <poolshim/pool.hpp>
#include <utility>

namespace ps {

template <class T> class thread_pool_of {
  public:
    // Throws std::bad_alloc, and what the constructor throws; nothing has changed then.
    template <class... Arguments> T *create(Arguments &&...arguments) {
        home &mine = my_home();
        node *made = mine.get();
        guard back{&mine, made};
        T *object =
            ::new (static_cast<void *>(made->memory)) T(std::forward<Arguments>(arguments)...);
        made->owner = &mine;
        back.made = nullptr;
        return object;
    }

    // NULL does nothing.
    void destroy(T *object) noexcept {
        if (object == nullptr) {
            return;
        }
        object->~T();
        node *freed = reinterpret_cast<node *>(object);
        home *owner = freed->owner;
        if (owner == mine_) {
            owner->nodes.put(freed);
        } else {
            owner->give_back(freed);
        }
    }

    // Of this thread's home: live objects, with those that others destroyed and it has not taken
    // back; bytes; and so on.
    struct ::ps_pool_stats stats() { return my_home().nodes.stats(); }

    // Collects the objects that others destroyed, and returns chunks without a live object until at
    // most keep_bytes of them are left.
    std::size_t trim_to(std::size_t keep_bytes) {
        home &mine = my_home();
        mine.take_back();
        return mine.nodes.trim_to(keep_bytes);
    }
    [[deprecated("use trim_to")]] std::size_t trim() { return trim_to(0); }

  private:
    struct home;
    struct node {
        // A freed node on the stack of its home has the next one in its first bytes.
        alignas(T) alignas(
            void *) unsigned char memory[sizeof(T) > sizeof(void *) ? sizeof(T) : sizeof(void *)];
        home *owner;
    };

    struct home {
        node_pool nodes{sizeof(node), alignof(node)};
        home *next_idle = nullptr;
        alignas(64) std::atomic<node *> returned{nullptr};

        node *get() {
            if (nodes.c_pool()->free == nullptr) { // before memory that was never used
                take_back();
            }
            return static_cast<node *>(nodes.get());
        }
        void give_back(node *freed) noexcept {
            // relaxed: only the value that the exchange replaces counts.
            node *head = returned.load(std::memory_order_relaxed);
            do {
                ::new (static_cast<void *>(freed->memory)) node *(head);
                // release: pairs with take_back; makes the link and the end of the object visible.
                // Relaxed on failure: the link is written again.
            } while (!returned.compare_exchange_weak(head, freed, std::memory_order_release,
                                                     std::memory_order_relaxed));
        }
        void take_back() noexcept {
            // relaxed: a hint; a missed object is taken the next time.
            if (returned.load(std::memory_order_relaxed) == nullptr) {
                return;
            }
            // acquire: pairs with give_back.
            node *freed = returned.exchange(nullptr, std::memory_order_acquire);
            while (freed != nullptr) { // ends: the list was cut off from others
                node *next = *std::launder(reinterpret_cast<node **>(freed->memory));
                nodes.put(freed);
                freed = next;
            }
        }
    };

    struct guard {
        home *mine;
        node *made;
        ~guard() {
            if (made != nullptr) {
                mine->nodes.put(made);
            }
        }
    };

    // At the end of the thread its home becomes idle. A destructor that runs later takes another
    // home, which no other thread then takes.
    struct leaver {
        ~leaver() {
            home *left = mine_;
            mine_ = nullptr;
            if (left != nullptr) {
                left->take_back();
                left->nodes.trim_to(0);
                add_idle(left, left);
            }
        }
    };

    static home &my_home() {
        home *mine = mine_;
        return __builtin_expect(mine != nullptr, 1) ? *mine : *(mine_ = new_home());
    }

    __attribute__((noinline)) static home *new_home() {
        static thread_local leaver at_exit;
        (void)&at_exit;
        home *idle = take_idle();
        return idle != nullptr ? idle : new home;
    }

    // Adds a list of homes without a thread. No lock: the child of a fork could inherit it locked.
    static void add_idle(home *first, home *last) noexcept {
        // relaxed: only the value that the exchange replaces counts.
        home *head = idle_.load(std::memory_order_relaxed);
        do {
            last->next_idle = head;
            // release: pairs with take_idle; makes the homes visible. Relaxed on failure: the link
            // is written again.
        } while (!idle_.compare_exchange_weak(head, first, std::memory_order_release,
                                              std::memory_order_relaxed));
    }

    // Takes a home without a thread; NULL: there is none. All are taken, since one alone could have
    // been taken and added again by others after its link was read; the rest is added again. For a
    // moment other threads find none, and so does the child of a fork at that moment.
    static home *take_idle() noexcept {
        // acquire: pairs with add_idle.
        home *taken = idle_.exchange(nullptr, std::memory_order_acquire);
        home *rest = taken != nullptr ? taken->next_idle : nullptr;
        home *none = nullptr;
        // release: as in add_idle. Relaxed on failure: the value is not used.
        if (rest != nullptr && !idle_.compare_exchange_strong(none, rest, std::memory_order_release,
                                                              std::memory_order_relaxed)) {
            home *last = rest;
            while (last->next_idle != nullptr) { // ends with the list, which is this thread's
                last = last->next_idle;
            }
            add_idle(rest, last);
        }
        return taken;
    }

    static inline std::atomic<home *> idle_{nullptr}; // homes without a thread
    static inline thread_local home *mine_ = nullptr;
};

// The pool of T; the same for all threads, which each see their own home in it.
template <class T> thread_pool_of<T> &pool_for() noexcept {
    static thread_pool_of<T> pool;
    return pool;
}

} // namespace ps

#endif
