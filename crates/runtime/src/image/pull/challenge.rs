//! What a registry says to those who have not introduced themselves: the header `WWW-Authenticate`.

/// How it wants to be spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// With a name and a password.
    Basic,
    /// With a token, which is had elsewhere.
    Bearer {
        /// Where.
        realm: String,
        /// What the registry is called there.
        service: Option<String>,
    },
}

impl Challenge {
    /// Of all that the headers offer, the one that we can answer best: a token.
    pub(super) fn of<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let offers: Vec<Offer> = headers.flat_map(offers).collect();
        let bearer = offers.iter().filter(|offer| offer.scheme == "bearer").find_map(|offer| {
            Some(Self::Bearer { realm: offer.get("realm")?, service: offer.get("service") })
        });
        bearer.or_else(|| offers.iter().any(|offer| offer.scheme == "basic").then_some(Self::Basic))
    }
}

/// One way to introduce oneself, with its parameters.
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

/// Those of one header. Commas stand between offers as well as between parameters: what has an equals sign behind it is a
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

/// A value, in quotes or not, and what comes after it.
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
