// SPDX-License-Identifier: MIT
//! What native/binding.c defines. Sizes and alignments are those of `core::alloc::Layout`.

use core::ffi::c_void;

/// The start of the C structure, which binding.c compares with this one.
#[repr(C)]
pub struct RegionHead {
    /// The next free byte of the current chunk.
    pub at: *mut u8,
    /// The end of its room; a multiple of 16. In debug modes there is none: calls go to C.
    pub end: *mut u8,
}

/// Only pointed to.
#[repr(C)]
pub struct NativeSlots {
    private: [u8; 0],
}

/// `struct ps_slots_cursor`; binding.c compares the size. All zero: before the first object.
#[repr(C)]
pub struct Cursor {
    rest: u64,
    places: *mut c_void,
    next: usize,
}

impl Cursor {
    pub const START: Cursor = Cursor {
        rest: 0,
        places: core::ptr::null_mut(),
        next: 0,
    };
}

extern "C" {
    pub fn ps_rust_alloc(bytes: usize) -> *mut u8;
    pub fn ps_rust_alloc_aligned(bytes: usize, align: usize) -> *mut u8;
    pub fn ps_rust_zalloc(bytes: usize) -> *mut u8;
    pub fn ps_rust_resize(block: *mut u8, bytes: usize) -> *mut u8;
    pub fn ps_rust_free(block: *mut u8);
    pub fn ps_rust_trim() -> bool;
    pub fn ps_rust_usage(live_bytes: *mut u64, mapped_bytes: *mut u64);

    pub fn ps_rust_region_create(first_bytes: usize, max_bytes: usize) -> *mut RegionHead;
    pub fn ps_rust_region_alloc(region: *mut RegionHead, bytes: usize, align: usize) -> *mut u8;
    pub fn ps_rust_region_resize(
        region: *mut RegionHead,
        block: *mut u8,
        old_bytes: usize,
        new_bytes: usize,
        align: usize,
    ) -> *mut u8;
    pub fn ps_rust_region_free(region: *mut RegionHead, block: *mut u8, bytes: usize, align: usize);
    pub fn ps_rust_region_reset(region: *mut RegionHead);
    pub fn ps_rust_region_trim(region: *mut RegionHead, keep_bytes: usize) -> usize;
    pub fn ps_rust_region_destroy(region: *mut RegionHead);
    pub fn ps_rust_region_usage(
        region: *const RegionHead,
        used_bytes: *mut usize,
        held_bytes: *mut usize,
    );

    pub fn ps_rust_slots_create(bytes: usize, align: usize, max_items: usize) -> *mut NativeSlots;
    pub fn ps_rust_slots_destroy(slots: *mut NativeSlots);
    pub fn ps_rust_slots_insert(slots: *mut NativeSlots, object: *mut *mut c_void) -> u64;
    pub fn ps_rust_slots_get(slots: *const NativeSlots, handle: u64) -> *mut c_void;
    pub fn ps_rust_slots_remove(slots: *mut NativeSlots, handle: u64) -> bool;
    pub fn ps_rust_slots_next(slots: *const NativeSlots, cursor: *mut Cursor) -> *mut c_void;
    pub fn ps_rust_slots_handle(object: *const c_void) -> u64;
    pub fn ps_rust_slots_count(slots: *const NativeSlots) -> usize;
    pub fn ps_slots_reserve(slots: *mut NativeSlots, count: usize) -> bool;
    pub fn ps_slots_trim_to(slots: *mut NativeSlots, keep_bytes: usize) -> usize;
    pub fn ps_slots_reset(slots: *mut NativeSlots);
}
