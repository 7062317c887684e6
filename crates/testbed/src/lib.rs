//! rubelet-testbed
