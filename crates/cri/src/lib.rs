//! CRI v1.

#[expect(missing_docs, clippy::all, clippy::doc_markdown, unreachable_pub, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("runtime.v1");
}
