// SPDX-License-Identifier: MIT
//! Slots against a model, and the ends of their objects.

use poolshim::{Handle, Slots};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::thread;

/// Numbers that look random, the same ones each time.
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

#[test]
fn random_calls_agree_with_a_map() {
    let mut slots = Slots::new();
    let mut model: HashMap<Handle<String>, String> = HashMap::new();
    let mut handles = Vec::new();
    let mut draws = Draws(7);
    for round in 0..6000 {
        match draws.below(10) {
            0..=4 => {
                let handle = slots.insert(round.to_string());
                assert!(
                    model.insert(handle, round.to_string()).is_none(),
                    "no handle comes twice"
                );
                handles.push(handle);
            }
            5..=7 if !handles.is_empty() => {
                let handle = handles[draws.below(handles.len())];
                assert_eq!(slots.remove(handle), model.remove(&handle));
            }
            8 if !handles.is_empty() => {
                let handle = handles[draws.below(handles.len())];
                if let Some(text) = slots.get_mut(handle) {
                    text.push('+');
                    model.get_mut(&handle).unwrap().push('+');
                }
                assert_eq!(slots.get(handle), model.get(&handle));
                assert_eq!(slots.contains(handle), model.contains_key(&handle));
            }
            _ if draws.below(300) == 0 => {
                slots.reset();
                model.clear();
            }
            _ if draws.below(30) == 0 => {
                slots.trim_to(0);
            }
            _ => {}
        }
        assert_eq!(slots.len(), model.len());
    }
    assert!(handles
        .iter()
        .all(|handle| slots.get(*handle) == model.get(handle)));
    assert_eq!(slots.iter().len(), model.len());
    assert!(slots.iter().all(|(handle, text)| model[&handle] == *text));
}

#[test]
fn stale_and_foreign_handles_find_nothing() {
    let mut slots = Slots::new();
    let first = slots.insert(1_u32);
    assert_eq!(slots.remove(first), Some(1));
    let second = slots.insert(2);
    assert_ne!(first, second);
    assert!(slots.get(first).is_none() && !slots.contains(first));
    assert_eq!((slots.remove(first), slots.len()), (None, 1));
    assert_eq!(Handle::from_bits(second.to_bits()), Some(second));
    assert!(Handle::<u32>::from_bits(0).is_none());
    let mut draws = Draws(1);
    for shift in 0..64 {
        for bits in [
            1_u64 << shift,
            !0 >> shift,
            (draws.below(1 << 30) as u64) << shift,
        ] {
            if let Some(handle) = Handle::from_bits(bits) {
                assert_eq!(slots.contains(handle), handle == second, "{handle:?}");
                assert_eq!(slots.get_mut(handle).is_some(), handle == second);
            }
        }
    }
    let mut other = Slots::new();
    other.insert(9_u32);
    assert!(catch_unwind(AssertUnwindSafe(|| slots[first])).is_err());
    slots[second] += 1;
    assert_eq!(slots[second], 3);
}

#[test]
fn objects_have_their_alignment_and_may_have_no_size() {
    #[repr(align(4096))]
    struct Page(u8);
    let mut pages = Slots::new();
    for number in 0..20 {
        pages.insert(Page(number));
    }
    for (_, page) in &pages {
        assert_eq!(page as *const Page as usize % 4096, 0);
    }
    assert_eq!(
        pages.iter().map(|(_, page)| u32::from(page.0)).sum::<u32>(),
        190
    );

    let mut units = Slots::new();
    let handles: Vec<_> = (0..100).map(|_| units.insert(())).collect();
    assert!(handles
        .iter()
        .all(|handle| units.remove(*handle) == Some(())));

    #[repr(align(8192))]
    struct TooMuch;
    assert!(catch_unwind(Slots::<TooMuch>::new).is_err());
}

#[test]
fn iteration_is_in_order_of_position_and_changes_objects() {
    let mut slots = Slots::new();
    let handles: Vec<_> = (0..500_u32).map(|number| slots.insert(number)).collect();
    for handle in handles.iter().step_by(3) {
        slots.remove(*handle);
    }
    for (handle, number) in &mut slots {
        *number += 1000;
        assert_eq!(handle, handles[*number as usize - 1000]);
    }
    let seen: Vec<u32> = slots.iter().map(|(_, number)| *number).collect();
    let expected: Vec<u32> = (0..500).filter(|n| n % 3 != 0).map(|n| n + 1000).collect();
    assert_eq!(seen, expected);
    assert_eq!(slots.iter().size_hint(), (333, Some(333)));
}

struct Counted<'a> {
    number: u32,
    log: &'a RefCell<Vec<u32>>,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.log.borrow_mut().push(self.number);
        assert_ne!(self.number, 13, "unlucky");
    }
}

fn filled<'a>(numbers: &[u32], log: &'a RefCell<Vec<u32>>) -> Slots<Counted<'a>> {
    let mut slots = Slots::new();
    for number in numbers {
        slots.insert(Counted {
            number: *number,
            log,
        });
    }
    slots
}

#[test]
fn each_object_is_dropped_once() {
    let log = RefCell::new(Vec::new());
    let mut slots = filled(&[0, 1, 2, 3, 4, 5], &log);
    let first = slots.iter().next().unwrap().0;
    drop(slots.remove(first));
    assert_eq!(*log.borrow(), [0]);
    drop(slots);
    assert_eq!(*log.borrow(), [0, 1, 2, 3, 4, 5]);

    let mut cleared = filled(&[6, 7], &log);
    cleared.reset();
    assert_eq!((cleared.len(), log.borrow().len()), (0, 8));
    let again = cleared.insert(Counted {
        number: 8,
        log: &log,
    });
    assert!(cleared.contains(again));
}

#[test]
fn a_panic_in_a_destructor_leaves_the_others() {
    let log = RefCell::new(Vec::new());
    let slots = filled(&[1, 13, 3, 4], &log);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(slots))).is_err());
    assert_eq!(*log.borrow(), [1, 13, 3, 4]);

    log.borrow_mut().clear();
    let mut slots = filled(&[1, 13, 3], &log);
    assert!(catch_unwind(AssertUnwindSafe(|| slots.reset())).is_err());
    assert_eq!((slots.len(), log.borrow().len()), (0, 3));
}

#[test]
fn a_limit_returns_the_object() {
    let mut slots = Slots::with_limit(2);
    let first = slots.insert(String::from("a"));
    slots.insert(String::from("b"));
    assert_eq!(slots.try_insert(String::from("c")), Err(String::from("c")));
    assert!(catch_unwind(AssertUnwindSafe(|| slots.insert(String::from("d")))).is_err());
    slots.remove(first);
    assert!(slots.try_insert(String::from("e")).is_ok());
    assert!(Slots::<u64>::new().try_reserve(1000) && !slots.try_reserve(5));
}

#[test]
fn threads_read_a_map_and_pass_it_on() {
    let mut slots = Slots::new();
    let handles: Vec<_> = (0..1000_u64).map(|number| slots.insert(number)).collect();
    thread::scope(|scope| {
        for part in handles.chunks(300) {
            let shared = &slots;
            scope.spawn(move || {
                assert!(part.iter().all(|handle| shared.contains(*handle)));
                assert_eq!(
                    shared.iter().map(|(_, number)| number).sum::<u64>(),
                    499_500
                );
            });
        }
    });
    let removed = thread::spawn(move || {
        handles
            .iter()
            .filter_map(|handle| slots.remove(*handle))
            .sum::<u64>()
    });
    assert_eq!(removed.join().unwrap(), 499_500);
}

#[test]
fn objects_may_be_of_one_thread() {
    let mut slots = Slots::new(); // of a type that is neither Send nor Sync
    let handle = slots.insert(Cell::new(1));
    slots[handle].set(2);
    assert_eq!(slots[handle].get(), 2);
}
