//! Any bytes, cut anywhere: the parser does not panic, asks for no more than its limits, and judges them as it judges the
//! whole. The first byte says how long the pieces are.
//!
//! `cargo +nightly fuzz run request` in `crates/server`.

#![no_main]

use foreshore_server::request::{Limits, Parser, ProtocolError};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { request_bytes: 4096, arguments: 32 };

type Parsed = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

fn parse<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> Parsed {
    let (mut parser, mut input, mut requests) = (Parser::new(LIMITS), Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match parser.advance(&input) {
                Ok(Some(bytes)) => {
                    requests.push(parser.args(&input).from(0).map(<[u8]>::to_vec).collect());
                    parser.finish();
                    input.drain(..bytes);
                }
                Ok(None) => break,
                Err(error) => return (requests, Some(error)),
            }
        }
        assert!(input.len() <= LIMITS.request_bytes + piece.len());
    }
    (requests, None)
}

fuzz_target!(|bytes: &[u8]| {
    if let Some((len, bytes)) = bytes.split_first() {
        let len = usize::from(*len).max(1);
        assert_eq!(parse(bytes.chunks(len)), parse(std::iter::once(bytes)));
    }
});
