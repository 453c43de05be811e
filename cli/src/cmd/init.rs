//! `sweep coordinator init`: a CA, a server certificate, the owner's token and a first join token, in the data folder.
//! Prints the join token and the CA's fingerprint. Refuses to overwrite what is there.

use coordinator::trust::{self, Initialised};
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::coordinator::InitArgs;
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{embedded, out};

pub fn run(args: InitArgs, context: &Context) -> Result<Exit, Error> {
    let names = match args.names.is_empty() {
        true => vec![own_name()],
        false => args.names,
    };
    for name in &names {
        check(name)?;
    }
    let now = agent::clock::unix_ms();
    let made =
        trust::init(&context.data, &names, now).map_err(|error| embedded::trust_error(&error))?;
    let document = json!({
        "folder": made.folder,
        "fingerprint": made.fingerprint,
        "names": made.names,
        "join_token": made.join.text().expose_secret(),
        "join_token_expires": proto::time::rfc3339(made.join_expires_ms),
    });
    out::document(context, &document, |_| text(&made, context))?;
    Ok(Exit::DONE)
}

fn text(made: &Initialised, context: &Context) -> String {
    let name = made.names.first().map_or("localhost", String::as_str);
    let url = match name.contains(':') {
        true => format!("https://[{name}]:7480"),
        false => format!("https://{name}:7480"),
    };
    format!(
        "certificates and tokens in {folder}; keep a copy in a safe place\n\
         reached as {names}\n\
         CA fingerprint (SHA-256) {fingerprint}\n\
         join token, for one host, once, until {until}:\n{token}\n\n\
         start it: sweep --data {data} coordinator run --listen 0.0.0.0:7480\n\
         a host:   sweep agent run --config HOSTFILE --coordinator {url} --token-file FILE\n\
         a user:   sweep --data {data} token create NAME --role submit",
        folder = made.folder.display(),
        names = made.names.join(", "),
        fingerprint = made.fingerprint,
        until = proto::time::rfc3339(made.join_expires_ms),
        token = made.join.text().expose_secret(),
        data = context.data.display(),
    )
}

/// What a certificate may say, and an address can be written with.
fn check(name: &str) -> Result<(), Error> {
    let host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let right = name.parse::<std::net::IpAddr>().is_ok()
        || (!name.is_empty() && name.len() <= 253 && name.chars().all(host));
    if right {
        return Ok(());
    }
    Err(Error::BadInput(format!(
        "`{}` is not a host's name or address; write --name keeper.example, or --name 192.0.2.7, without port",
        name.escape_debug()
    )))
}

fn own_name() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let named = read.or_else(|| std::env::var("COMPUTERNAME").ok());
    let named = named.map(|name| name.trim().to_owned());
    named
        .filter(|name| check(name).is_ok())
        .unwrap_or_else(|| "localhost".to_owned())
}
