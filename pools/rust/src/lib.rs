// SPDX-License-Identifier: MIT
//! poolshim for Rust: the malloc of a process, regions, and slots with handles.
//!
//! ```
//! use allocator_api2::vec::Vec;
//! use poolshim::{Poolshim, Region, Slots};
//!
//! #[global_allocator] // every Box, Vec and String of the program
//! static GLOBAL: Poolshim = Poolshim;
//!
//! let region = Region::new(); // freed as a whole
//! let mut words = Vec::new_in(&region);
//! words.extend("objects that die together".split(' '));
//! assert_eq!(words.len(), 4);
//!
//! let mut slots = Slots::new(); // objects with handles; stale handles are recognised
//! let handle = slots.insert("object");
//! assert_eq!(slots.remove(handle), Some("object"));
//! assert_eq!(slots.get(handle), None);
//! ```
//!
//! The C library is compiled from its sources and linked in; each item names the functions that it
//! calls. Linux on x86-64 and 64-bit ARM. The crate needs `core` alone.
//!
//! Where memory is exhausted, functions named `try_...` say so, and others panic, which they do
//! before anything has changed.
//!
//! `PS_DEBUG=check` and `PS_DEBUG=malloc` in the environment apply to regions and slots as they do
//! in C: the first checks them, the second makes each block one of libc's malloc, for valgrind. The
//! options of `libpoolshim.so` (`POOLSHIM_...`) are not read: the global allocator has their
//! defaults.

#![no_std]
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]
#![deny(clippy::undocumented_unsafe_blocks)]

mod global;
mod native;
mod region;
mod slots;

pub use global::{trim, usage, Poolshim, Usage};
pub use region::{Region, RegionUsage};
pub use slots::{Handle, Iter, IterMut, Slots};

/// Panics when memory is exhausted: out of line, so that callers are short.
#[cold]
fn exhausted() -> ! {
    panic!("poolshim: memory is exhausted")
}
