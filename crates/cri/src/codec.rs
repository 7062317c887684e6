//! How requests and answers cross the wire: requests are encoded once, before they are sent; answers are read by the
//! decoder that the call provides.

use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// A codec that sends bytes and decodes with `D`.
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

/// Sends bytes that are already encoded.
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

/// Decodes whole messages.
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

/// Decodes nothing, for answers whose payload has already been taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nothing;

impl Decoder for Nothing {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        src.advance(src.remaining());
        Ok(Some(()))
    }
}
