//! rubelet-runtime
