//! Memory for filters: zeroed, aligned to pages, in huge pages where the system gives them.

use std::io::{self, Read, Write};

use bytemuck::Pod;
use memmap2::MmapMut;

/// Below this size a table comes from the allocator: the kernel's mappings are for large ones.
const MAPPED_FROM: usize = 1 << 20;

/// Bytes moved at once by [`Memory::save`] and [`Memory::load`]; a multiple of every `T`.
const CHUNK: usize = 1 << 16;

/// A fixed number of zeroed values.
///
/// A large one is mapped from the kernel with the advice to use huge pages, which makes a random
/// read of it a third cheaper: fewer misses of the address cache. Pages never written take no memory.
pub(crate) enum Memory<T: Pod> {
    Mapped(MmapMut, std::marker::PhantomData<T>),
    Allocated(Vec<T>),
}

impl<T: Pod> Memory<T> {
    /// `len` zeroed values.
    pub(crate) fn zeroed(len: usize) -> Self {
        let bytes = len.saturating_mul(size_of::<T>());
        if bytes >= MAPPED_FROM
            && let Ok(map) = MmapMut::map_anon(bytes)
        {
            // Only advice: where the kernel has no huge pages it says so, and nothing is lost.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            return Self::Mapped(map, std::marker::PhantomData);
        }
        Self::Allocated(vec![T::zeroed(); len])
    }

    /// A copy.
    pub(crate) fn duplicate(&self) -> Self {
        let mut copy = Self::zeroed(self.values().len());
        copy.values_mut().copy_from_slice(self.values());
        copy
    }

    pub(crate) fn values(&self) -> &[T] {
        match self {
            // The kernel maps whole pages, so they are aligned for every `T` here.
            Self::Mapped(map, _) => bytemuck::cast_slice(map),
            Self::Allocated(values) => values,
        }
    }

    pub(crate) fn values_mut(&mut self) -> &mut [T] {
        match self {
            Self::Mapped(map, _) => bytemuck::cast_slice_mut(map),
            Self::Allocated(values) => values,
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.values())
    }
}

impl Memory<u64> {
    /// Writes the words, little-endian.
    pub(crate) fn save(&self, to: &mut dyn Write) -> io::Result<()> {
        save_words(self.values(), to)
    }

    /// Reads as many words as there are.
    pub(crate) fn load(&mut self, from: &mut dyn Read) -> io::Result<()> {
        load_words(self.values_mut(), from)
    }
}

/// Writes words, little-endian.
pub(crate) fn save_words(words: &[u64], to: &mut dyn Write) -> io::Result<()> {
    let mut buf = Vec::with_capacity(CHUNK);
    for words in words.chunks(CHUNK / 8) {
        buf.clear();
        buf.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        to.write_all(&buf)?;
    }
    Ok(())
}

/// Reads words that [`save_words`] wrote.
pub(crate) fn load_words(words: &mut [u64], from: &mut dyn Read) -> io::Result<()> {
    let mut buf = vec![0; CHUNK];
    for words in words.chunks_mut(CHUNK / 8) {
        let buf = &mut buf[..words.len() * 8];
        from.read_exact(buf)?;
        for (word, bytes) in words.iter_mut().zip(buf.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_tables_are_zeroed_saved_and_loaded() {
        for len in [0, 1, 8191, 8192, 8193, 300_000] {
            let mut memory = Memory::<u64>::zeroed(len);
            assert!(memory.values().iter().all(|word| *word == 0));
            for (word, number) in memory.values_mut().iter_mut().zip(1_u64..) {
                *word = number.wrapping_mul(0x0123_4567_89ab_cdef);
            }
            let mut saved = Vec::new();
            memory.save(&mut saved).unwrap();
            assert_eq!(saved.len(), memory.bytes());
            let mut loaded = Memory::<u64>::zeroed(len);
            loaded.load(&mut saved.as_slice()).unwrap();
            assert_eq!(loaded.values(), memory.values());
            assert_eq!(memory.duplicate().values(), memory.values());
            if len > 0 {
                let torn = &saved[..saved.len() - 1];
                assert!(loaded.load(&mut &*torn).is_err());
            }
        }
    }
}
