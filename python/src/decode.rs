//! From the bytes of keys and values to Python's objects.

use crate::errors::encoding;
use crate::kind::{Int, Kind, Kinds};
use foreshore::Endless;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;

/// Reads an object of a kind.
#[derive(Clone, Copy)]
struct Seed<'k, 'py> {
    kind: &'k Kind,
    py: Python<'py>,
}

impl<'k, 'py> Seed<'k, 'py> {
    fn of(self, kind: &'k Kind) -> Self {
        Self { kind, ..self }
    }

    fn int<'de, D: Deserializer<'de>>(
        self,
        int: Int,
        deserializer: D,
    ) -> Result<Bound<'py, PyAny>, D::Error> {
        match int {
            Int::I8 => self.object(i8::deserialize(deserializer)?),
            Int::I16 => self.object(i16::deserialize(deserializer)?),
            Int::I32 => self.object(i32::deserialize(deserializer)?),
            Int::I64 => self.object(i64::deserialize(deserializer)?),
            Int::U8 => self.object(u8::deserialize(deserializer)?),
            Int::U16 => self.object(u16::deserialize(deserializer)?),
            Int::U32 => self.object(u32::deserialize(deserializer)?),
            Int::U64 => self.object(u64::deserialize(deserializer)?),
        }
    }

    fn object<E: Error>(self, value: impl IntoPyObjectExt<'py>) -> Result<Bound<'py, PyAny>, E> {
        value.into_bound_py_any(self.py).map_err(E::custom)
    }
}

impl<'de, 'py> DeserializeSeed<'de> for Seed<'_, 'py> {
    type Value = Bound<'py, PyAny>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.kind {
            Kind::Bytes => self.object(PyBytes::new(self.py, &Vec::<u8>::deserialize(deserializer)?)),
            Kind::Str => deserializer.deserialize_string(self),
            Kind::Bool => self.object(bool::deserialize(deserializer)?),
            Kind::Int(int) => self.int(*int, deserializer),
            Kind::F32 => self.object(f32::deserialize(deserializer)?),
            Kind::F64 => self.object(f64::deserialize(deserializer)?),
            Kind::Optional(_) => deserializer.deserialize_option(self),
            Kind::List(_) => deserializer.deserialize_seq(self),
            Kind::Tuple(kinds) => deserializer.deserialize_tuple(kinds.len(), self),
        }
    }
}

impl<'de, 'py> Visitor<'de> for Seed<'_, 'py> {
    type Value = Bound<'py, PyAny>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(PyString::new(self.py, text).into_any())
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(self.py.None().into_bound(self.py))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        match self.kind {
            Kind::Optional(kind) => self.of(kind).deserialize(deserializer),
            _ => Err(D::Error::custom("an option was not expected")),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        match self.kind {
            Kind::List(kind) => {
                while let Some(item) = seq.next_element_seed(self.of(kind))? {
                    items.push(item);
                }
                PyList::new(self.py, items).map(Bound::into_any).map_err(A::Error::custom)
            }
            Kind::Tuple(kinds) => {
                for (at, kind) in kinds.iter().enumerate() {
                    let part = seq.next_element_seed(self.of(kind))?;
                    items.push(part.ok_or_else(|| A::Error::invalid_length(at, &self))?);
                }
                PyTuple::new(self.py, items).map(Bound::into_any).map_err(A::Error::custom)
            }
            _ => Err(A::Error::custom("a sequence was not expected")),
        }
    }
}

impl Kinds {
    /// The key that was encoded as `bytes`.
    pub fn decode_key<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        if self.raw {
            return Ok(PyBytes::new(py, bytes).into_any());
        }
        let mut deserializer = memcomparable::Deserializer::new(Endless::new(bytes));
        let key = (Seed { kind: &self.key, py }).deserialize(&mut deserializer);
        deserializer.into_inner().whole(key).map_err(|error| not_of_the_kind(py, "key", &self.key, error))
    }

    /// The value that was encoded as `bytes`.
    #[inline]
    pub fn decode_value<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        if self.raw {
            return Ok(PyBytes::new(py, bytes).into_any());
        }
        let mut deserializer = postcard::Deserializer::from_bytes(bytes);
        let value = (Seed { kind: &self.value, py }).deserialize(&mut deserializer);
        match value.and_then(|value| Ok((value, deserializer.finalize()?))) {
            Ok((value, [])) => Ok(value),
            Ok(_) => Err(not_of_the_kind(py, "value", &self.value, "there are bytes too many")),
            Err(error) => Err(not_of_the_kind(py, "value", &self.value, error)),
        }
    }
}

fn not_of_the_kind(py: Python<'_>, what: &str, kind: &Kind, detail: impl fmt::Display) -> PyErr {
    let message = format!(
        "a {what} of the table is no {kind} ({detail}); open the table with the types it was written with"
    );
    encoding(py, message)
}
