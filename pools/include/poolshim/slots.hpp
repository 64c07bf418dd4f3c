// SPDX-License-Identifier: MIT
// slots.hpp - ps::slots<T> and its handles: the slot map of slots.h in C++17.
//
//     ps::slots<Entity> entities;
//     ps::slots<Entity>::handle player = entities.insert("player", 100);
//     if (Entity *entity = entities.get(player)) { entity->move(); }
//     entities.remove(player);                      // destroys it; its handles are stale
//     for (Entity &entity : entities) { ... }       // in order of position
//     entities.each([](Entity &entity) { ... });    // the same in fewer instructions
//
// A handle is a number with the type of its map; handle() is none. ps::slots<T, std::uint32_t> has
// handles of 32 bits. They are compared and hashed as numbers; value() and handle(value) take them
// out of the process and back.
//
// Objects do not move until they are removed. Live ones are destroyed by reset() and by the
// destructor. The map may be moved; handles go with it. Threads, costs and generations are those of
// slots.h. Throws std::bad_alloc where C returns 0, and what constructors throw; the map then has
// the objects that it had.
#ifndef POOLSHIM_SLOTS_HPP
#define POOLSHIM_SLOTS_HPP

#include <poolshim/detail.hpp>
#include <poolshim/slots.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace ps {

using slots_options = ::ps_slots_options;

template <class T, class Word = std::uint64_t> class slot_handle {
    static_assert(std::is_same_v<Word, std::uint64_t> || std::is_same_v<Word, std::uint32_t>,
                  "handles have 64 or 32 bits");

  public:
    constexpr slot_handle() = default;
    constexpr explicit slot_handle(Word value) : value_(value) {}
    constexpr Word value() const { return value_; }
    constexpr explicit operator bool() const { return value_ != 0; }
    friend constexpr bool operator==(slot_handle left, slot_handle right) {
        return left.value_ == right.value_;
    }
    friend constexpr bool operator!=(slot_handle left, slot_handle right) {
        return left.value_ != right.value_;
    }
    friend constexpr bool operator<(slot_handle left, slot_handle right) {
        return left.value_ < right.value_;
    }

  private:
    Word value_ = 0;
};

// PositionBits: of a handle, as options.position_bits.
template <class T, class Word = std::uint64_t, unsigned PositionBits = sizeof(Word) == 8 ? 32 : 20>
class slots {
    static_assert(alignof(T) <= PS_SLOTS_ALIGN_MAX, "objects are aligned to a page at most");

  public:
    using value_type = T;
    using handle = slot_handle<T, Word>;

    // handle_bits and position_bits of the options are not read. Throws std::bad_alloc for sizes
    // that no map can have.
    explicit slots(slots_options options = {}) {
        options.handle_bits = sizeof(Word) * 8;
        options.position_bits = PositionBits;
        if (!ps_slots_init(&slots_, sizeof(T), alignof(T), &options)) {
            PS_THROW(std::bad_alloc());
        }
    }
    ~slots() { finish(); }
    slots(slots &&other) noexcept { ps_slots_move(&slots_, &other.slots_); }
    slots &operator=(slots &&other) noexcept {
        if (this != &other) {
            finish();
            ps_slots_move(&slots_, &other.slots_);
        }
        return *this;
    }

    // T(arguments...) in a place of its own.
    template <class... Arguments> handle insert(Arguments &&...arguments) {
        void *place;
        std::uint64_t value = take(&place);
        if (__builtin_expect(value == 0, 0)) {
            PS_THROW(std::bad_alloc());
        }
        construct(value, place, std::forward<Arguments>(arguments)...);
        return handle(static_cast<Word>(value));
    }

    // The same; no handle where insert throws std::bad_alloc.
    template <class... Arguments> handle try_insert(Arguments &&...arguments) {
        void *place;
        std::uint64_t value = take(&place);
        if (value != 0) {
            construct(value, place, std::forward<Arguments>(arguments)...);
        }
        return handle(static_cast<Word>(value));
    }

    // The object, or nullptr: it was removed.
    T *get(handle of) noexcept { return static_cast<T *>(find(of)); }
    const T *get(handle of) const noexcept { return static_cast<const T *>(find(of)); }
    bool contains(handle of) const noexcept { return find(of) != nullptr; }

    // Destroys the object. False: it was removed before.
    bool remove(handle of) noexcept {
        if constexpr (!std::is_trivially_destructible_v<T>) {
            T *object = get(of);
            if (object == nullptr) {
                return false;
            }
            object->~T();
        }
        return ps_slots_remove_shaped(&slots_, of.value(), shape());
    }

    // The handle of a live object of this map.
    handle handle_of(const T &object) const noexcept {
        return handle(static_cast<Word>(ps_slots_handle(&object)));
    }

    std::size_t size() const noexcept { return slots_.live_count; }
    bool empty() const noexcept { return slots_.live_count == 0; }
    // Destroys all objects; retains the memory.
    void reset() noexcept {
        destroy_all();
        ps_slots_reset(&slots_);
    }
    [[deprecated("use reset")]] void clear() noexcept { reset(); }
    void reserve(std::size_t count) {
        if (!ps_slots_reserve(&slots_, count)) {
            PS_THROW(std::bad_alloc());
        }
    }
    std::size_t trim_to(std::size_t keep_bytes) noexcept {
        return ps_slots_trim_to(&slots_, keep_bytes);
    }
    [[deprecated("use trim_to")]] std::size_t trim() noexcept { return trim_to(0); }
    struct ps_slots_stats stats() const noexcept {
        struct ps_slots_stats result;
        ::ps_slots_stats(&slots_, &result);
        return result;
    }
    bool check() const noexcept { return ps_slots_check(&slots_); }

    // Forward, in order of position. The map may be changed meanwhile as slots.h says.
    template <class Object> class basic_iterator {
      public:
        using iterator_category = std::forward_iterator_tag;
        using value_type = T;
        using difference_type = std::ptrdiff_t;
        using pointer = Object *;
        using reference = Object &;

        basic_iterator() = default;
        Object &operator*() const { return *object_; }
        Object *operator->() const { return object_; }
        basic_iterator &operator++() {
            step();
            return *this;
        }
        basic_iterator operator++(int) {
            basic_iterator old = *this;
            step();
            return old;
        }
        friend bool operator==(const basic_iterator &left, const basic_iterator &right) {
            return left.object_ == right.object_;
        }
        friend bool operator!=(const basic_iterator &left, const basic_iterator &right) {
            return left.object_ != right.object_;
        }

      private:
        friend class slots;
        explicit basic_iterator(const slots *of) : slots_(of) { step(); }
        void step() { object_ = static_cast<Object *>(slots_->next(&cursor_)); }

        const slots *slots_ = nullptr;
        ::ps_slots_cursor cursor_ = ps_slots_begin();
        Object *object_ = nullptr;
    };
    using iterator = basic_iterator<T>;
    using const_iterator = basic_iterator<const T>;
    iterator begin() noexcept { return iterator(this); }
    iterator end() noexcept { return {}; }
    const_iterator begin() const noexcept { return const_iterator(this); }
    const_iterator end() const noexcept { return {}; }

    // visit(T &) for each object in order of position: as by the iterators, in fewer instructions.
    // The map may be changed meanwhile in the same ways.
    template <class Visit> void each(Visit &&visit) { walk<T>(visit); }
    template <class Visit> void each(Visit &&visit) const { walk<const T>(visit); }

    ::ps_slots *c_slots() noexcept { return &slots_; }

  private:
    // As slots.c computes it. In debug modes places differ, and no inlined half reads one.
    static constexpr std::size_t place_align = alignof(T) > 8 ? alignof(T) : 8;
    static constexpr std::size_t place_bytes =
        (sizeof(T) + 8 + place_align - 1) / place_align * place_align;

    static constexpr ps_slots_shape shape() noexcept {
        return {(std::uint64_t{1} << PositionBits) - 1, place_bytes, place_align};
    }

    std::uint64_t take(void **place) { return ps_slots_insert_shaped(&slots_, place, shape()); }
    void *find(handle of) const noexcept {
        return ps_slots_get_shaped(&slots_, of.value(), shape());
    }
    void *next(::ps_slots_cursor *cursor) const noexcept {
        return ps_slots_next_shaped(&slots_, cursor, shape());
    }

    // As many places at a time as were all live, or the live ones of 64.
    template <class Object, class Visit> void walk(Visit &visit) const {
        if (slots_.reach == 0) { // debug modes, or nothing
            for (basic_iterator<Object> at(this); at != basic_iterator<Object>(); ++at) {
                visit(*at);
            }
            return;
        }
        auto visit_live = [&](char *place) {
            if (__builtin_expect(ps_slots_is_live(place), 1)) {
                visit(*reinterpret_cast<Object *>(place));
            }
        };
        ::ps_slots_cursor cursor = ps_slots_begin();
        for (;;) {
            std::size_t count = ps_slots_next_run(&slots_, &cursor);
            char *place = cursor.places;
            if (count != 0) {
                for (char *end = place + count * place_bytes; place != end; place += place_bytes) {
                    visit_live(place);
                }
                continue;
            }
            std::uint64_t rest = cursor.rest;
            if (rest == 0) {
                return;
            }
            for (; rest != 0; rest &= rest - 1) {
                auto index = static_cast<std::size_t>(__builtin_ctzll(rest));
                visit_live(place + index * place_bytes);
            }
        }
    }

    // Removes the place again if the constructor throws.
    template <class... Arguments>
    void construct(std::uint64_t value, void *place, Arguments &&...arguments) {
        struct guard {
            ::ps_slots *slots;
            std::uint64_t value;
            ~guard() {
                if (value != 0) {
                    ps_slots_remove(slots, value);
                }
            }
        } guarded{&slots_, value};
        ::new (place) T(std::forward<Arguments>(arguments)...);
        guarded.value = 0;
    }

    void destroy_all() noexcept {
        if constexpr (!std::is_trivially_destructible_v<T>) {
            for (T &object : *this) {
                object.~T();
            }
        }
    }
    void finish() noexcept {
        destroy_all();
        ps_slots_destroy(&slots_);
    }

    ::ps_slots slots_;
};

} // namespace ps

template <class T, class Word> struct std::hash<ps::slot_handle<T, Word>> {
    std::size_t operator()(ps::slot_handle<T, Word> handle) const noexcept {
        return std::hash<Word>()(handle.value());
    }
};

#endif
