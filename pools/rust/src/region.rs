// SPDX-License-Identifier: MIT
//! Regions: `poolshim/region.h`.

use crate::{exhausted, native};
use allocator_api2::alloc::{AllocError, Allocator};
use core::alloc::Layout;
use core::fmt;
use core::mem::size_of;
use core::ptr::NonNull;
use core::{ptr, slice, str};

/// Blocks are rounded up to their alignment, at most to this.
const UNIT: usize = 16;

/// Objects that die together: a request's, a document's, a frame's.
///
/// A region allocates by moving a pointer through chunks of memory, and frees all at once, by
/// [`reset`](Region::reset) or when it is dropped. `&Region` is an allocator of `allocator-api2`:
/// its `Vec` and `Box`, and the containers of other crates that take one.
///
/// ```
/// use allocator_api2::{boxed::Box, vec::Vec};
/// use poolshim::Region;
///
/// let mut region = Region::new();
/// let title = region.alloc_str("a text");
/// let mut numbers = Vec::new_in(&region); // grows where it is while it is the newest block
/// numbers.extend(0..100);
/// let boxed = Box::new_in(String::from("dropped with its box"), &region);
/// assert_eq!((title.len(), numbers.len(), boxed.len()), (6, 100, 20));
/// drop((numbers, boxed));
/// region.reset(); // nothing of it is borrowed any more
/// ```
///
/// Objects that [`alloc`](Region::alloc) returns are not dropped: the region frees their memory
/// only. Those in a `Box` or a `Vec` are dropped by it.
///
/// What a region has given out borrows it, so that none of it outlives a reset:
///
/// ```compile_fail,E0502
/// let mut region = poolshim::Region::new();
/// let number = region.alloc(1);
/// region.reset();
/// *number += 1;
/// ```
///
/// or the region itself:
///
/// ```compile_fail,E0597
/// use allocator_api2::vec::Vec;
/// let mut numbers: Vec<u8, &poolshim::Region>;
/// {
///     let region = poolshim::Region::new();
///     numbers = Vec::new_in(&region);
/// }
/// numbers.push(1);
/// ```
///
/// A region may move to another thread, but not be used by two at once, and its objects may not
/// leave the thread that borrows it, either:
///
/// ```compile_fail,E0277
/// let region = poolshim::Region::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| region.alloc(1));
/// });
/// ```
pub struct Region {
    head: NonNull<native::RegionHead>,
}

// SAFETY: a region belongs to no thread: its pages come from a cache that all threads share, and
// binding.c tells the checks of PS_DEBUG which thread is inside. It is not Sync: `&Region`
// allocates without a lock; so nothing that holds a `&Region` is Send either.
unsafe impl Send for Region {}

impl Region {
    /// An empty region, by `ps_region_create`: one page of 4 KiB, without a system call in the
    /// steady state. Panics where memory is exhausted.
    #[must_use]
    pub fn new() -> Region {
        Region::try_with_capacity(0).unwrap_or_else(|_| exhausted())
    }

    /// As [`new`](Region::new), with a first chunk of so many bytes, some hundred for the region's
    /// record included. Panics where memory is exhausted.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Region {
        Region::try_with_capacity(bytes).unwrap_or_else(|_| exhausted())
    }

    /// The same, with an error where memory is exhausted. Later chunks double up to 1 MiB, or up to
    /// the first one's length if that is more.
    pub fn try_with_capacity(bytes: usize) -> Result<Region, AllocError> {
        let max_bytes = if bytes > 1 << 20 { bytes } else { 0 };
        // SAFETY: any lengths are allowed; 0 is the default.
        let head = unsafe { native::ps_rust_region_create(bytes, max_bytes) };
        Ok(Region {
            head: NonNull::new(head).ok_or(AllocError)?,
        })
    }

    /// Moves an object into the region. Its destructor will not run: for that, put it into a `Box`.
    /// Panics where memory is exhausted.
    #[inline]
    #[allow(clippy::mut_from_ref)] // each call returns other memory
    pub fn alloc<T>(&self, value: T) -> &mut T {
        let place = self.room(Layout::new::<T>()).cast::<T>();
        // SAFETY: room for a T, aligned for it, which nothing else refers to until reset or drop,
        // and those need the borrow of self that the result has to be over.
        unsafe {
            place.as_ptr().write(value);
            &mut *place.as_ptr()
        }
    }

    /// A copy of a slice. Panics where memory is exhausted.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_slice<T: Copy>(&self, values: &[T]) -> &mut [T] {
        let place = self.room(Layout::for_value(values)).cast::<T>();
        // SAFETY: room for the slice, as in alloc; T is Copy.
        unsafe {
            place
                .as_ptr()
                .copy_from_nonoverlapping(values.as_ptr(), values.len());
            slice::from_raw_parts_mut(place.as_ptr(), values.len())
        }
    }

    /// A slice of what `make` returns for each index. Panics where memory is exhausted; where
    /// `make` panics, its objects so far are not dropped, and their memory is freed at the reset.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_slice_with<T>(&self, count: usize, make: impl FnMut(usize) -> T) -> &mut [T] {
        let mut make = make;
        let layout = Layout::array::<T>(count).unwrap_or_else(|_| exhausted());
        let place = self.room(layout).cast::<T>();
        for index in 0..count {
            // SAFETY: within the room. `make` may allocate from this region; not this memory.
            unsafe { place.as_ptr().add(index).write(make(index)) };
        }
        // SAFETY: as in alloc; all of it is written.
        unsafe { slice::from_raw_parts_mut(place.as_ptr(), count) }
    }

    /// A copy of a text. Panics where memory is exhausted.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn alloc_str(&self, text: &str) -> &mut str {
        let bytes = self.alloc_slice(text.as_bytes());
        // SAFETY: the bytes of a str.
        unsafe { str::from_utf8_unchecked_mut(bytes) }
    }

    /// Frees all blocks, by `ps_region_reset`. Retains the first chunk and up to 1 MiB of others
    /// for reuse. It borrows the region exclusively, so nothing of it is in use any more.
    pub fn reset(&mut self) {
        // SAFETY: `&mut self`: no borrow of the region, and so of its memory, is left.
        unsafe { native::ps_rust_region_reset(self.head.as_ptr()) }
    }

    /// Returns retained chunks to the page cache, until at most `keep_bytes` are retained. The
    /// result is the number of bytes returned.
    pub fn trim_to(&mut self, keep_bytes: usize) -> usize {
        // SAFETY: a live region; chunks in use are not returned.
        unsafe { native::ps_rust_region_trim(self.head.as_ptr(), keep_bytes) }
    }

    /// Its name before 0.4.
    #[deprecated(note = "use `trim_to`")]
    pub fn trim(&mut self, keep_bytes: usize) -> usize {
        self.trim_to(keep_bytes)
    }

    /// The region's allocated bytes and the bytes of its chunks.
    #[must_use]
    pub fn usage(&self) -> RegionUsage {
        let mut usage = RegionUsage::default();
        // SAFETY: a live region, and pointers that are valid for a write.
        unsafe {
            native::ps_rust_region_usage(
                self.head.as_ptr(),
                &mut usage.used_bytes,
                &mut usage.held_bytes,
            );
        }
        usage
    }

    /// Memory for a layout; a dangling pointer, aligned, for a size of 0.
    #[inline]
    fn room(&self, layout: Layout) -> NonNull<u8> {
        self.try_room(layout).unwrap_or_else(|_| exhausted())
    }

    #[inline]
    fn try_room(&self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let (bytes, align) = (layout.size(), layout.align());
        if bytes == 0 {
            return Ok(dangling(align));
        }
        let head = self.head.as_ptr();
        // SAFETY: head is live, and as Region is not Sync, no other thread reads or writes it. `at`
        // and `end` are of one chunk, at <= end. ps_region_alloc_aligned is the same in C, where
        // the reasons are: what fits before it is rounded up fits after.
        unsafe {
            let at = (*head).at;
            let room = (*head).end as usize - at as usize;
            if at as usize & (align - 1) == 0 && bytes <= room {
                let unit = align.min(UNIT);
                (*head).at = at.add((bytes + unit - 1) & !(unit - 1));
                return Ok(NonNull::new_unchecked(at));
            }
            NonNull::new(native::ps_rust_region_alloc(head, bytes, align)).ok_or(AllocError)
        }
    }

    /// # Safety
    ///
    /// `block` is a live one of this region with the layout `old`, and is given up where the result
    /// is Ok.
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let place = if old.size() != 0 && new.size() != 0 && old.align() == new.align() {
            // SAFETY: size and alignment are those that the block was allocated or last resized
            // with: results of this allocator are no longer than was asked for.
            let moved = unsafe {
                native::ps_rust_region_resize(
                    self.head.as_ptr(),
                    block.as_ptr(),
                    old.size(),
                    new.size(),
                    old.align(),
                )
            };
            NonNull::new(moved).ok_or(AllocError)?
        } else {
            let place = self.try_room(new)?;
            // SAFETY: two blocks that do not overlap; the old one is the caller's to give up.
            unsafe {
                let bytes = old.size().min(new.size());
                place
                    .as_ptr()
                    .copy_from_nonoverlapping(block.as_ptr(), bytes);
                self.deallocate(block, old);
            }
            place
        };
        Ok(slice_of(place, new.size()))
    }
}

/// A pointer to no byte, aligned.
#[inline]
fn dangling(align: usize) -> NonNull<u8> {
    // SAFETY: alignments are not 0.
    unsafe { NonNull::new_unchecked(ptr::null_mut::<u8>().wrapping_add(align)) }
}

#[inline]
fn slice_of(place: NonNull<u8>, bytes: usize) -> NonNull<[u8]> {
    // SAFETY: place is not NULL.
    unsafe { NonNull::new_unchecked(ptr::slice_from_raw_parts_mut(place.as_ptr(), bytes)) }
}

// SAFETY: blocks remain valid until they are deallocated or the region is reset or dropped. Both
// need that no `&Region` is left, and so neither the allocator nor a copy of it. Moving the
// `Region` moves a pointer. Copies of `&Region` are one allocator, on one thread: see Send.
unsafe impl Allocator for &Region {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Ok(slice_of(self.try_room(layout)?, layout.size()))
    }

    /// Memory returns to the region if the block is its newest, or large.
    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            let (bytes, align) = (layout.size(), layout.align());
            // SAFETY: the caller gives up a block of this region. The layout fits, and results are
            // no longer than was asked for, so the size is that of the last allocation or resize.
            unsafe {
                native::ps_rust_region_free(self.head.as_ptr(), block.as_ptr(), bytes, align);
            }
        }
    }

    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller promises what resize asks for.
        unsafe { self.resize(block, old, new) }
    }

    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: as in grow; then the new bytes are written, which are the caller's.
        unsafe {
            let grown = self.resize(block, old, new)?;
            let added = grown.cast::<u8>().as_ptr().add(old.size());
            added.write_bytes(0, new.size() - old.size());
            Ok(grown)
        }
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller promises what resize asks for.
        unsafe { self.resize(block, old, new) }
    }
}

impl Default for Region {
    fn default() -> Region {
        Region::new()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the last use; nothing borrows the region any more.
        unsafe { native::ps_rust_region_destroy(self.head.as_ptr()) }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Region")
            .field("usage", &self.usage())
            .finish()
    }
}

/// Memory of one region: see [`Region::usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionUsage {
    /// Of blocks, rounding and gaps included.
    pub used_bytes: usize,
    /// Of chunks from the page cache.
    pub held_bytes: usize,
}

const _: () = assert!(size_of::<Region>() == size_of::<usize>());
