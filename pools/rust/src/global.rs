// SPDX-License-Identifier: MIT
//! The engine as the global allocator.

use crate::native;
use core::alloc::{GlobalAlloc, Layout};

/// Alignment of blocks above this size, as the engine gives it; blocks up to it have this one.
const SMALL_BYTES: usize = 8;
const ALIGN: usize = 16;

/// poolshim's malloc, for `#[global_allocator]`.
///
/// It is the engine of `libpoolshim.so` with names of its own: C code in the same process still
/// uses libc's malloc. This calls `ps_heap_alloc` and `ps_heap_free`, the fast paths of malloc and
/// free, `ps_block_zalloc`, `ps_block_alloc_aligned` and `ps_block_resize`, which are calloc,
/// aligned_alloc and realloc without libc's rules for sizes of 0.
///
/// A free by another thread than the one that allocated is transferred to that thread. Free memory
/// returns to the system a quarter of a second later, in calls that do not take the fast path; a
/// program that makes none may call [`trim`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Poolshim;

/// True where the engine's own alignment suffices. A `Layout` may ask for 8 bytes aligned to 16.
const fn is_plain(bytes: usize, align: usize) -> bool {
    align <= SMALL_BYTES || (align <= ALIGN && bytes > SMALL_BYTES)
}

// SAFETY: the engine returns blocks that overlap no live block, aligned as is_plain says or as
// asked for, from any thread, before main and after a thread's destructors; it never unwinds.
// GlobalAlloc forbids sizes of 0, and Layout alignments that are no powers of two. Each block is
// freed and resized by the same engine, which finds its length by its address, whatever function
// has allocated it.
unsafe impl GlobalAlloc for Poolshim {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout.size(), layout.align()) {
            // SAFETY: callable at any time; NULL where memory is exhausted, as for GlobalAlloc.
            unsafe { native::ps_rust_alloc(layout.size()) }
        } else {
            // SAFETY: as above; Layout's alignment is a power of two.
            unsafe { native::ps_rust_alloc_aligned(layout.size(), layout.align()) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout.size(), layout.align()) {
            // SAFETY: as in alloc. Memory fresh from the system is not written.
            return unsafe { native::ps_rust_zalloc(layout.size()) };
        }
        // SAFETY: the caller's promise about the layout is the one that alloc asks for.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() {
            // SAFETY: the block has layout.size() bytes, which nothing else uses yet.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller promises a live block of this allocator, and gives it up.
        unsafe { native::ps_rust_free(block) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        let align = layout.align();
        if is_plain(layout.size(), align) && is_plain(new_bytes, align) {
            // SAFETY: the caller promises a live block of this allocator, and a size above 0. The
            // block is as it was where the result is NULL.
            return unsafe { native::ps_rust_resize(block, new_bytes) };
        }
        // SAFETY: the caller promises that new_bytes, rounded up to the alignment, is no more than
        // isize::MAX, and that it is above 0.
        let fresh = unsafe { self.alloc(Layout::from_size_align_unchecked(new_bytes, align)) };
        if !fresh.is_null() {
            // SAFETY: two live blocks, which do not overlap, each at least as long as is copied;
            // then the caller gives up the old one.
            unsafe {
                fresh.copy_from_nonoverlapping(block, layout.size().min(new_bytes));
                self.dealloc(block, layout);
            }
        }
        fresh
    }
}

/// Memory of the engine: see [`usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Of live blocks, as rounded by the engine.
    pub live_bytes: u64,
    /// Mapped for blocks, cached ones included, and for the engine's own records.
    pub mapped_bytes: u64,
}

/// The engine's memory at present, by `ps_census_take`. A walk over all its memory, for statistics;
/// frees on their way between threads count as live.
#[must_use]
pub fn usage() -> Usage {
    let mut usage = Usage::default();
    // SAFETY: both pointers are valid for a write.
    unsafe { native::ps_rust_usage(&mut usage.live_bytes, &mut usage.mapped_bytes) };
    usage
}

/// Returns free memory to the system now, by `ps_heap_trim`: that of the calling thread, of all
/// runs cached for reuse, and wholly free spans of other threads. True when there was any.
pub fn trim() -> bool {
    // SAFETY: callable at any time.
    unsafe { native::ps_rust_trim() }
}
