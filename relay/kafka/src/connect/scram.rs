//! The client's side of SCRAM (RFC 5802, RFC 7677), without channel binding, as Kafka has it. Pure.

use std::{collections::HashMap, num::NonZeroU32};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use ring::{digest, hmac, pbkdf2};

/// The hash of a SCRAM mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha256,
    Sha512,
}

/// Most iterations that the client computes. Kafka's default is 4,096; a broker that asks for a billion would stop the
/// client.
const MOST_ITERATIONS: u32 = 1_000_000;
/// The header for a client without channel binding, and its base64.
const NO_BINDING: &str = "n,,";
const NO_BINDING_BASE64: &str = "biws";

impl Hash {
    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    fn digest(self) -> &'static digest::Algorithm {
        self.hmac().digest_algorithm()
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }
}

/// A login that has begun.
pub(crate) struct Scram {
    hash: Hash,
    password: String,
    nonce: String,
    first_bare: String,
}

/// A login that waits for the server's proof.
#[derive(Debug)]
pub(crate) struct Proved {
    server_signature: Vec<u8>,
}

impl Scram {
    /// Begins a login. Returns the first message.
    pub(crate) fn begin(hash: Hash, user: &str, password: &str, nonce: &str) -> (Self, String) {
        let first_bare = format!("n={},r={nonce}", user.replace('=', "=3D").replace(',', "=2C"));
        let first = format!("{NO_BINDING}{first_bare}");
        (Self { hash, password: password.to_owned(), nonce: nonce.to_owned(), first_bare }, first)
    }

    /// Answers the server's first message. The error says what is wrong with it.
    pub(crate) fn prove(self, server_first: &str) -> Result<(Proved, String), String> {
        let fields = fields(server_first);
        let field =
            |name: char| fields.get(&name).copied().ok_or("a part of the broker's message is missing".to_owned());
        let nonce = field('r')?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("the broker's nonce does not continue the client's".to_owned());
        }
        let salt = BASE64.decode(field('s')?).map_err(|_| "the salt is no base64".to_owned())?;
        let iterations = field('i')?.parse().ok().filter(|count: &NonZeroU32| count.get() <= MOST_ITERATIONS);
        let iterations = iterations.ok_or(format!("the number of iterations is not from 1 to {MOST_ITERATIONS}"))?;
        let mut salted = vec![0; self.hash.digest().output_len()];
        pbkdf2::derive(self.hash.pbkdf2(), iterations, &salt, self.password.as_bytes(), &mut salted);
        let salted = hmac::Key::new(self.hash.hmac(), &salted);
        let client_key = hmac::sign(&salted, b"Client Key");
        let server_key = hmac::sign(&salted, b"Server Key");
        let stored_key = digest::digest(self.hash.digest(), client_key.as_ref());
        let last_bare = format!("c={NO_BINDING_BASE64},r={nonce}");
        let message = format!("{},{server_first},{last_bare}", self.first_bare);
        let sign = |key: &[u8]| hmac::sign(&hmac::Key::new(self.hash.hmac(), key), message.as_bytes());
        let signature = sign(stored_key.as_ref());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(key, mask)| key ^ mask).collect();
        let last = format!("{last_bare},p={}", BASE64.encode(proof));
        Ok((Proved { server_signature: sign(server_key.as_ref()).as_ref().to_vec() }, last))
    }
}

impl Proved {
    /// Checks the server's last message. The error says why the login has failed.
    pub(crate) fn check(&self, server_last: &str) -> Result<(), String> {
        let fields = fields(server_last);
        if let Some(error) = fields.get(&'e') {
            return Err((*error).to_owned());
        }
        let proof = fields.get(&'v').and_then(|proof| BASE64.decode(proof).ok());
        let is_proved = proof.is_some_and(|proof| proof == self.server_signature);
        is_proved.then_some(()).ok_or("the broker does not prove that it knows the password".to_owned())
    }
}

fn fields(message: &str) -> HashMap<char, &str> {
    let field = |part| {
        let (name, value): (&str, &str) = str::split_once(part, '=')?;
        Some((name.chars().next().filter(|_| name.len() == 1)?, value))
    };
    message.split(',').filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_login_is_that_of_the_rfcs_example() {
        let (scram, first) = Scram::begin(Hash::Sha256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(first, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server_first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (proved, last) = scram.prove(server_first).unwrap();
        assert_eq!(
            last,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(proved.check("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(()));
        assert!(proved.check("v=AAAA").is_err());
        assert_eq!(proved.check("e=invalid-proof"), Err("invalid-proof".to_owned()));
    }

    #[test]
    fn a_server_that_repeats_the_clients_nonce_or_asks_for_too_much_is_refused() {
        for first in ["r=abc,s=AAAA,i=4096", "r=abcd,s=AAAA,i=1000000000", "r=abcd,s=AAAA,i=0", "r=abcd,i=1", ""] {
            let (scram, _) = Scram::begin(Hash::Sha512, "u,=", "p", "abc");
            assert!(scram.prove(first).is_err(), "{first}");
        }
    }
}
