//! What a type reads: a deserializer that writes down what it is asked for.
//!
//! Types say of what they consist only while they are read, so one is read from nothing: all numbers are one, all texts empty, lists
//! have one element, options something, enums their first variant. Where a type refuses that, or goes on without an end, what it
//! has asked for so far has to do.

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor, value::U32Deserializer,
};
use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// So deep may types lie in each other.
const DEPTH_MAX: usize = 8;

/// Longer texts are of no use.
const BYTES_MAX: usize = 256;

/// What `T` reads, from a format that people read (`human`: keys are in one) or another.
pub(super) fn traced<T: DeserializeOwned>(human: bool) -> String {
    let mut trace = Trace { text: String::new(), depth: 0, human };
    // It has never met such a value, and may panic; what it was doing then is given up.
    let read = catch_unwind(AssertUnwindSafe(|| T::deserialize(&mut trace).map(drop)));
    if !matches!(read, Ok(Ok(()))) {
        trace.text.push('…');
    }
    trace.text
}

/// See the module.
struct Trace {
    text: String,
    depth: usize,
    human: bool,
}

/// The type goes no further; nobody is told why.
#[derive(Debug)]
struct Stopped;

impl Trace {
    /// The type reads one of these next.
    fn part(&mut self, name: &str) -> Result<(), Stopped> {
        if !self.text.is_empty() && !self.text.ends_with('<') {
            self.text.push(',');
        }
        self.text.push_str(name);
        if self.text.len() > BYTES_MAX { Err(Stopped) } else { Ok(()) }
    }

    /// The type reads what `inner` does next, within a `name`.
    fn within<R>(
        &mut self,
        name: &str,
        inner: impl FnOnce(&mut Self) -> Result<R, Stopped>,
    ) -> Result<R, Stopped> {
        self.part(name)?;
        if self.depth == DEPTH_MAX {
            return Err(Stopped);
        }
        self.text.push('<');
        self.depth += 1;
        let read = inner(self)?;
        self.depth -= 1;
        self.text.push('>');
        Ok(read)
    }
}

/// A call that reads one number or the like.
macro_rules! reads {
    ($($call:ident $name:literal $visit:ident $sample:expr;)*) => {
        $(fn $call<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
            self.part($name)?;
            visitor.$visit($sample)
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Trace {
    type Error = Stopped;

    reads! {
        deserialize_bool "bool" visit_bool true;
        deserialize_i8 "i8" visit_i8 1;
        deserialize_i16 "i16" visit_i16 1;
        deserialize_i32 "i32" visit_i32 1;
        deserialize_i64 "i64" visit_i64 1;
        deserialize_i128 "i128" visit_i128 1;
        deserialize_u8 "u8" visit_u8 1;
        deserialize_u16 "u16" visit_u16 1;
        deserialize_u32 "u32" visit_u32 1;
        deserialize_u64 "u64" visit_u64 1;
        deserialize_u128 "u128" visit_u128 1;
        deserialize_f32 "f32" visit_f32 1.0;
        deserialize_f64 "f64" visit_f64 1.0;
        deserialize_char "char" visit_char 'a';
        deserialize_str "String" visit_str "";
        deserialize_string "String" visit_str "";
        deserialize_bytes "ByteBuf" visit_bytes &[];
        deserialize_byte_buf "ByteBuf" visit_bytes &[];
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        self.within("Option", |trace| visitor.visit_some(trace))
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stopped> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stopped> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        self.within("Vec", |trace| visitor.visit_seq(Parts { trace, left: 1 }))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Stopped> {
        visitor.visit_seq(Parts { trace: self, left: len })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Stopped> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stopped> {
        self.within("Vec", |trace| visitor.visit_map(Parts { trace, left: 1 }))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stopped> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stopped> {
        self.within("enum", |trace| visitor.visit_enum(FirstVariant(trace)))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stopped> {
        Err(Stopped)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stopped> {
        Err(Stopped)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stopped> {
        Err(Stopped)
    }

    fn is_human_readable(&self) -> bool {
        self.human
    }
}

/// So many elements, fields or entries.
struct Parts<'a> {
    trace: &'a mut Trace,
    left: usize,
}

impl Parts<'_> {
    fn next(&mut self) -> Option<&mut Trace> {
        self.left = self.left.checked_sub(1)?;
        Some(self.trace)
    }
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = Stopped;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Stopped> {
        self.next().map(|trace| seed.deserialize(trace)).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> MapAccess<'de> for Parts<'_> {
    type Error = Stopped;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Stopped> {
        self.next().map(|trace| seed.deserialize(trace)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Stopped> {
        seed.deserialize(&mut *self.trace)
    }
}

/// The variant that an enum has at least.
struct FirstVariant<'a>(&'a mut Trace);

impl<'de> EnumAccess<'de> for FirstVariant<'_> {
    type Error = Stopped;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Stopped> {
        let first: U32Deserializer<Stopped> = 0_u32.into_deserializer();
        Ok((seed.deserialize(first)?, self))
    }
}

impl<'de> VariantAccess<'de> for FirstVariant<'_> {
    type Error = Stopped;

    fn unit_variant(self) -> Result<(), Stopped> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Stopped> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Stopped> {
        self.0.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stopped> {
        self.0.deserialize_tuple(fields.len(), visitor)
    }
}

impl Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Stopped {}

impl Error for Stopped {
    fn custom<T: Display>(_: T) -> Self {
        Self
    }
}
