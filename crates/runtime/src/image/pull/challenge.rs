//! What a registry answers to requests without credentials: the `WWW-Authenticate` header.

/// How the registry wants clients to authenticate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// With a user name and a password.
    Basic,
    /// With a token from another server.
    Bearer {
        /// The URL of the token server.
        realm: String,
        /// The registry's name at that server.
        service: Option<String>,
    },
}

impl Challenge {
    /// Picks, from all that the headers offer, the one that we can answer best: a token.
    pub(super) fn of<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let offers: Vec<Offer> = headers.flat_map(offers).collect();
        let bearer = offers.iter().filter(|offer| offer.scheme == "bearer").find_map(|offer| {
            Some(Self::Bearer { realm: offer.get("realm")?, service: offer.get("service") })
        });
        bearer.or_else(|| offers.iter().any(|offer| offer.scheme == "basic").then_some(Self::Basic))
    }
}

/// One authentication scheme, with its parameters.
#[derive(Debug)]
struct Offer {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl Offer {
    fn get(&self, name: &str) -> Option<String> {
        self.parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }
}

/// Parses the offers of one header. Commas separate both offers and parameters; a word followed by an equals sign is a
/// parameter.
fn offers(header: &str) -> Vec<Offer> {
    let mut offers: Vec<Offer> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',', '=']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        if end == 0 {
            return offers;
        }
        let word = rest[..end].to_ascii_lowercase();
        rest = rest[end..].trim_start_matches([' ', '\t']);
        match rest.strip_prefix('=') {
            None => offers.push(Offer { scheme: word, parameters: Vec::new() }),
            Some(value) => {
                let (value, after) = take_value(value.trim_start_matches([' ', '\t']));
                rest = after;
                if let Some(offer) = offers.last_mut() {
                    offer.parameters.push((word, value));
                }
            }
        }
    }
}

/// Splits off a value, quoted or not, and returns it with the rest.
fn take_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_best_offer_is_taken() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
        };
        let table = [
            (
                &[r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="a,b""#]
                    [..],
                bearer("https://auth.docker.io/token", Some("registry.docker.io")),
            ),
            (&[r#"bearer scope="x" , realm = "http://r/t?a=b" "#], bearer("http://r/t?a=b", None)),
            (&["Bearer realm=r,service=s"], bearer("r", Some("s"))),
            (&[r#"Basic realm="a, Bearer realm=b", Bearer realm="c\"d""#], bearer("c\"d", None)),
            (&["Basic realm=\"x\"", "Bearer realm=\"y\""], bearer("y", None)),
            (&["BASIC"], Some(Challenge::Basic)),
            (&["Negotiate abc==, Basic realm=x"], Some(Challenge::Basic)),
            (&["Bearer error=\"invalid_token\""], None),
            (&["Bearer realm=\"unfinished"], bearer("unfinished", None)),
            (&["", ",,", "= x", "Digest a=b"], None),
            (&[], None),
        ];
        for (headers, wanted) in table {
            assert_eq!(Challenge::of(headers.iter().copied()), wanted, "{headers:?}");
        }
    }

    proptest! {
        #[test]
        fn no_header_upsets_it(header in "[ -~]{0,60}|[Bb,= \"\\\\é]{0,30}") {
            let _ = Challenge::of([header.as_str()].into_iter());
        }
    }
}
