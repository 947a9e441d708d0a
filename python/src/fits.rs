//! Are bytes what they are taken for? Told without Python, for a transaction that asks before it takes a row away.

use crate::kind::{Int, Kind, Kinds};
use foreshore::Endless;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;

/// Reads over what is of a kind.
#[derive(Clone, Copy)]
struct Over<'k>(&'k Kind);

impl<'de> DeserializeSeed<'de> for Over<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.0 {
            Kind::Bytes => Vec::<u8>::deserialize(deserializer).map(drop),
            Kind::Str => String::deserialize(deserializer).map(drop),
            Kind::Bool => bool::deserialize(deserializer).map(drop),
            Kind::Int(Int::I8) => i8::deserialize(deserializer).map(drop),
            Kind::Int(Int::I16) => i16::deserialize(deserializer).map(drop),
            Kind::Int(Int::I32) => i32::deserialize(deserializer).map(drop),
            Kind::Int(Int::I64) => i64::deserialize(deserializer).map(drop),
            Kind::Int(Int::U8) => u8::deserialize(deserializer).map(drop),
            Kind::Int(Int::U16) => u16::deserialize(deserializer).map(drop),
            Kind::Int(Int::U32) => u32::deserialize(deserializer).map(drop),
            Kind::Int(Int::U64) => u64::deserialize(deserializer).map(drop),
            Kind::F32 => f32::deserialize(deserializer).map(drop),
            Kind::F64 => f64::deserialize(deserializer).map(drop),
            Kind::Optional(_) => deserializer.deserialize_option(self),
            Kind::List(_) => deserializer.deserialize_seq(self),
            Kind::Tuple(kinds) => deserializer.deserialize_tuple(kinds.len(), self),
        }
    }
}

impl<'de> Visitor<'de> for Over<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.0 {
            Kind::Optional(kind) => Over(kind).deserialize(deserializer),
            _ => Err(D::Error::custom("an option was not expected")),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        match self.0 {
            Kind::List(kind) => {
                while seq.next_element_seed(Over(kind))?.is_some() {}
                Ok(())
            }
            Kind::Tuple(kinds) => kinds.iter().enumerate().try_for_each(|(at, kind)| {
                let part = seq.next_element_seed(Over(kind))?;
                part.ok_or_else(|| A::Error::invalid_length(at, &self))
            }),
            _ => Err(A::Error::custom("a sequence was not expected")),
        }
    }
}

impl Kinds {
    /// Can the row be decoded?
    pub fn fit(&self, key: &[u8], value: &[u8]) -> bool {
        self.fits_key(key) && self.fits_value(value)
    }

    fn fits_key(&self, bytes: &[u8]) -> bool {
        if self.raw {
            return true;
        }
        let mut deserializer = memcomparable::Deserializer::new(Endless::new(bytes));
        let read = Over(&self.key).deserialize(&mut deserializer);
        deserializer.into_inner().whole(read).is_ok()
    }

    /// Can the value be decoded?
    pub fn fits_value(&self, bytes: &[u8]) -> bool {
        if self.raw {
            return true;
        }
        let mut deserializer = postcard::Deserializer::from_bytes(bytes);
        let read = Over(&self.value).deserialize(&mut deserializer);
        read.is_ok() && deserializer.finalize().is_ok_and(<[u8]>::is_empty)
    }
}
