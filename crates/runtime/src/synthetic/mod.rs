//! Virtual pods with seeded faults.
