//! One gzip member (RFC 1952) after another, with one compressor.

use flate2::{Compress, Compression, FlushCompress, Status};

/// Window of 32 KiB, the largest there is.
const WINDOW_BITS: u8 = 15;

/// Compresses members; its 300 KB of state are allocated once.
pub(super) struct GzipMembers {
    compress: Compress,
}

impl GzipMembers {
    /// `level` is 1 (fast) to 9 (small).
    pub(super) fn new(level: u32) -> Self {
        Self { compress: Compress::new_gzip(Compression::new(level.min(9)), WINDOW_BITS) }
    }

    /// Appends one member holding the parts, one after another.
    pub(super) fn append(&mut self, out: &mut Vec<u8>, parts: &[&[u8]]) {
        self.compress.reset();
        for part in parts {
            self.feed(out, part, FlushCompress::None);
        }
        self.feed(out, &[], FlushCompress::Finish);
    }

    fn feed(&mut self, out: &mut Vec<u8>, mut input: &[u8], flush: FlushCompress) {
        let finish = matches!(flush, FlushCompress::Finish);
        loop {
            // Text shrinks to a third or less; what does not grows the buffer as it goes.
            out.reserve((input.len() / 3).max(4096));
            let before = self.compress.total_in();
            let status = self.compress.compress_vec(input, out, flush).expect("the compressor's state is its own");
            input = &input[(self.compress.total_in() - before) as usize..];
            let over = if finish { status == Status::StreamEnd } else { input.is_empty() };
            if over {
                return;
            }
        }
    }
}
