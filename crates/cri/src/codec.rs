//! How requests and answers cross the wire: requests are encoded once, before they are sent; answers are read by the
//! decoder that the call brings.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use parking_lot::Mutex;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::lean::{Entries, Lean};
use crate::names::Names;

/// A codec that sends bytes and reads with `D`.
#[derive(Clone, Debug)]
pub(crate) struct Raw<D>(pub(crate) D);

impl<D> Codec for Raw<D>
where
    D: Decoder<Error = Status> + Clone + Send + 'static,
    D::Item: Send + 'static,
{
    type Encode = Bytes;
    type Decode = D::Item;
    type Encoder = RawEncoder;
    type Decoder = D;

    fn encoder(&mut self) -> RawEncoder {
        RawEncoder
    }

    fn decoder(&mut self) -> D {
        self.0.clone()
    }
}

/// Sends what is encoded already.
#[derive(Debug)]
pub(crate) struct RawEncoder;

impl Encoder for RawEncoder {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        dst.put(item);
        Ok(())
    }
}

/// Reads whole messages.
#[derive(Debug)]
pub(crate) struct Message<T>(PhantomData<fn() -> T>);

impl<T> Message<T> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Clone for Message<T> {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl<T: prost::Message + Default> Decoder for Message<T> {
    type Item = T;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<T>, Status> {
        T::decode(src).map(Some).map_err(|error| Status::from_error(Box::new(error)))
    }
}

/// Reads list answers into lean entries.
#[derive(Debug)]
pub(crate) struct List<T> {
    names: Arc<Mutex<Names>>,
    kind: PhantomData<fn() -> T>,
}

impl<T> List<T> {
    pub(crate) fn new(names: &Arc<Mutex<Names>>) -> Self {
        Self { names: Arc::clone(names), kind: PhantomData }
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        Self::new(&self.names)
    }
}

impl<T: Lean> Decoder for List<T> {
    type Item = Entries<T>;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<Entries<T>>, Status> {
        let mut entries = Entries::default();
        // The buffer holds the message in one piece; if it ever does not, make it so.
        if src.chunk().len() == src.remaining() {
            entries.read(src.chunk(), &mut self.names.lock());
            src.advance(src.remaining());
        } else {
            let answer = src.copy_to_bytes(src.remaining());
            entries.read(&answer, &mut self.names.lock());
        }
        Ok(Some(entries))
    }
}
