// SPDX-License-Identifier: MIT
//! A server in small: connections are slots, a request's objects are in a region, and everything
//! else is in the global allocator. `cargo run --example server`

#![forbid(unsafe_code)]

use allocator_api2::vec::Vec;
use poolshim::{Handle, Poolshim, Region, Slots};

#[global_allocator]
static GLOBAL: Poolshim = Poolshim;

struct Connection {
    name: String,
    requests: u32,
}

/// The words of a request in capitals. All of it is in the region, and ends with it.
fn answer<'region>(request: &str, region: &'region Region) -> &'region str {
    let mut words: Vec<&str, &Region> = Vec::new_in(region);
    for word in request.split_whitespace() {
        let copy = region.alloc_str(word);
        copy.make_ascii_uppercase();
        words.push(copy);
    }
    let mut text = Vec::new_in(region);
    for word in &words {
        text.extend_from_slice(word.as_bytes());
        text.push(b' ');
    }
    text.pop();
    std::str::from_utf8(text.leak()).expect("made of texts")
}

fn main() {
    let mut connections = Slots::new();
    let handles: std::vec::Vec<Handle<Connection>> = ["anna", "bert", "cleo"]
        .iter()
        .map(|name| {
            connections.insert(Connection {
                name: name.to_string(),
                requests: 0,
            })
        })
        .collect();

    let mut region = Region::new();
    for (number, handle) in handles.iter().cycle().take(7).enumerate() {
        if number == 4 {
            let closed = connections.remove(handles[0]).expect("open until now");
            println!("{} leaves after {} requests", closed.name, closed.requests);
        }
        match connections.get_mut(*handle) {
            None => println!("request {number}: the connection is closed"),
            Some(connection) => {
                connection.requests += 1;
                let text = answer("a region for each request", &region);
                println!("request {number} of {}: {text}", connection.name);
            }
        }
        region.reset();
    }
    println!("{} connections are left", connections.len());
}
