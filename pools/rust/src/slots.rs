// SPDX-License-Identifier: MIT
//! Slots: `poolshim/slots.h`.

use crate::native::{Cursor, NativeSlots};
use crate::{exhausted, native};
use core::ffi::c_void;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use core::mem::{align_of, needs_drop, size_of};
use core::num::NonZeroU64;
use core::ptr::{self, NonNull};
use core::{fmt, iter};

/// The number of an object in [`Slots`]: its position, and the generation of that position.
///
/// It is a plain number: of a removed object it is stale, of another map it is none, or another
/// object of that map. Neither is unsafe.
pub struct Handle<T> {
    bits: NonZeroU64,
    object: PhantomData<fn() -> T>,
}

impl<T> Handle<T> {
    /// For a reference that leaves the process.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.bits.get()
    }

    /// The handle with these bits; None for 0, which is none. Any other number may be asked for: it
    /// is stale where it is no handle.
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Handle<T>> {
        NonZeroU64::new(bits).map(|bits| Handle {
            bits,
            object: PhantomData,
        })
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        *self
    }
}
impl<T> Copy for Handle<T> {}
impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Handle<T>) -> bool {
        self.bits == other.bits
    }
}
impl<T> Eq for Handle<T> {}
impl<T> Hash for Handle<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits.hash(state);
    }
}
impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Handle({:#x})", self.bits)
    }
}

/// Objects with handles; stale handles are recognised: a slot map.
///
/// ```
/// use poolshim::Slots;
///
/// let mut timers = Slots::new();
/// let first = timers.insert("first");
/// let second = timers.insert("second");
/// assert_eq!(timers.remove(first), Some("first"));
/// let third = timers.insert("third"); // at the same place, by another handle
/// assert!(timers.get(first).is_none() && timers[third] == "third");
/// assert_eq!(timers.iter().count(), 2);
/// assert!(timers.contains(second));
/// ```
///
/// A remove ends the generation of a position, and none comes twice: after 2^31 - 1 objects a
/// position is used up. Objects do not move from insert to remove, so references to them would be
/// valid as long, but borrow the map as those of a `Vec` do.
///
/// Insert, get and remove are calls of the inlined functions of C, ps_slots_insert, ps_slots_get
/// and ps_slots_remove. Alignments above 4096 are refused.
pub struct Slots<T> {
    native: NativeOwner,
    object: PhantomData<T>,
}

/// Ends the C structure after the objects, also where the destructor of one panics.
struct NativeOwner(NonNull<NativeSlots>);

impl Drop for NativeOwner {
    fn drop(&mut self) {
        // SAFETY: the last use. Objects are uninitialised memory by now, or leaked.
        unsafe { native::ps_rust_slots_destroy(self.0.as_ptr()) }
    }
}

// SAFETY: the objects belong to the map, which belongs to no thread. Gets and iterations by several
// threads at once are allowed in C while none changes the map, which takes `&mut` here.
unsafe impl<T: Send> Send for Slots<T> {}
// SAFETY: as above; `&Slots` gives out `&T` only.
unsafe impl<T: Sync> Sync for Slots<T> {}

impl<T> Slots<T> {
    /// An empty map. Panics where memory is exhausted, and where T is aligned to more than 4096.
    #[must_use]
    pub fn new() -> Slots<T> {
        Slots::with_limit(0)
    }

    /// As [`new`](Slots::new), for no more than `max_items` objects at a time; 0: no limit.
    #[must_use]
    pub fn with_limit(max_items: usize) -> Slots<T> {
        assert!(
            align_of::<T>() <= 4096,
            "poolshim: slots for objects aligned to more than 4096"
        );
        // SAFETY: size and alignment are those of a type; a size of 0 counts as 1.
        let made =
            unsafe { native::ps_rust_slots_create(size_of::<T>(), align_of::<T>(), max_items) };
        let native = NativeOwner(NonNull::new(made).unwrap_or_else(|| exhausted()));
        Slots {
            native,
            object: PhantomData,
        }
    }

    fn raw(&self) -> *mut NativeSlots {
        self.native.0.as_ptr()
    }

    /// Adds an object. Panics where [`try_insert`](Slots::try_insert) returns it.
    pub fn insert(&mut self, value: T) -> Handle<T> {
        match self.try_insert(value) {
            Ok(handle) => handle,
            Err(_) => exhausted(),
        }
    }

    /// Adds an object. Returns it where memory is exhausted, as many objects live as the limit
    /// allows, or all positions are used up.
    pub fn try_insert(&mut self, value: T) -> Result<Handle<T>, T> {
        let mut place: *mut c_void = ptr::null_mut();
        // SAFETY: `&mut self`: no other thread is inside.
        let bits = unsafe { native::ps_rust_slots_insert(self.raw(), &mut place) };
        match Handle::from_bits(bits) {
            None => Err(value),
            Some(handle) => {
                // SAFETY: fresh memory of T's size and alignment, which no reference leads to.
                unsafe { place.cast::<T>().write(value) };
                Ok(handle)
            }
        }
    }

    /// Where a live object is.
    fn find(&self, handle: Handle<T>) -> Option<NonNull<T>> {
        // SAFETY: any number may be asked for. Not NULL: a live object, which try_insert has
        // written, and which does not move until remove.
        let place = unsafe { native::ps_rust_slots_get(self.raw(), handle.to_bits()) };
        NonNull::new(place.cast::<T>())
    }

    /// The object; None: it was removed.
    #[must_use]
    pub fn get(&self, handle: Handle<T>) -> Option<&T> {
        // SAFETY: a live object; it is not changed or removed while the result borrows the map.
        self.find(handle).map(|place| unsafe { &*place.as_ptr() })
    }

    /// The object, to be changed; None: it was removed.
    #[must_use]
    pub fn get_mut(&mut self, handle: Handle<T>) -> Option<&mut T> {
        // SAFETY: as in get; `&mut self`: it is the only reference to the object.
        self.find(handle)
            .map(|place| unsafe { &mut *place.as_ptr() })
    }

    /// True where the object was not removed.
    #[must_use]
    pub fn contains(&self, handle: Handle<T>) -> bool {
        self.find(handle).is_some()
    }

    /// Takes the object out: its handles are stale from then on. None: they were.
    pub fn remove(&mut self, handle: Handle<T>) -> Option<T> {
        let place = self.find(handle)?;
        // SAFETY: a live object, which is moved out and then forgotten by the map, which does not
        // touch its contents before. The handle is live, so the remove succeeds.
        unsafe {
            let value = place.as_ptr().read();
            let is_removed = native::ps_rust_slots_remove(self.raw(), handle.to_bits());
            debug_assert!(is_removed);
            Some(value)
        }
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        // SAFETY: a live map.
        unsafe { native::ps_rust_slots_count(self.raw()) }
    }

    /// True where there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all objects: all handles become stale. Retains the memory.
    pub fn reset(&mut self) {
        if needs_drop::<T>() {
            Drain {
                cursor: Cursor::START,
                slots: self,
            }
            .run();
        } else {
            // SAFETY: `&mut self`; nothing is to be dropped.
            unsafe { native::ps_slots_reset(self.raw()) }
        }
    }

    /// Takes memory now for so many more inserts. False where that is not possible.
    pub fn try_reserve(&mut self, count: usize) -> bool {
        // SAFETY: `&mut self`; objects do not move.
        unsafe { native::ps_slots_reserve(self.raw(), count) }
    }

    /// Its name before 0.4.
    #[deprecated(note = "use `reset`")]
    pub fn clear(&mut self) {
        self.reset();
    }

    /// Returns memory without live objects, except `keep_bytes` of it; the result is how much.
    /// Stale handles remain stale.
    pub fn trim_to(&mut self, keep_bytes: usize) -> usize {
        // SAFETY: `&mut self`: no reference to an object is left, and no iteration.
        unsafe { native::ps_slots_trim_to(self.raw(), keep_bytes) }
    }

    /// `trim_to(0)`.
    #[deprecated(note = "use `trim_to(0)`")]
    pub fn trim(&mut self) -> usize {
        self.trim_to(0)
    }

    /// The objects with their handles, in order of position.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, T> {
        Iter {
            walk: Walk::new(self),
            slots: PhantomData,
        }
    }

    /// The same, to be changed.
    #[must_use]
    pub fn iter_mut(&mut self) -> IterMut<'_, T> {
        IterMut {
            walk: Walk::new(self),
            slots: PhantomData,
        }
    }
}

/// Takes out and drops one object after the other; if one panics, the rest all the same.
struct Drain<'a, T> {
    cursor: Cursor,
    slots: &'a mut Slots<T>,
}

impl<T> Drain<'_, T> {
    fn run(&mut self) {
        // SAFETY: between two steps, objects may be removed, also the last one returned.
        while let Some((handle, _)) = unsafe { step::<T>(self.slots.raw(), &mut self.cursor) } {
            drop(self.slots.remove(handle));
        }
    }
}

impl<T> Drop for Drain<'_, T> {
    fn drop(&mut self) {
        self.run();
    }
}

/// The next live object.
///
/// # Safety
///
/// The map lives, and was not trimmed since the cursor started.
unsafe fn step<T>(
    slots: *const NativeSlots,
    cursor: &mut Cursor,
) -> Option<(Handle<T>, NonNull<T>)> {
    // SAFETY: the caller's promise.
    let place = NonNull::new(unsafe { native::ps_rust_slots_next(slots, cursor) })?;
    // SAFETY: a live object.
    let bits = unsafe { native::ps_rust_slots_handle(place.as_ptr()) };
    Handle::from_bits(bits).map(|handle| (handle, place.cast::<T>()))
}

/// A walk over a map that is borrowed meanwhile.
struct Walk<T> {
    slots: *const NativeSlots,
    cursor: Cursor,
    left: usize,
    object: PhantomData<*const T>,
}

impl<T> Walk<T> {
    fn new(slots: &Slots<T>) -> Walk<T> {
        let (cursor, left) = (Cursor::START, slots.len());
        Walk {
            slots: slots.raw(),
            cursor,
            left,
            object: PhantomData,
        }
    }

    fn next(&mut self) -> Option<(Handle<T>, NonNull<T>)> {
        // SAFETY: the iterators below borrow the map, so it neither ends nor changes.
        let found = unsafe { step(self.slots, &mut self.cursor) };
        self.left -= usize::from(found.is_some());
        found
    }
}

/// See [`Slots::iter`].
pub struct Iter<'a, T> {
    walk: Walk<T>,
    slots: PhantomData<&'a Slots<T>>,
}

// SAFETY: an iterator is a shared reference to the map, and a place in it.
unsafe impl<T: Sync> Send for Iter<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Iter<'_, T> {}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = (Handle<T>, &'a T);

    fn next(&mut self) -> Option<(Handle<T>, &'a T)> {
        // SAFETY: a live object, borrowed with the map.
        self.walk
            .next()
            .map(|(handle, place)| (handle, unsafe { &*place.as_ptr() }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.walk.left, Some(self.walk.left))
    }
}
impl<T> ExactSizeIterator for Iter<'_, T> {}
impl<T> iter::FusedIterator for Iter<'_, T> {}

/// See [`Slots::iter_mut`].
pub struct IterMut<'a, T> {
    walk: Walk<T>,
    slots: PhantomData<&'a mut Slots<T>>,
}

// SAFETY: an iterator is the only reference to the map, and a place in it.
unsafe impl<T: Send> Send for IterMut<'_, T> {}
// SAFETY: nothing can be done through a shared reference to it.
unsafe impl<T: Sync> Sync for IterMut<'_, T> {}

impl<'a, T> Iterator for IterMut<'a, T> {
    type Item = (Handle<T>, &'a mut T);

    fn next(&mut self) -> Option<(Handle<T>, &'a mut T)> {
        // SAFETY: a live object, which is returned once; the map is borrowed for as long.
        self.walk
            .next()
            .map(|(handle, place)| (handle, unsafe { &mut *place.as_ptr() }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.walk.left, Some(self.walk.left))
    }
}
impl<T> ExactSizeIterator for IterMut<'_, T> {}
impl<T> iter::FusedIterator for IterMut<'_, T> {}

impl<'a, T> IntoIterator for &'a Slots<T> {
    type Item = (Handle<T>, &'a T);
    type IntoIter = Iter<'a, T>;
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}
impl<'a, T> IntoIterator for &'a mut Slots<T> {
    type Item = (Handle<T>, &'a mut T);
    type IntoIter = IterMut<'a, T>;
    fn into_iter(self) -> IterMut<'a, T> {
        self.iter_mut()
    }
}

impl<T> core::ops::Index<Handle<T>> for Slots<T> {
    type Output = T;
    /// Panics where the handle is stale.
    fn index(&self, handle: Handle<T>) -> &T {
        self.get(handle).expect("poolshim: a stale handle")
    }
}
impl<T> core::ops::IndexMut<Handle<T>> for Slots<T> {
    /// Panics where the handle is stale.
    fn index_mut(&mut self, handle: Handle<T>) -> &mut T {
        self.get_mut(handle).expect("poolshim: a stale handle")
    }
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots::new()
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        if needs_drop::<T>() {
            self.reset();
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Slots<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.iter()).finish()
    }
}
