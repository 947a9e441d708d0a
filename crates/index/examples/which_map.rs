//! Each map doing what it is for: `cargo run --release -p foreshore-index --example which_map`.

use foreshore_index::{ByteMap, Favour, IntMap, MultiMap, Profile, StaticMap, TunedMap};

fn main() {
    // Integer keys that change: many threads read and write.
    let stock = IntMap::<u64>::new();
    std::thread::scope(|s| {
        for seller in 0..4 {
            let stock = &stock;
            s.spawn(move || (0..1000).for_each(|item| _ = stock.insert(item * 4 + seller, 100)));
        }
    });
    // A change that depends on the value there is one step; `None` would be "not in stock".
    stock.fetch_update(17, |left| left.map(|n| n - 1));
    println!("item 17: {:?} left of 100", stock.get(17));

    // Many lookups at a time.
    let wanted = [1, 17, 3999, 4000];
    let mut found = [None; 4];
    stock.multi_get(&wanted, &mut found);
    println!("items {wanted:?}: {found:?}");

    // Names.
    let names: ByteMap = ByteMap::new();
    names.insert(b"AA428", 1);
    names.insert(b"WN7", 2);
    println!("first flight from B on: {:?}", names.range("B"..).next());

    // Several values a key.
    let by_day = MultiMap::<u32>::new();
    by_day.insert(20111224, 428);
    by_day.insert(20111224, 7);
    println!("flights of 24 December: {:?}", by_day.values(20111224).collect::<Vec<_>>());

    // Built once, then only read.
    let squares = StaticMap::from_sorted((0..1000u32).map(|n| (n * n, n.into())));
    println!("root of 1444: {:?}", squares.get(1444));

    // Nodes that suit this machine: by a profile of `foreshore tune`, or else by its caches.
    let profile = Profile::load("foreshore-tune.toml").unwrap_or_default();
    println!("{:?}", TunedMap::<u64>::tuned(&profile, Favour::Lookups));
}
