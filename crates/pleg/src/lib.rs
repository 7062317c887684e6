//! pleg
