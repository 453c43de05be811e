//! A message that is far too large, sent piece by piece for as long as somebody takes it: a client of ours would not even
//! begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http_body_util::StreamBody;
use tonic::Status;
use tonic::body::Body;
use tower::{Service as _, ServiceExt as _};

use super::Keeper;

/// The answer, and how many bytes had been asked for by then.
pub fn send(keeper: &Keeper, path: &str, token: &str, size: u32) -> (Status, u64) {
    let taken = Arc::new(AtomicU64::new(0));
    let body = Body::new(StreamBody::new(
        pieces(size, taken.clone()).map(|piece| Ok::<_, Status>(http_body::Frame::data(piece))),
    ));
    let request = http::Request::post(format!("{}{path}", keeper.coordinator.url))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {token}"))
        .body(body)
        .expect("a request");
    let mut channel = keeper.channel(None, 10);
    let answer = keeper.runtime.block_on(async {
        let ready = channel.ready().await.expect("a connection");
        ready.call(request).await.expect("an answer")
    });
    let status = Status::from_header_map(answer.headers()).expect("a refusal at once");
    (status, taken.load(Ordering::Relaxed))
}

/// One frame of gRPC: not compressed, its length, then as many bytes.
fn pieces(size: u32, taken: Arc<AtomicU64>) -> impl Stream<Item = Bytes> {
    let mut head = vec![0];
    head.extend(size.to_be_bytes());
    let piece = Bytes::from(vec![0x0a; 64 << 10]);
    let many = size as usize / piece.len();
    let rest = futures_util::stream::repeat(piece).take(many);
    futures_util::stream::once(async { Bytes::from(head) })
        .chain(rest)
        .map(move |piece| {
            taken.fetch_add(piece.len() as u64, Ordering::Relaxed);
            piece
        })
}
