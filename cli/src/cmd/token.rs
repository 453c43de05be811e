//! `sweep token create|list|revoke|rotate`: who may talk to the coordinator. A token is printed once, alone on stdout, so
//! that it can go straight into a file; the coordinator itself keeps only its SHA-256. Decides nothing.

use std::time::Duration;

use proto::v1::{
    CreateTokenRequest, ListTokensRequest, RevokeTokenRequest, RotateTokenRequest, TokenDocument,
};

use crate::clients;
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Make a token for a user, or a join token for a host, and print it
    Create(CreateArgs),
    /// List tokens, and the hosts that have joined
    List,
    /// Refuse a token, or a host's certificate, from now on
    Revoke(RevokeArgs),
    /// Make a new token for the same name and role; the old one is refused from now on
    Rotate(RotateArgs),
}

#[derive(Debug, clap::Args)]
pub struct CreateArgs {
    /// Name of the user; a join token gets one where none is given
    #[arg(required_unless_present = "join")]
    pub name: Option<String>,
    /// What it may do: read, submit (which is to run programs on the hosts), admin
    #[arg(long, value_parser = ["read", "submit", "admin"], required_unless_present = "join", conflicts_with = "join")]
    pub role: Option<String>,
    /// Make a join token: it lets one host in, once
    #[arg(long)]
    pub join: bool,
    /// The only host that may use the join token
    #[arg(long, value_name = "NAME", requires = "join")]
    pub host: Option<String>,
    /// How long it is good for, e.g. 12h or 30d [default: until revoked; of a join token 24h]
    #[arg(long, value_name = "TIME", value_parser = lasting)]
    pub expires: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub struct RevokeArgs {
    /// Name of the token
    pub name: String,
    /// It is the name of a host: revoke its certificate
    #[arg(long)]
    pub host: bool,
}

#[derive(Debug, clap::Args)]
pub struct RotateArgs {
    /// Name of the token
    pub name: String,
    /// How long the new one is good for [default: as long as it was made for]
    #[arg(long, value_name = "TIME", value_parser = lasting)]
    pub expires: Option<Duration>,
}

/// `30d`, `12h`, `45m`, `90s`.
fn lasting(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time: write 30d, 12h, 45m or 90s");
    let (figure, unit) = text
        .split_at_checked(text.len().saturating_sub(1))
        .ok_or_else(wrong)?;
    let unit = match unit {
        "d" => 24 * 3600,
        "h" => 3600,
        "m" => 60,
        "s" => 1,
        _ => return Err(wrong()),
    };
    let figure: u32 = figure.parse().map_err(|_| wrong())?;
    match u64::from(figure) * unit {
        0 => Err(wrong()),
        seconds => Ok(Duration::from_secs(seconds)),
    }
}

pub async fn run(verb: Verb, context: &Context) -> Result<Exit, Error> {
    match verb {
        Verb::Create(args) => {
            let request = CreateTokenRequest {
                name: args.name.unwrap_or_default(),
                role: args.role.unwrap_or_default(),
                join: args.join,
                host: args.host.unwrap_or_default(),
                lasts_ms: ms(args.expires),
            };
            let reply =
                clients::ask(context, async |to| to.trust().create_token(request).await).await?;
            out::document(context, &reply, |reply| reply.token.clone())?;
            tell(context, reply.entry.as_ref());
        }
        Verb::List => {
            let ask =
                async |to: &clients::Clients| to.trust().list_tokens(ListTokensRequest {}).await;
            let reply = clients::ask(context, ask).await?;
            out::document(context, &reply, |reply| render::token::text(&reply.tokens))?;
        }
        Verb::Revoke(args) => {
            let request = RevokeTokenRequest {
                name: args.name.clone(),
                host: args.host,
            };
            let reply =
                clients::ask(context, async |to| to.trust().revoke_token(request).await).await?;
            out::document(context, &reply, |_| format!("revoked {}", args.name))?;
        }
        Verb::Rotate(args) => {
            let request = RotateTokenRequest {
                name: args.name,
                lasts_ms: ms(args.expires),
            };
            let reply =
                clients::ask(context, async |to| to.trust().rotate_token(request).await).await?;
            out::document(context, &reply, |reply| reply.token.clone())?;
            tell(context, reply.entry.as_ref());
        }
    }
    Ok(Exit::DONE)
}

fn ms(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    })
}

fn tell(context: &Context, entry: Option<&TokenDocument>) {
    let Some(entry) = entry else { return };
    let until = match entry.expires.as_str() {
        "" => "until it is revoked".to_owned(),
        time => format!("until {time}"),
    };
    let what = match entry.kind.as_str() {
        "join" => "join token, for one host, once".to_owned(),
        _ => format!("role {}", entry.role),
    };
    let name = &entry.name;
    out::note(
        context,
        &format!("{name}: {what}, good {until}; it is not shown again"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(
            lasting("30d").map(|time| time.as_secs()),
            Ok(30 * 24 * 3600)
        );
        assert_eq!(lasting("90s").map(|time| time.as_secs()), Ok(90));
        for bad in [
            "",
            "30",
            "d",
            "0d",
            "-1d",
            "1.5h",
            "1w",
            "9999999999d",
            "3é",
        ] {
            assert!(lasting(bad).is_err(), "{bad}");
        }
    }
}
