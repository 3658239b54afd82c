//! Posts one message to a URL, signed, and takes the status as the answer.
//!
//! Redirects are not followed. Of a response no more than its head matters: the body is read within
//! a bound, so that the connection can be used again, and dropped.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, body::Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use ring::hmac;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

use super::message::Message;
use super::outcome::{self, Done};
use super::settings::Hook;

const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// A connection that nothing uses for this time is closed.
const IDLE: Duration = Duration::from_secs(20);
/// A longer body is not read to its end, and neither is a slow one.
const BODY_BYTES_MAX: usize = 64 << 10;
const BODY_WITHIN: Duration = Duration::from_secs(5);

/// Headers that a message cannot choose: they belong to the connection, or to those who run the
/// worker.
const OURS: [HeaderName; 11] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::COOKIE,
];

pub struct Poster {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Poster {
    /// `connections`: as many as are kept. `tls` is there for `https`.
    pub fn new(tls: Option<&Arc<ClientConfig>>, connections: usize) -> Option<Self> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_WITHIN));
        let config = match tls {
            Some(config) => (**config).clone(),
            // For `http` alone; nothing is believed.
            None => ClientConfig::builder_with_provider(Arc::new(
                tokio_rustls::rustls::crypto::ring::default_provider(),
            ))
            .with_safe_default_protocol_versions()
            .ok()?
            .with_root_certificates(tokio_rustls::rustls::RootCertStore::empty())
            .with_no_client_auth(),
        };
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(connections)
            .build(https);
        Some(Self { client })
    }

    /// Waits `longest` for the answer, or until `stop`.
    pub async fn handle(
        &self,
        hook: &Hook,
        message: &Message,
        longest: Duration,
        stop: impl Future<Output = ()>,
    ) -> Done {
        let request = request(hook, message, SystemTime::now());
        let answered = tokio::select! {
            answered = timeout(longest, self.client.request(request)) => answered,
            () = stop => return Done::silent(),
        };
        let response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Done::failed(outcome::reason(deepest(&error).as_bytes())),
            Err(_) => return Done::timeout(),
        };
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok());
        let status = response.status().as_u16();
        let done = outcome::of_status(status, retry_after, SystemTime::now());
        drain(response).await;
        done
    }
}

async fn drain(response: Response<Incoming>) {
    let body = Limited::new(response.into_body(), BODY_BYTES_MAX);
    let _ = timeout(BODY_WITHIN, body.collect()).await;
}

fn request(hook: &Hook, message: &Message, now: SystemTime) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(message.payload.clone()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = hook.url.clone();
    *request.headers_mut() = headers(hook, message, now);
    request
}

/// Those of the message, below those that were configured, below our own.
fn headers(hook: &Hook, message: &Message, now: SystemTime) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let default = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, default);
    let agent = HeaderValue::from_static(concat!("delay-broker/", env!("CARGO_PKG_VERSION")));
    headers.insert(header::USER_AGENT, agent);
    let mut add = |name: HeaderName, value: &[u8]| {
        // What cannot stand in a header is left out.
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.insert(name, value);
        }
    };
    for (name, value) in &message.headers {
        let name = HeaderName::from_bytes(name).ok();
        if let Some(name) = name.filter(|name| !OURS.contains(name)) {
            add(name, value);
        }
    }
    for name in hook.headers.keys() {
        for value in hook.headers.get_all(name) {
            add(name.clone(), value.as_bytes());
        }
    }
    add(HeaderName::from_static("dq-id"), &message.id);
    add(HeaderName::from_static("dq-attempt"), message.attempt.to_string().as_bytes());
    add(HeaderName::from_static("dq-queue"), &message.queue);
    let signature = HeaderName::from_static("dq-signature");
    match &hook.secret {
        Some(secret) => add(signature, sign(secret, &message.payload, now).as_bytes()),
        // Nobody else may seem to have signed.
        None => drop(headers.remove(signature)),
    }
    headers
}

/// `t=<Unix s>,v1=<hex of HMAC-SHA256 of "<t>.<payload>">`
fn sign(secret: &[u8], payload: &[u8], now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
    context.update(format!("{seconds}.").as_bytes());
    context.update(payload);
    format!("t={seconds},v1={}", hex::encode(context.sign()))
}

/// The words of an error, and those of its causes.
fn deepest(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature() {
        // echo -n '1700000000.order 42' | openssl dgst -sha256 -hmac secret
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let expected =
            "t=1700000000,v1=ac9850c13bc31f575fd82c2961ed5e81baa89fdd13ffa6d0b7a498d4dfc512f0";
        assert_eq!(sign(b"secret", b"order 42", now), expected);
    }

    #[test]
    fn nobody_else_chooses_our_headers() {
        let own = [
            ("DQ-Id", "forged"),
            ("dq-signature", "t=1,v1=00"),
            ("Host", "evil"),
            ("authorization", "evil"),
            ("content-length", "0"),
            ("X-Trace", "7"),
            ("Content-Type", "text/plain"),
            ("bad name", "x"),
            ("x-bad", "a\r\nb: c"),
            ("x-configured", "theirs"),
        ];
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let message = Message {
            queue: bytes("q\n"),
            receipt: bytes("ab:1"),
            id: bytes("ab"),
            attempt: 3,
            payload: bytes("x"),
            headers: own.map(|(name, value)| (bytes(name), bytes(value))).to_vec(),
        };
        let mut configured = HeaderMap::new();
        configured.insert("x-configured", HeaderValue::from_static("ours"));
        configured.insert("authorization", HeaderValue::from_static("Bearer 1"));
        let url = "http://h/".parse().unwrap();
        let hook = Hook { url, headers: configured, secret: None };
        let headers = headers(&hook, &message, UNIX_EPOCH);
        let mut seen: Vec<_> =
            headers.iter().map(|(n, v)| (n.as_str(), v.to_str().unwrap())).collect();
        seen.sort();
        let agent = concat!("delay-broker/", env!("CARGO_PKG_VERSION"));
        #[rustfmt::skip]
        let expected = [
            ("authorization", "Bearer 1"), ("content-type", "text/plain"), ("dq-attempt", "3"),
            ("dq-id", "ab"), ("user-agent", agent), ("x-configured", "ours"), ("x-trace", "7"),
        ];
        assert_eq!(seen, expected);
    }
}
