// SPDX-License-Identifier: MIT
//! Regions as an allocator and by themselves.

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use poolshim::Region;
use std::alloc::Layout;
use std::cell::RefCell;
use std::thread;

#[test]
fn objects_have_their_alignment_and_do_not_overlap() {
    #[repr(align(64))]
    struct Line(u8);
    #[repr(align(4096))]
    struct Page(u8);

    let region = Region::new();
    let mut bytes = std::vec::Vec::new();
    let mut words = std::vec::Vec::new();
    let mut lines = std::vec::Vec::new();
    let mut pages = std::vec::Vec::new();
    for number in 0..300_u16 {
        bytes.push(region.alloc(number as u8));
        words.push(region.alloc(u64::from(number)));
        lines.push(region.alloc(Line(number as u8)));
        if number % 50 == 0 {
            pages.push(region.alloc(Page(number as u8)));
        }
    }
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(*line as *const Line as usize % 64, 0);
        assert_eq!((*bytes[number], line.0), (number as u8, number as u8));
        assert_eq!(
            (*words[number], words[number] as *const u64 as usize % 8),
            (number as u64, 0)
        );
    }
    for (number, page) in pages.iter().enumerate() {
        assert_eq!(
            (page.0, *page as *const Page as usize % 4096),
            ((number * 50) as u8, 0)
        );
    }
}

#[test]
fn texts_and_slices_are_copied() {
    let region = Region::with_capacity(1 << 16);
    let text = region.alloc_str("one");
    text.make_ascii_uppercase();
    let other = region.alloc_str("two");
    let numbers = region.alloc_slice(&[1_u16, 2, 3]);
    numbers[0] = 7;
    let squares = region.alloc_slice_with(20_000, |index| index * index);
    assert_eq!(
        (&*text, &*other, &*numbers),
        ("ONE", "two", &[7_u16, 2, 3][..])
    );
    assert!(squares
        .iter()
        .enumerate()
        .all(|(index, square)| *square == index * index));
    assert_eq!(
        (
            region.alloc_str("").len(),
            region.alloc_slice::<u32>(&[]).len()
        ),
        (0, 0)
    );
}

#[test]
fn types_without_a_size_take_nothing() {
    #[repr(align(32))]
    struct Nothing;
    let region = Region::new();
    let before = region.usage();
    for _ in 0..1000 {
        let place: *const Nothing = region.alloc(Nothing);
        assert_eq!(place as usize % 32, 0);
    }
    let mut units = Vec::new_in(&region);
    units.resize(1000, ());
    drop(Box::new_in((), &region));
    assert_eq!((units.len(), region.usage()), (1000, before));
}

#[test]
fn a_vector_grows_and_shrinks_and_keeps_its_contents() {
    let region = Region::new();
    let mut numbers = Vec::new_in(&region);
    let mut others = Vec::new_in(&region);
    for number in 0..100_000_u32 {
        numbers.push(number);
        if number % 3 == 0 {
            others.push(number);
        }
    }
    numbers.truncate(10);
    numbers.shrink_to_fit();
    others.extend(numbers.iter().copied());
    assert_eq!(&numbers[..], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert!(others
        .iter()
        .take(33_000)
        .enumerate()
        .all(|(index, n)| *n as usize == 3 * index));
    numbers.clear();
    numbers.shrink_to_fit(); // to no block at all, and to one again
    numbers.push(5);
    assert_eq!(numbers.len(), 1);
}

#[test]
fn the_newest_block_grows_where_it_is() {
    if std::env::var_os("PS_DEBUG").is_some() {
        return; // there every block that grows moves
    }
    let region = Region::with_capacity(1 << 16);
    let mut numbers = Vec::with_capacity_in(4, &region);
    numbers.push(1_u32);
    let before = numbers.as_ptr();
    numbers.resize(4000, 0);
    assert_eq!(numbers.as_ptr(), before);
    drop(numbers);
    let again = Vec::<u32, _>::with_capacity_in(4, &region);
    assert_eq!(again.as_ptr(), before, "the newest block was freed");
}

#[test]
fn layouts_may_change_their_alignment() {
    let region = Region::new();
    let small = Layout::from_size_align(10, 1).unwrap();
    let large = Layout::from_size_align(100, 256).unwrap();
    let none = Layout::from_size_align(0, 64).unwrap();
    // SAFETY: each block is used by the layout that it has at the time.
    unsafe {
        let block = (&region).allocate(small).unwrap();
        block.cast::<u8>().as_ptr().write_bytes(3, 10);
        let block = (&region).grow_zeroed(block.cast(), small, large).unwrap();
        assert_eq!(
            (block.len(), block.cast::<u8>().as_ptr() as usize % 256),
            (100, 0)
        );
        let bytes = block.as_ref();
        assert!(bytes[..10].iter().all(|b| *b == 3) && bytes[10..].iter().all(|b| *b == 0));
        let block = (&region).shrink(block.cast(), large, small).unwrap();
        assert_eq!(block.as_ref(), &[3; 10]);
        let block = (&region).shrink(block.cast(), small, none).unwrap();
        assert_eq!(
            (block.len(), block.cast::<u8>().as_ptr() as usize % 64),
            (0, 0)
        );
        let block = (&region).grow_zeroed(block.cast(), none, large).unwrap();
        assert!(block.as_ref().iter().all(|byte| *byte == 0));
        (&region).deallocate(block.cast(), large);
        assert!((&region)
            .allocate(Layout::from_size_align(1 << 60, 8).unwrap())
            .is_err());
    }
}

#[test]
fn blocks_are_rounded_as_in_c() {
    if std::env::var_os("PS_DEBUG").is_some() {
        return; // there all blocks are cut in C
    }
    let region = Region::with_capacity(1 << 16);
    for (bytes, align, taken) in [
        (5, 8, 8),
        (3, 2, 4),
        (17, 16, 32),
        (100, 64, 112),
        (9, 1, 9),
    ] {
        let layout = Layout::from_size_align(bytes, align).unwrap();
        let first = (&region).allocate(layout).unwrap().cast::<u8>();
        let next = region.alloc(0_u8) as *const u8 as usize;
        assert_eq!(next - first.as_ptr() as usize, taken, "{layout:?}");
    }
}

struct Noisy<'a>(u32, &'a RefCell<std::vec::Vec<u32>>);

impl Drop for Noisy<'_> {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

#[test]
fn boxes_drop_their_objects_and_the_region_none() {
    let log = RefCell::new(std::vec::Vec::new());
    {
        let region = Region::new();
        let _first = Box::new_in(Noisy(1, &log), &region);
        region.alloc(Noisy(2, &log));
        let mut several = Vec::new_in(&region);
        several.extend([Noisy(3, &log), Noisy(4, &log)]);
        drop(Box::new_in(Noisy(5, &log), &region));
        several.remove(0);
    }
    assert_eq!(*log.borrow(), [5, 3, 4, 1]);
}

#[test]
fn memory_is_used_again_after_a_reset() {
    let mut region = Region::new();
    let mut held = 0;
    for round in 0..50 {
        for number in 0..2000_u64 {
            assert_eq!(*region.alloc(number), number);
        }
        assert!(region.usage().used_bytes >= 16_000);
        if round == 1 {
            held = region.usage().held_bytes;
        }
        region.reset();
    }
    assert_eq!(region.usage().used_bytes, 0);
    assert!(region.usage().held_bytes <= held, "{region:?}");
    region.trim_to(0);
    assert!(region.usage().held_bytes <= 8192, "{region:?}");
}

#[test]
fn a_region_moves_between_threads() {
    let mut region = Region::new();
    for round in 0..4_u32 {
        region = thread::spawn(move || {
            let mut numbers = Vec::new_in(&region);
            numbers.extend(0..3000 * round);
            assert_eq!(numbers.len() as u32, 3000 * round);
            drop(numbers);
            region.alloc_str("of another thread");
            region.reset();
            region
        })
        .join()
        .unwrap();
        region.alloc(round);
    }
}

#[test]
fn a_panic_leaves_a_usable_region() {
    let region = Region::new();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        region.alloc_slice_with(10, |index| if index < 5 { index } else { panic!("made") });
    }));
    assert!(result.is_err());
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        region.alloc_slice_with(1 << 60, |index| index);
    }));
    assert!(result.is_err(), "memory is exhausted");
    assert_eq!(*region.alloc(1), 1);
}
