// SPDX-License-Identifier: MIT
//! What the standard library allocates is seen in the engine's figures. One test, as the figures
//! are those of the process.

use poolshim::Poolshim;
use std::collections::{BTreeMap, HashMap};

#[global_allocator]
static GLOBAL: Poolshim = Poolshim;

#[test]
fn collections_of_the_standard_library_live_in_it() {
    let before = poolshim::usage();
    let large = vec![1_u8; 48 << 20];
    let during = poolshim::usage();
    assert!(
        during.live_bytes >= before.live_bytes + (40 << 20),
        "{before:?} {during:?}"
    );
    assert!(during.mapped_bytes >= during.live_bytes);
    assert_eq!(
        large.iter().map(|byte| usize::from(*byte)).sum::<usize>(),
        48 << 20
    );
    drop(large);
    poolshim::trim();

    let mut hashed = HashMap::new();
    let mut sorted = BTreeMap::new();
    for number in 0..5000_u32 {
        hashed.insert(number, number.to_string());
        sorted.insert(number.to_string(), vec![number; (number % 7) as usize]);
    }
    hashed.retain(|number, _| number % 3 == 0);
    assert!(hashed
        .iter()
        .all(|(number, text)| sorted.contains_key(text) && number % 3 == 0));
}
