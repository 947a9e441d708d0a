//! Narrow integers, and those as wide as an address, as keys: in the nodes of the next wider kind.

use crate::node::int::IntKey;

macro_rules! as_wider {
    ($($key:ty => $wider:ty,)*) => {
        $(
            impl IntKey for $key {
                type Lane = <$wider as IntKey>::Lane;

                #[inline(always)]
                fn to_lane(self) -> Self::Lane {
                    (self as $wider).to_lane()
                }

                #[inline(always)]
                fn from_lane(lane: Self::Lane) -> Self {
                    <$wider>::from_lane(lane) as $key
                }
            }
        )*
    };
}

as_wider! {
    u8 => u32,
    i8 => i32,
    u16 => u32,
    i16 => i32,
    usize => u64,
    isize => i64,
}
