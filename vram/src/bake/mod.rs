//! An evaluation's memory: the resident model, its KV cache for a context, and compute buffers, on one card or split
//! over several. A GGUF is taken as llama.cpp loads it, which Ollama runs; a Hugging Face model as transformers does.
//! What does not fit the cards lands on the CPU and runs several times slower (F22): that is said, not hidden.
//!
//! Figures of llama.cpp are read from its sources and logs; each is named beside its constant.

mod buffers;
mod cache;
mod layout;
mod serving;
mod weights;

pub use cache::{CacheQuant, kv_cache, recurrent_state};
pub use layout::{Bake, Split};
pub use serving::{SERVING_SETTINGS, Serving};
