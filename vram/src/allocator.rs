//! A model of PyTorch's caching allocator for one stream of one device (rules from c10/cuda/CUDACachingAllocator.cpp,
//! facts only): rounding to 512 bytes, small and large pools, best fit, segments of 2 and 20 MiB, split and merge,
//! the cache given back and one more try when the limit is met; and expandable segments, which map pages instead.
//! Knows sizes only: no time, no contents, no second stream.

mod expandable;

use std::collections::BTreeSet;

use crate::MIB;

/// Blocks are multiples of this.
const ROUND: u64 = 512;
/// At most this goes to the small pool; a large block is split only where more than this would be left.
const SMALL: u64 = MIB;
const SMALL_SEGMENT: u64 = 2 * MIB;
const LARGE_SEGMENT: u64 = 20 * MIB;
/// From this on a segment is the block itself, rounded to 2 MiB.
const OWN_SEGMENT: u64 = 10 * MIB;
/// No machine reserves more, whatever its limit: sums and addresses stay within 64 bits.
const MOST: u64 = 1 << 60;
/// Where addresses begin.
const ORIGIN: u64 = 1 << 45;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Block {
    addr: u64,
    size: u64,
    prev: u32,
    next: u32,
    pool: usize,
    used: bool,
    mapped: bool,
}

/// How blocks get their memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocatorSettings {
    /// `expandable_segments:True`.
    pub expandable_segments: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// What the failing allocation asked for, rounded to blocks.
    pub wanted: u64,
}

pub struct Allocator {
    settings: AllocatorSettings,
    /// Most bytes it may reserve.
    pub limit: Option<u64>,
    pub reserved: u64,
    pub allocated: u64,
    pub peak_reserved: u64,
    pub peak_allocated: u64,
    blocks: Vec<Block>,
    spare: Vec<u32>,
    /// Free mapped blocks of the small and the large pool, by size and address.
    free: [BTreeSet<(u64, u64, u32)>; 2],
    /// Unmapped stretches of expandable segments, by size and address.
    unmapped: [BTreeSet<(u64, u64, u32)>; 2],
    next_addr: u64,
}

impl Allocator {
    #[must_use]
    pub fn new(settings: AllocatorSettings, limit: Option<u64>) -> Self {
        Self {
            settings,
            limit,
            reserved: 0,
            allocated: 0,
            peak_reserved: 0,
            peak_allocated: 0,
            blocks: Vec::new(),
            spare: Vec::new(),
            free: [BTreeSet::new(), BTreeSet::new()],
            unmapped: [BTreeSet::new(), BTreeSet::new()],
            next_addr: ORIGIN,
        }
    }

    /// Peaks count from here on.
    pub fn reset_peaks(&mut self) {
        self.peak_reserved = self.reserved;
        self.peak_allocated = self.allocated;
    }

    /// Size of the block behind a handle.
    #[must_use]
    pub fn block_size(&self, handle: u32) -> u64 {
        self.blocks[handle as usize].size
    }

    /// A block of at least `want` bytes, or what could not be had.
    pub fn malloc(&mut self, want: u64) -> Result<u32, OutOfMemory> {
        let size = want.min(MOST).div_ceil(ROUND).max(1) * ROUND;
        let pool = usize::from(size > SMALL);
        let found = self.best_fit(size, pool);
        let at = match found.or_else(|| self.fresh(size, pool)) {
            Some(at) => at,
            None => {
                self.empty_cache();
                self.fresh(size, pool).ok_or(OutOfMemory { wanted: size })?
            }
        };
        self.split(at, size);
        let block = &mut self.blocks[at as usize];
        block.used = true;
        self.allocated += block.size;
        self.peak_allocated = self.peak_allocated.max(self.allocated);
        Ok(at)
    }

    /// Gives a block back to the cache, merged with free neighbours.
    pub fn release(&mut self, handle: u32) {
        let block = &mut self.blocks[handle as usize];
        block.used = false;
        self.allocated -= block.size;
        let mut at = handle;
        let (prev, next) = (block.prev, block.next);
        if self.is_free(next) {
            self.take_free(next);
            self.absorb(at, next);
        }
        if self.is_free(prev) {
            self.take_free(prev);
            self.absorb(prev, at);
            at = prev;
        }
        self.put_free(at);
    }

    /// Gives unused segments (or whole unused pages of expandable ones) back to the driver.
    pub fn empty_cache(&mut self) {
        for pool in [0, 1] {
            let free: Vec<u32> = self.free[pool].iter().map(|entry| entry.2).collect();
            for at in free {
                if self.settings.expandable_segments {
                    self.unmap(at);
                } else if self.blocks[at as usize].prev == NONE
                    && self.blocks[at as usize].next == NONE
                {
                    self.take_free(at);
                    self.reserved -= self.blocks[at as usize].size;
                    self.spare.push(at);
                }
            }
        }
    }

    fn best_fit(&mut self, size: u64, pool: usize) -> Option<u32> {
        let mut found = *self.free[pool].range((size, 0, 0)..).next()?;
        if self.settings.expandable_segments {
            // A block that can grow counts as large as it can become, so that others are preferred.
            for other in self.free[pool].range((size, 0, 0)..).skip(1) {
                if self.could_become(other.2) >= self.could_become(found.2) {
                    break;
                }
                found = *other;
            }
        }
        self.free[pool].remove(&found);
        Some(found.2)
    }

    fn could_become(&self, at: u32) -> u64 {
        let block = &self.blocks[at as usize];
        match self.blocks.get(block.next as usize) {
            Some(next) if !next.mapped => block.size + next.size,
            _ => block.size,
        }
    }

    fn fresh(&mut self, size: u64, pool: usize) -> Option<u32> {
        let segment = if size <= SMALL {
            SMALL_SEGMENT
        } else if size < OWN_SEGMENT {
            LARGE_SEGMENT
        } else {
            size.div_ceil(2 * MIB) * 2 * MIB
        };
        if self.is_beyond(segment) {
            return None;
        }
        if self.settings.expandable_segments {
            return self.expand(size, pool);
        }
        let next_addr = self.next_addr.checked_add(segment + 2 * MIB)?;
        let at = self.block(self.next_addr, segment, pool, true);
        self.next_addr = next_addr;
        self.reserve(segment);
        Some(at)
    }

    /// Whether so much more would be more than may be reserved.
    fn is_beyond(&self, bytes: u64) -> bool {
        self.reserved + bytes > self.limit.map_or(MOST, |limit| limit.min(MOST))
    }

    fn reserve(&mut self, bytes: u64) {
        self.reserved += bytes;
        self.peak_reserved = self.peak_reserved.max(self.reserved);
    }

    fn split(&mut self, at: u32, size: u64) {
        let block = self.blocks[at as usize];
        let rest = block.size - size;
        let worth_it = if block.pool == 0 || self.settings.expandable_segments {
            rest >= ROUND
        } else {
            rest > SMALL
        };
        if worth_it {
            self.cut(at, size);
            let rest = self.blocks[at as usize].next;
            self.put_free(rest);
        }
    }

    /// Cuts a block in two; the second half is in no set yet.
    fn cut(&mut self, at: u32, size: u64) {
        let block = self.blocks[at as usize];
        let rest = self.block(
            block.addr + size,
            block.size - size,
            block.pool,
            block.mapped,
        );
        self.blocks[rest as usize].prev = at;
        self.blocks[rest as usize].next = block.next;
        if block.next != NONE {
            self.blocks[block.next as usize].prev = rest;
        }
        let first = &mut self.blocks[at as usize];
        first.next = rest;
        first.size = size;
    }

    fn block(&mut self, addr: u64, size: u64, pool: usize, mapped: bool) -> u32 {
        let block = Block {
            addr,
            size,
            prev: NONE,
            next: NONE,
            pool,
            used: false,
            mapped,
        };
        if let Some(at) = self.spare.pop() {
            self.blocks[at as usize] = block;
            return at;
        }
        self.blocks.push(block);
        (self.blocks.len() - 1) as u32
    }

    fn is_free(&self, at: u32) -> bool {
        let block = self.blocks.get(at as usize);
        block.is_some_and(|block| !block.used && block.mapped)
    }

    fn entry(&self, at: u32) -> (u64, u64, u32) {
        let block = &self.blocks[at as usize];
        (block.size, block.addr, at)
    }

    fn put_free(&mut self, at: u32) {
        let entry = self.entry(at);
        self.free[self.blocks[at as usize].pool].insert(entry);
    }

    fn take_free(&mut self, at: u32) {
        let entry = self.entry(at);
        self.free[self.blocks[at as usize].pool].remove(&entry);
    }

    /// Joins `second`, which follows `first`, to it.
    fn absorb(&mut self, first: u32, second: u32) {
        let gone = self.blocks[second as usize];
        let block = &mut self.blocks[first as usize];
        block.size += gone.size;
        block.next = gone.next;
        if gone.next != NONE {
            self.blocks[gone.next as usize].prev = first;
        }
        self.spare.push(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Allocator {
        Allocator::new(AllocatorSettings::default(), None)
    }

    #[test]
    fn segments_are_of_three_kinds() {
        for (want, reserved) in [
            (1, 2),
            (MIB, 2),
            (MIB + 1, 20),
            (9 * MIB, 20),
            (11 * MIB, 12),
        ] {
            let mut all = plain();
            all.malloc(want).unwrap();
            assert_eq!(all.reserved, reserved * MIB, "{want}");
        }
    }

    #[test]
    fn a_freed_block_is_reused_and_merged() {
        let mut all = plain();
        let one = all.malloc(4 * MIB).unwrap();
        let two = all.malloc(4 * MIB).unwrap();
        all.release(one);
        all.release(two);
        all.malloc(20 * MIB).unwrap();
        assert_eq!(all.reserved, 20 * MIB);
    }

    #[test]
    fn a_large_block_is_not_split_for_a_small_rest() {
        let mut all = plain();
        let one = all.malloc(12 * MIB).unwrap();
        all.release(one);
        all.malloc(12 * MIB - MIB).unwrap();
        assert_eq!(all.allocated, 12 * MIB);
    }

    #[test]
    fn the_cache_is_given_back_before_it_fails() {
        let mut all = Allocator::new(AllocatorSettings::default(), Some(100 * MIB));
        let one = all.malloc(60 * MIB).unwrap();
        all.release(one);
        all.malloc(80 * MIB).unwrap();
        assert_eq!(all.reserved, 80 * MIB);
        assert_eq!(all.malloc(30 * MIB), Err(OutOfMemory { wanted: 30 * MIB }));
    }

    #[test]
    fn expandable_segments_grow_in_pages() {
        let mut all = Allocator::new(
            AllocatorSettings {
                expandable_segments: true,
            },
            None,
        );
        let one = all.malloc(30 * MIB).unwrap();
        assert_eq!(all.reserved, 40 * MIB);
        let _two = all.malloc(30 * MIB).unwrap();
        assert_eq!(all.reserved, 60 * MIB);
        all.release(one);
        all.empty_cache();
        assert_eq!(all.reserved, 40 * MIB);
        all.malloc(20 * MIB).unwrap();
        assert_eq!((all.allocated, all.reserved), (50 * MIB, 60 * MIB));
    }
}
