//! The stream between agent and coordinator as bytes: a client and a server that send messages as they are given, also
//! such as this version's own code could not write. Understand nothing of them.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _, Bytes};
use futures_util::future::BoxFuture;
use http::uri::PathAndQuery;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{NamedService, StreamingService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};

const PATH: &str = "/sweep.v1.Agents/Session";

/// Messages are what they are.
#[derive(Clone, Copy, Default)]
pub struct AsItIs;

impl Codec for AsItIs {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for AsItIs {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for AsItIs {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// Both directions of a session.
pub struct Wire {
    pub say: UnboundedSender<Bytes>,
    pub hear: UnboundedReceiver<Bytes>,
}

/// Dials as an agent does. The first message goes with it.
pub async fn dial(url: &str, first: Bytes) -> Wire {
    let endpoint = Channel::from_shared(url.to_owned()).expect("an address");
    let mut client = tonic::client::Grpc::new(endpoint.connect().await.expect("it listens"));
    client.ready().await.expect("a connection");
    let (say, said) = unbounded_channel();
    say.send(first).expect("nobody has gone");
    let request = Request::new(UnboundedReceiverStream::new(said));
    let path = PathAndQuery::from_static(PATH);
    let answer = client.streaming(request, path, AsItIs).await;
    let mut answers: Streaming<Bytes> = answer.expect("a session").into_inner();
    let (tell, hear) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok(Some(message)) = answers.message().await {
            let _ = tell.send(message);
        }
    });
    Wire { say, hear }
}

/// A coordinator's place: each session that an agent opens comes out of the receiver.
pub async fn listen() -> (String, UnboundedReceiver<Wire>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (tell, sessions) = unbounded_channel();
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = Server::builder().add_service(Sessions(tell));
    tokio::spawn(server.serve_with_incoming(incoming));
    (url, sessions)
}

#[derive(Clone)]
struct Sessions(UnboundedSender<Wire>);

impl NamedService for Sessions {
    const NAME: &'static str = "sweep.v1.Agents";
}

impl tower::Service<http::Request<Body>> for Sessions {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let sessions = self.clone();
        Box::pin(async move {
            let mut server = tonic::server::Grpc::new(AsItIs);
            Ok(server.streaming(sessions, request).await)
        })
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

impl StreamingService<Bytes> for Sessions {
    type Response = Bytes;
    type ResponseStream = Answers;
    type Future = Ready<Result<Response<Answers>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let mut from = request.into_inner();
        let (say, said) = unbounded_channel();
        let (tell, hear) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok(Some(message)) = from.message().await {
                let _ = tell.send(message);
            }
        });
        // Whoever plays the coordinator may have gone.
        let _ = self.0.send(Wire { say, hear });
        let answers: Answers = Box::pin(UnboundedReceiverStream::new(said).map(Ok));
        ready(Ok(Response::new(answers)))
    }
}
