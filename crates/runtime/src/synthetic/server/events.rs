//! `GetContainerEvents`

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tonic::Status;

use super::answer::Answer;
use super::dispatch::unimplemented;
use super::shared::Shared;
use crate::synthetic::bus::{Parcel, Reader};
use crate::synthetic::corrupt::spoil_answer;
use crate::synthetic::faults::{Faults, Spoil};
use crate::synthetic::op::Op;
use crate::synthetic::profile::EventSupport;
use crate::synthetic::target::Target;

pub(super) fn open(shared: &Shared) -> Result<Answer, Status> {
    match shared.look(|world| world.quirks().events) {
        EventSupport::Unimplemented => Err(unimplemented(Op::GetContainerEvents)),
        EventSupport::EndsAtOnce => Ok(Answer::Many(Vec::new())),
        EventSupport::Stream(_) => {
            let faults = shared.faults.clone();
            let reader = Reader::open(shared.bus.clone());
            let messages =
                stream::unfold(
                    reader,
                    |reader| async move { reader.next().await.map(|next| (next, reader)) },
                );
            Ok(Answer::Stream(Box::pin(messages.filter_map(move |next| {
                let message = next.map(|parcel| message(&faults, &parcel)).transpose();
                std::future::ready(message)
            }))))
        }
    }
}

/// Returns the message of an event, unless it is to be omitted.
fn message(faults: &Faults, parcel: &Parcel) -> Option<Bytes> {
    let op = Op::GetContainerEvents;
    let target = Target {
        pod: Some(parcel.event.pod.clone()),
        sandbox: Some(parcel.event.sandbox.clone()),
        container: parcel.event.container.clone(),
    };
    match faults.spoil(op, &target) {
        None => Some(parcel.bytes.clone()),
        Some(Spoil::Corrupt(corruption)) => Some(spoil_answer(op, &parcel.bytes, corruption)),
        Some(Spoil::Omit) => None,
    }
}
