//! Wire and store messages to the nouns of `jobs` and back.
