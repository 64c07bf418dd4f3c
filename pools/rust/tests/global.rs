// SPDX-License-Identifier: MIT
//! The engine as the global allocator of this program.

use poolshim::Poolshim;
use std::alloc::{GlobalAlloc, Layout};
use std::sync::mpsc;
use std::{ptr, slice, thread};

#[global_allocator]
static GLOBAL: Poolshim = Poolshim;

/// A live block with a pattern, by the functions of GlobalAlloc.
struct Block {
    place: *mut u8,
    layout: Layout,
    seed: u8,
}

// SAFETY: its block is its own, and the allocator serves any thread.
unsafe impl Send for Block {}

impl Block {
    fn new(bytes: usize, align: usize, seed: u8) -> Block {
        let layout = Layout::from_size_align(bytes, align).unwrap();
        // SAFETY: no size is 0 here.
        let place = unsafe { GLOBAL.alloc(layout) };
        let block = Block {
            place,
            layout,
            seed,
        };
        block.check_place();
        block.fill();
        block
    }

    fn check_place(&self) {
        assert!(!self.place.is_null(), "{:?}", self.layout);
        assert_eq!(
            self.place as usize % self.layout.align(),
            0,
            "{:?}",
            self.layout
        );
    }

    fn at(&self, index: usize) -> u8 {
        self.seed.wrapping_add((index % 251) as u8)
    }

    /// The first bytes and the last one, and some between in long blocks.
    fn places(bytes: usize) -> impl Iterator<Item = usize> {
        (0..bytes.min(300))
            .chain((300..bytes).step_by(1 + bytes / 500))
            .chain([bytes - 1])
    }

    fn fill(&self) {
        for index in Block::places(self.layout.size()) {
            // SAFETY: within the block.
            unsafe { self.place.add(index).write(self.at(index)) };
        }
    }

    fn has_pattern(&self, bytes: usize) -> bool {
        // SAFETY: within the block, at places that were filled.
        Block::places(self.layout.size())
            .filter(|index| *index < bytes)
            .all(|index| unsafe { self.place.add(index).read() } == self.at(index))
    }

    fn resize(&mut self, bytes: usize) {
        let kept = bytes.min(self.layout.size());
        // SAFETY: a live block of this allocator, by its layout; bytes is not 0.
        self.place = unsafe { GLOBAL.realloc(self.place, self.layout, bytes) };
        let align = self.layout.align();
        assert!(
            !self.place.is_null() && self.has_pattern(kept),
            "{:?} to {bytes}",
            self.layout
        );
        self.layout = Layout::from_size_align(bytes, align).unwrap();
        self.check_place();
        self.fill();
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        assert!(
            self.has_pattern(self.layout.size()),
            "{:?} was overwritten",
            self.layout
        );
        // SAFETY: a live block of this allocator, by its layout, for the last time.
        unsafe { GLOBAL.dealloc(self.place, self.layout) };
    }
}

const SIZES: [usize; 14] = [
    1, 7, 8, 9, 16, 24, 100, 1000, 4096, 8192, 8193, 70_000, 600_000, 3_000_000,
];
const ALIGNS: [usize; 10] = [1, 2, 8, 16, 32, 64, 256, 4096, 65_536, 2_097_152];

#[test]
fn blocks_are_aligned_and_do_not_overlap() {
    let mut blocks = Vec::new();
    for (round, align) in ALIGNS.iter().enumerate() {
        for bytes in SIZES {
            for copy in 0..3 {
                blocks.push(Block::new(bytes, *align, (round * 31 + copy) as u8));
            }
        }
    }
    drop(blocks);
}

#[test]
fn a_resized_block_keeps_its_contents_and_its_alignment() {
    for align in [1, 8, 16, 32, 4096] {
        for from in SIZES {
            let mut block = Block::new(from, align, align as u8);
            for to in SIZES {
                block.resize(to);
            }
        }
    }
}

#[test]
fn zeroed_blocks_are_zero_where_others_were() {
    for align in [1, 16, 64, 4096] {
        for bytes in SIZES {
            drop([Block::new(bytes, align, 1), Block::new(bytes, align, 2)]);
            let layout = Layout::from_size_align(bytes, align).unwrap();
            // SAFETY: bytes is not 0; all of the block is read, as zeroed says it may be.
            unsafe {
                let place = GLOBAL.alloc_zeroed(layout);
                assert_eq!(place as usize % align, 0);
                assert!(slice::from_raw_parts(place, bytes)
                    .iter()
                    .all(|byte| *byte == 0));
                place.write_bytes(0xff, bytes);
                GLOBAL.dealloc(place, layout);
            }
        }
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let layout = Layout::from_size_align(1 << 60, 16).unwrap();
    // SAFETY: the sizes are not 0; block and layout belong together.
    unsafe {
        assert!(GLOBAL.alloc(layout).is_null());
        assert!(GLOBAL.alloc_zeroed(layout).is_null());
        assert!(GLOBAL
            .alloc(Layout::from_size_align(1 << 60, 1 << 20).unwrap())
            .is_null());
        let block = Block::new(100, 16, 5);
        assert!(GLOBAL.realloc(block.place, block.layout, 1 << 60).is_null());
        assert!(block.has_pattern(100));
    }
    assert!(Vec::<u64>::new().try_reserve(1 << 57).is_err());
}

#[test]
fn types_without_a_size_need_no_block() {
    let mut units = vec![(); 1000];
    units.push(());
    assert_eq!(units.len(), 1001);
    assert!(!ptr::addr_of!(*Box::new(())).is_null());
}

#[test]
fn threads_free_what_others_have_allocated() {
    let (sender, receiver) = mpsc::channel::<Vec<Block>>();
    let makers: Vec<_> = (0..3)
        .map(|number: u8| {
            let sender = sender.clone();
            thread::spawn(move || {
                for round in 0..60 {
                    let sizes = (1..40).map(|step: usize| step * 37 + round);
                    sender
                        .send(sizes.map(|bytes| Block::new(bytes, 8, number)).collect())
                        .unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    assert_eq!(
        receiver.iter().map(|blocks| blocks.len()).sum::<usize>(),
        3 * 60 * 39
    );
    makers.into_iter().for_each(|maker| maker.join().unwrap());
}

thread_local! {
    static AT_EXIT: Ends = Ends { text: String::from("kept until the thread ends") };
}

struct Ends {
    text: String,
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.text = format!("{}, and then some more", self.text); // allocates in a destructor
        assert!(self.text.len() > 30);
    }
}

#[test]
fn destructors_of_a_thread_may_allocate() {
    for _ in 0..8 {
        let length = thread::spawn(|| AT_EXIT.with(|ends| ends.text.len()))
            .join()
            .unwrap();
        assert_eq!(length, 26);
    }
}
