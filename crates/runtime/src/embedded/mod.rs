//! Real containers from one binary.
