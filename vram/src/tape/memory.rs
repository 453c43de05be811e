//! A tensor as memory sees it: a block shared by its views, how many elements, of what width, and whether automatic
//! differentiation follows it. The block ends with the last who holds it.

use std::rc::Rc;

use super::engine::Edge;
use super::log::Log;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Dtype {
    U8,
    Bf16,
    Fp16,
    Fp32,
    I64,
}

impl Dtype {
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::Bf16 | Self::Fp16 => 2,
            Self::Fp32 => 4,
            Self::I64 => 8,
        }
    }

    /// The wider of two floating types, as type promotion has it.
    pub(crate) fn promoted(self, other: Self) -> Self {
        if self == other { self } else { Self::Fp32 }
    }
}

pub(crate) struct Block {
    pub number: u32,
    log: Rc<Log>,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.log.free(self.number);
    }
}

/// A tensor without history.
#[derive(Clone)]
pub(crate) struct Raw {
    pub block: Option<Rc<Block>>,
    pub numel: u64,
    pub dtype: Dtype,
    /// Its elements lie heads first, so that flattening it to tokens copies it.
    pub heads_first: bool,
    /// A gradient shared with another consumer may not be added to in place.
    pub view_of_larger: bool,
}

impl Raw {
    pub(crate) fn new(log: &Rc<Log>, numel: u64, dtype: Dtype) -> Self {
        let number = log.alloc(numel * dtype.bytes());
        let block = Some(Rc::new(Block {
            number,
            log: Rc::clone(log),
        }));
        Self {
            block,
            ..Self::nothing(numel, dtype)
        }
    }

    /// No block of its own (a parameter that is counted elsewhere, a run that has stopped).
    pub(crate) fn nothing(numel: u64, dtype: Dtype) -> Self {
        Self {
            block: None,
            numel,
            dtype,
            heads_first: false,
            view_of_larger: false,
        }
    }

    pub(crate) fn of(&self, numel: u64) -> Self {
        Self {
            numel,
            view_of_larger: numel != self.numel || self.view_of_larger,
            ..self.clone()
        }
    }

    /// Held here and nowhere else.
    pub(crate) fn is_sole(&self) -> bool {
        !self.view_of_larger
            && self
                .block
                .as_ref()
                .is_some_and(|block| Rc::strong_count(block) == 1)
    }

    pub(crate) fn number(&self) -> Option<u32> {
        self.block.as_ref().map(|block| block.number)
    }
}

/// A tensor with its place in the graph.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub raw: Raw,
    pub edge: Option<Edge>,
    /// Differentiation follows it, even where no node is recorded (a segment that runs again).
    pub grad: bool,
}

impl Tensor {
    pub(crate) fn constant(raw: Raw) -> Self {
        Self {
            raw,
            edge: None,
            grad: false,
        }
    }

    pub(crate) fn numel(&self) -> u64 {
        self.raw.numel
    }

    pub(crate) fn dtype(&self) -> Dtype {
        self.raw.dtype
    }
}
