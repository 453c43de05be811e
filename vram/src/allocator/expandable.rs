//! Expandable segments: one long address range for each pool, mapped page by page as it grows and unmapped where whole
//! pages are free. Refuses what is larger than one range; all else is the allocator's limit.

use super::{Allocator, LARGE_SEGMENT, NONE, ORIGIN, SMALL_SEGMENT};

/// Address space of one range: more than any card.
const EXPANDABLE_SPACE: u64 = 1 << 44;

impl Allocator {
    fn page(pool: usize) -> u64 {
        if pool == 0 {
            SMALL_SEGMENT
        } else {
            LARGE_SEGMENT
        }
    }

    /// Grows the last free block of the pool's segment until it holds `size`.
    pub(super) fn expand(&mut self, size: u64, pool: usize) -> Option<u32> {
        if size > EXPANDABLE_SPACE {
            return None;
        }
        let hole = self.hole(size, pool)?;
        let before = self.blocks[hole as usize].prev;
        let mut at = if self.is_free(before) { before } else { NONE };
        if at == NONE {
            at = self.map(hole, size)?;
        }
        while self.blocks[at as usize].size < size {
            let next = self.blocks[at as usize].next;
            at = self.map(next, size - self.blocks[at as usize].size)?;
        }
        self.take_free(at);
        Some(at)
    }

    /// The first unmapped stretch that, with what is free before and after it, holds `size`; a new range if none.
    fn hole(&mut self, size: u64, pool: usize) -> Option<u32> {
        let fitting = self.unmapped[pool]
            .iter()
            .map(|entry| entry.2)
            .find(|hole| {
                let before = self.blocks[*hole as usize].prev;
                let mut at = if self.is_free(before) { before } else { *hole };
                let mut room = 0;
                while room < size
                    && self
                        .blocks
                        .get(at as usize)
                        .is_some_and(|block| !block.used)
                {
                    room += self.blocks[at as usize].size;
                    at = self.blocks[at as usize].next;
                }
                room >= size
            });
        if fitting.is_some() {
            return fitting;
        }
        let next_addr = self.next_addr.checked_add(EXPANDABLE_SPACE)?;
        let at = self.block(self.next_addr, EXPANDABLE_SPACE, pool, false);
        self.next_addr = next_addr;
        let entry = self.entry(at);
        self.unmapped[pool].insert(entry);
        Some(at)
    }

    /// Maps whole pages at the front of a hole, for at least `want` bytes; returns the free block they became part of.
    fn map(&mut self, hole: u32, want: u64) -> Option<u32> {
        let block = self.blocks[hole as usize];
        let page = Self::page(block.pool);
        let bytes = want.min(block.size).div_ceil(page) * page;
        if self.is_beyond(bytes) {
            return None;
        }
        let entry = self.entry(hole);
        self.unmapped[block.pool].remove(&entry);
        if bytes < block.size {
            self.cut(hole, bytes);
            let rest = self.blocks[hole as usize].next;
            let entry = self.entry(rest);
            self.unmapped[block.pool].insert(entry);
        }
        self.blocks[hole as usize].mapped = true;
        self.reserve(self.blocks[hole as usize].size);
        let mut at = hole;
        let (prev, next) = (
            self.blocks[hole as usize].prev,
            self.blocks[hole as usize].next,
        );
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
        Some(at)
    }

    /// Unmaps the whole pages inside a free block.
    pub(super) fn unmap(&mut self, at: u32) {
        let block = self.blocks[at as usize];
        let page = Self::page(block.pool);
        // Ranges begin at multiples of every page size (`next_addr` starts at a power of two), counted within them.
        let base = self.base(at);
        let start = (block.addr - base).div_ceil(page) * page + base;
        let end = (block.addr + block.size - base) / page * page + base;
        if end <= start {
            return;
        }
        self.take_free(at);
        let mut middle = at;
        if start > block.addr {
            self.cut(at, start - block.addr);
            middle = self.blocks[at as usize].next;
            self.put_free(at);
        }
        if end < block.addr + block.size {
            self.cut(middle, end - start);
            let after = self.blocks[middle as usize].next;
            self.put_free(after);
        }
        self.blocks[middle as usize].mapped = false;
        self.reserved -= end - start;
        self.join_unmapped(middle);
    }

    fn base(&self, at: u32) -> u64 {
        let addr = self.blocks[at as usize].addr;
        ORIGIN + (addr - ORIGIN) / EXPANDABLE_SPACE * EXPANDABLE_SPACE
    }

    fn join_unmapped(&mut self, middle: u32) {
        let mut at = middle;
        let (prev, next) = (self.blocks[at as usize].prev, self.blocks[at as usize].next);
        let unmapped = |this: &Self, at: u32| {
            this.blocks
                .get(at as usize)
                .is_some_and(|block| !block.mapped)
        };
        let pool = self.blocks[at as usize].pool;
        if unmapped(self, next) {
            let entry = self.entry(next);
            self.unmapped[pool].remove(&entry);
            self.absorb(at, next);
        }
        if unmapped(self, prev) {
            let entry = self.entry(prev);
            self.unmapped[pool].remove(&entry);
            self.absorb(prev, at);
            at = prev;
        }
        let entry = self.entry(at);
        self.unmapped[pool].insert(entry);
    }
}
