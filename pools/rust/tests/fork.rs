// SPDX-License-Identifier: MIT
//! A process forks while its threads are inside of the allocator: the child goes on.

use allocator_api2::vec::Vec as RegionVec;
use poolshim::{Poolshim, Region, Slots};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[global_allocator]
static GLOBAL: Poolshim = Poolshim;

extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn alarm(seconds: u32) -> u32;
    fn _exit(status: i32) -> !;
}

/// Uses all of the crate. The sum is known.
fn work(seed: usize) -> usize {
    let mut texts: Vec<String> = (0..40).map(|n| "x".repeat((n * seed) % 3000)).collect();
    texts.retain(|text| text.len() % 2 == 0);
    let region = Region::new();
    let mut numbers = RegionVec::new_in(&region);
    numbers.extend(0..2000_usize);
    let mut slots = Slots::new();
    let handles: Vec<_> = numbers.iter().map(|number| slots.insert(*number)).collect();
    let large = vec![1_u8; 300_000];
    let removed = handles.iter().filter_map(|handle| slots.remove(*handle));
    removed.sum::<usize>() + large.len() - 300_000
}

/// Takes pages from the cache that all threads share, and returns them.
fn take_pages() {
    let regions: Vec<Region> = (0..40)
        .map(|n| Region::with_capacity(4096 << (n % 4)))
        .collect();
    regions.iter().for_each(|region| *region.alloc(1) += 1);
}

const SUM: usize = 1999 * 2000 / 2;

#[test]
fn a_child_allocates_and_frees() {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 1..3 {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(work(number * 77), SUM);
                    take_pages();
                }
            });
        }
        let before: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        for round in 0..150 {
            // SAFETY: the child allocates, which this allocator permits after a fork, and exits.
            let child = unsafe { fork() };
            if child == 0 {
                // SAFETY: ends the child if it blocks on a lock that no thread will release.
                unsafe { alarm(30) };
                take_pages();
                let length: usize = before.iter().map(String::len).sum();
                drop(before);
                let is_right = length == 2890 && work(round) == SUM && work(3) == SUM;
                // SAFETY: ends the child; nothing of it is used any more.
                unsafe { _exit(i32::from(!is_right)) };
            }
            let mut status = -1;
            // SAFETY: the status is valid for a write.
            assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "of the child in round {round}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
