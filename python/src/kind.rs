//! What keys and values of a table are, as a program says it with Python's types.

use crate::errors::argument;
use foreshore::Types;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyNone, PyString, PyTuple, PyType};
use std::fmt;

/// A kind of key or value; each is a Rust type, whose encoding it shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `bytes`: `Vec<u8>`.
    Bytes,
    /// `str`: `String`.
    Str,
    /// `bool`.
    Bool,
    /// `int` is `i64`; the others are called by name.
    Int(Int),
    /// `"f32"`.
    F32,
    /// `float`: `f64`.
    F64,
    /// `T | None`: `Option<T>`.
    Optional(Box<Kind>),
    /// `list[T]`: `Vec<T>`.
    List(Box<Kind>),
    /// `(A, B)` or `tuple[A, B]`.
    Tuple(Vec<Kind>),
}

/// An integer of Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Int {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

/// How deep kinds may be nested: objects are read and written as deep, on the stack.
const DEPTH_MAX: usize = 100;

impl Kind {
    /// Reads a kind: one of Python's types, the name of one of Rust's, or a combination of them.
    pub fn of(described: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::nested(described, 0)
    }

    fn nested(described: &Bound<'_, PyAny>, depth: usize) -> PyResult<Self> {
        if depth > DEPTH_MAX {
            return Err(argument(described.py(), format!("types are nested at most {DEPTH_MAX} deep")));
        }
        let kind = if let Ok(name) = described.cast::<PyString>() {
            Self::named(name.to_str()?)
        } else if let Ok(name) = described.getattr("__forward_arg__") {
            Self::named(name.cast::<PyString>()?.to_str()?) // as `typing.Optional["u32"]` keeps it
        } else if let Ok(class) = described.cast_exact::<PyType>() {
            Self::of_class(class)
        } else if let Ok(parts) = described.cast::<PyTuple>() {
            Some(Self::tuple(parts, depth)?)
        } else {
            Self::generic(described, depth)?
        };
        kind.ok_or_else(|| {
            let message = format!(
                "no table can hold {described}; there are bytes, str, int, float, bool, the names of Rust's numbers such as \
                 \"u32\", T | None, list[T], and tuples of these"
            );
            argument(described.py(), message)
        })
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "i8" => Kind::Int(Int::I8),
            "i16" => Kind::Int(Int::I16),
            "i32" => Kind::Int(Int::I32),
            "i64" => Kind::Int(Int::I64),
            "u8" => Kind::Int(Int::U8),
            "u16" => Kind::Int(Int::U16),
            "u32" => Kind::Int(Int::U32),
            "u64" => Kind::Int(Int::U64),
            "f32" => Kind::F32,
            "f64" => Kind::F64,
            _ => return None,
        })
    }

    fn of_class(class: &Bound<'_, PyType>) -> Option<Self> {
        let py = class.py();
        [
            (py.get_type::<PyBytes>(), Kind::Bytes),
            (py.get_type::<PyString>(), Kind::Str),
            (py.get_type::<PyBool>(), Kind::Bool),
            (py.get_type::<PyInt>(), Kind::Int(Int::I64)),
            (py.get_type::<PyFloat>(), Kind::F64),
        ]
        .into_iter()
        .find_map(|(known, kind)| class.is(&known).then_some(kind))
    }

    fn tuple(parts: &Bound<'_, PyTuple>, depth: usize) -> PyResult<Self> {
        parts.iter().map(|part| Self::nested(&part, depth + 1)).collect::<PyResult<_>>().map(Kind::Tuple)
    }

    /// A list is stored as its length and its items. Where these take no bytes, any number that is read for a length is believed, and
    /// the list of so many is made, be it larger than the memory.
    fn list(described: &Bound<'_, PyAny>, item: Kind) -> PyResult<Self> {
        if item.takes_no_bytes() {
            let message =
                format!("the items of {described} take no bytes; store how many there are, as an int");
            return Err(argument(described.py(), message));
        }
        Ok(Kind::List(Box::new(item)))
    }

    /// As tables remember it: a tuple is its parts, one after the other.
    fn parts(&self) -> String {
        match self {
            Kind::Optional(kind) => format!("Option<{}>", kind.parts()),
            Kind::List(kind) => format!("Vec<{}>", kind.parts()),
            Kind::Tuple(kinds) => {
                let parts: Vec<_> = kinds.iter().map(Kind::parts).filter(|parts| !parts.is_empty()).collect();
                parts.join(",")
            }
            plain => plain.to_string(),
        }
    }

    fn takes_no_bytes(&self) -> bool {
        matches!(self, Kind::Tuple(parts) if parts.iter().all(Kind::takes_no_bytes))
    }

    /// `tuple[A, B]`, `list[T]`, `T | None`.
    fn generic(described: &Bound<'_, PyAny>, depth: usize) -> PyResult<Option<Self>> {
        let py = described.py();
        let Ok(args) = described.getattr("__args__").and_then(|args| Ok(args.cast_into::<PyTuple>()?)) else {
            return Ok(None);
        };
        let origin = described.getattr("__origin__").ok();
        let origin_is = |class: Bound<'_, PyType>| origin.as_ref().is_some_and(|origin| origin.is(&class));
        if origin_is(py.get_type::<PyTuple>()) {
            return Self::tuple(&args, depth).map(Some);
        }
        if origin_is(py.get_type::<PyList>()) {
            return match args.len() {
                1 => Self::list(described, Self::nested(&args.get_item(0)?, depth + 1)?).map(Some),
                _ => Ok(None),
            };
        }
        // `T | None` has no origin before Python 3.14, and `typing.Dict[T, None]` has arguments, too.
        let union = py.import("typing")?.getattr("Union")?;
        if origin.is_some_and(|origin| !origin.is(&union)) {
            return Ok(None);
        }
        let none = py.get_type::<PyNone>();
        match (args.len(), args.iter().find(|arg| !arg.is(&none))) {
            (2, Some(present)) if args.iter().any(|arg| arg.is(&none)) => {
                Ok(Some(Kind::Optional(Box::new(Self::nested(&present, depth + 1)?))))
            }
            _ => Ok(None),
        }
    }
}

/// As in Rust.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Bytes => write!(f, "Vec<u8>"),
            Kind::Str => write!(f, "String"),
            Kind::Bool => write!(f, "bool"),
            Kind::Int(int) => write!(f, "{}", format!("{int:?}").to_lowercase()),
            Kind::F32 => write!(f, "f32"),
            Kind::F64 => write!(f, "f64"),
            Kind::Optional(kind) => write!(f, "Option<{kind}>"),
            Kind::List(kind) => write!(f, "Vec<{kind}>"),
            Kind::Tuple(kinds) => {
                let kinds: Vec<_> = kinds.iter().map(Kind::to_string).collect();
                write!(f, "({}{})", kinds.join(", "), if kinds.len() == 1 { "," } else { "" })
            }
        }
    }
}

/// What a table's rows are.
#[derive(Debug)]
pub struct Kinds {
    /// Of the keys.
    pub key: Kind,
    /// Of the values.
    pub value: Kind,
    /// Are both byte strings as they are, without an encoding? So are they where both are `bytes`, as in Rust's `ByteTable`.
    pub raw: bool,
}

impl Kinds {
    /// The kinds of a table's keys and values.
    pub fn new(key: Kind, value: Kind) -> Self {
        let raw = key == Kind::Bytes && value == Kind::Bytes;
        Self { key, value, raw }
    }

    /// What the table is to remember, and have.
    pub fn types(&self) -> Option<Types> {
        (!self.raw).then(|| Types::named(&self.key.parts(), &self.value.parts()))
    }
}
