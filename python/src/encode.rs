//! From Python's objects to the bytes of keys and values.
//!
//! In two steps: an object becomes a [`Datum`] of its kind, which is where wrong types and numbers out of range are found;
//! the datum is serialized by the crates that the engine's typed tables use, so that the bytes are the same.

use crate::errors::{OrRaise, argument, encoding};
use crate::kind::{Int, Kind, Kinds};
use foreshore::KeyPrefix;
use foreshore_bindings::Bounds;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use serde::ser::{Serialize, SerializeTuple, Serializer};
use std::borrow::Cow;
use std::ops::Bound as End;

/// An object of a known kind, ready to be written.
enum Datum<'py> {
    Bytes(Bound<'py, PyBytes>),
    Str(Bound<'py, PyString>),
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    F32(f32),
    F64(f64),
    Optional(Option<Box<Datum<'py>>>),
    List(Vec<Datum<'py>>),
    Tuple(Vec<Datum<'py>>),
}

impl<'py> Datum<'py> {
    fn new(kind: &Kind, object: &Bound<'py, PyAny>) -> PyResult<Self> {
        Ok(match kind {
            Kind::Bytes => Datum::Bytes(object.cast::<PyBytes>()?.clone()),
            Kind::Str => {
                let text = object.cast::<PyString>()?;
                text.to_str()?; // Lone surrogates are found here; later it is known to work.
                Datum::Str(text.clone())
            }
            Kind::Bool => Datum::Bool(object.extract()?),
            Kind::Int(int) => Self::int(*int, object)?,
            Kind::F32 => Datum::F32(single(object)?),
            Kind::F64 => Datum::F64(object.extract()?),
            Kind::Optional(_) if object.is_none() => Datum::Optional(None),
            Kind::Optional(kind) => Datum::Optional(Some(Box::new(Self::new(kind, object)?))),
            Kind::List(kind) => {
                let items = object.cast::<PyList>()?.iter();
                Datum::List(items.map(|item| Self::new(kind, &item)).collect::<PyResult<_>>()?)
            }
            Kind::Tuple(kinds) => {
                let parts = object.cast::<PyTuple>()?;
                if parts.len() != kinds.len() {
                    let message = format!("the tuple has {} parts, {} are wanted", parts.len(), kinds.len());
                    return Err(PyTypeError::new_err(message));
                }
                Self::leading(kinds, parts)?
            }
        })
    }

    /// A tuple of which only the leading parts may be there.
    fn leading(kinds: &[Kind], parts: &Bound<'py, PyTuple>) -> PyResult<Self> {
        if parts.len() > kinds.len() {
            let message = format!("the tuple has {} parts, at most {} are wanted", parts.len(), kinds.len());
            return Err(PyTypeError::new_err(message));
        }
        let parts = kinds.iter().zip(parts.iter());
        Ok(Datum::Tuple(parts.map(|(kind, part)| Self::new(kind, &part)).collect::<PyResult<_>>()?))
    }

    fn int(int: Int, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(match int {
            Int::I8 => Datum::I8(fitting(object, "i8")?),
            Int::I16 => Datum::I16(fitting(object, "i16")?),
            Int::I32 => Datum::I32(fitting(object, "i32")?),
            Int::I64 => Datum::I64(fitting(object, "i64")?),
            Int::U8 => Datum::U8(fitting(object, "u8")?),
            Int::U16 => Datum::U16(fitting(object, "u16")?),
            Int::U32 => Datum::U32(fitting(object, "u32")?),
            Int::U64 => Datum::U64(fitting(object, "u64")?),
        })
    }
}

/// The number, if it fits the type.
fn fitting<'py, T: FromPyObjectOwned<'py, Error = PyErr>>(
    object: &Bound<'py, PyAny>,
    kind: &str,
) -> PyResult<T> {
    object.extract().map_err(|error: PyErr| match error.is_instance_of::<PyOverflowError>(object.py()) {
        true => {
            // Python does not write numbers of very many digits.
            let number = object.str().map_or("the number".into(), |digits| digits.to_string());
            PyOverflowError::new_err(format!("{number} does not fit the type {kind}"))
        }
        false => error,
    })
}

/// The nearest `f32`; infinite only if the object is.
fn single(object: &Bound<'_, PyAny>) -> PyResult<f32> {
    let double: f64 = object.extract()?;
    let single = double as f32;
    if single.is_infinite() && double.is_finite() {
        return Err(PyOverflowError::new_err(format!("{double:e} is too large for an f32")));
    }
    Ok(single)
}

impl Serialize for Datum<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // As `Vec<u8>`, a sequence: that is what a typed table in Rust would be of.
            Datum::Bytes(bytes) => serializer.collect_seq(bytes.as_bytes()),
            Datum::Str(text) => serializer.serialize_str(text.to_str().map_err(serde::ser::Error::custom)?),
            Datum::Bool(flag) => serializer.serialize_bool(*flag),
            Datum::I8(number) => serializer.serialize_i8(*number),
            Datum::I16(number) => serializer.serialize_i16(*number),
            Datum::I32(number) => serializer.serialize_i32(*number),
            Datum::I64(number) => serializer.serialize_i64(*number),
            Datum::U8(number) => serializer.serialize_u8(*number),
            Datum::U16(number) => serializer.serialize_u16(*number),
            Datum::U32(number) => serializer.serialize_u32(*number),
            Datum::U64(number) => serializer.serialize_u64(*number),
            Datum::F32(number) => serializer.serialize_f32(*number),
            Datum::F64(number) => serializer.serialize_f64(*number),
            Datum::Optional(None) => serializer.serialize_none(),
            Datum::Optional(Some(datum)) => serializer.serialize_some(&**datum),
            Datum::List(items) => serializer.collect_seq(items),
            Datum::Tuple(parts) => {
                let mut tuple = serializer.serialize_tuple(parts.len())?;
                parts.iter().try_for_each(|part| tuple.serialize_element(part))?;
                tuple.end()
            }
        }
    }
}

fn key_bytes(py: Python<'_>, datum: &impl Serialize) -> PyResult<Vec<u8>> {
    let mut bytes = Vec::new();
    datum
        .serialize(&mut memcomparable::Serializer::new(&mut bytes))
        .map_err(|error| encoding(py, format!("cannot encode the key: {error}")))?;
    Ok(bytes)
}

impl Kinds {
    /// The bytes of a key.
    #[inline]
    pub fn encode_key<'o>(&self, key: &'o Bound<'_, PyAny>) -> PyResult<Cow<'o, [u8]>> {
        if self.raw {
            return Ok(Cow::Borrowed(key.cast::<PyBytes>()?.as_bytes()));
        }
        let bytes = match &self.key {
            // The most frequent kind needs no datum.
            Kind::Str => key_bytes(key.py(), &key.cast::<PyString>()?.to_str()?)?,
            kind => key_bytes(key.py(), &Datum::new(kind, key)?)?,
        };
        Ok(Cow::Owned(bytes))
    }

    /// The bytes of a value.
    #[inline]
    pub fn encode_value<'o>(&self, value: &'o Bound<'_, PyAny>) -> PyResult<Cow<'o, [u8]>> {
        if self.raw {
            return Ok(Cow::Borrowed(value.cast::<PyBytes>()?.as_bytes()));
        }
        let bytes = postcard::to_extend(&Datum::new(&self.value, value)?, Vec::new());
        bytes
            .map(Cow::Owned)
            .map_err(|error| encoding(value.py(), format!("cannot encode the value: {error}")))
    }

    /// The bytes at an end of a range: those of a key, or of the leading parts of a tuple. The latter are below all keys
    /// that begin with them.
    fn encode_end(&self, end: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        match (&self.key, end.cast::<PyTuple>()) {
            (Kind::Tuple(kinds), Ok(parts)) => key_bytes(end.py(), &Datum::leading(kinds, parts)?),
            _ => Ok(self.encode_key(end)?.into_owned()),
        }
    }

    /// The keys from `start` to `stop`; the leading parts of a tuple stand for all keys that begin with them.
    pub fn bounds(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        include_stop: bool,
    ) -> PyResult<Bounds> {
        let from = match start {
            Some(start) => End::Included(self.encode_end(start)?),
            None => End::Unbounded,
        };
        let to = match stop {
            Some(stop) if include_stop => {
                let stop = self.encode_end(stop)?;
                if self.raw { End::Included(stop) } else { Bounds::prefix(&stop).to }
            }
            Some(stop) => End::Excluded(self.encode_end(stop)?),
            // Where `None` is a key it is the first one, and who includes the stop has one.
            None if include_stop && matches!(self.key, Kind::Optional(_)) => Bounds::prefix(&[0]).to,
            None => End::Unbounded,
        };
        Ok(Bounds { from, to })
    }

    /// The keys that begin with `prefix`: some bytes, the beginning of a text or a list, the leading parts of a tuple.
    pub fn prefix(&self, prefix: &Bound<'_, PyAny>) -> PyResult<Bounds> {
        match &self.key {
            Kind::Bytes if self.raw => Ok(Bounds::prefix(prefix.cast::<PyBytes>()?.as_bytes())),
            Kind::Str => {
                let text = prefix.cast::<PyString>()?;
                let (from, to) = <str as KeyPrefix<String>>::bounds(text.to_str()?).or_raise(prefix.py())?;
                Ok(Bounds { from, to })
            }
            Kind::Bytes | Kind::List(_) => {
                let encoded = self.encode_key(prefix)?;
                Ok(Bounds::prefix(&encoded[..encoded.len() - 1])) // without the mark that no element follows
            }
            Kind::Tuple(_) => Ok(Bounds::prefix(&self.encode_end(prefix.cast::<PyTuple>()?)?)),
            kind => {
                Err(argument(prefix.py(), format!("keys of the kind {kind} have no prefixes; use range")))
            }
        }
    }
}
