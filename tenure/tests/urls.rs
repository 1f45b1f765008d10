//! All schemes of the registry read their URLs by one grammar, and report the same errors.

use tenure::blocking::block_on;
use tenure::registry::{REGISTER, open};
use tenure::{Error, ErrorKind};
use tenure_kit::options::listed;

fn refused(url: &str) -> Error {
    let error = block_on(open(url)).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
    assert!(!format!("{error} {error:?}").contains("secret"), "{url}: {error:?}");
    error
}

/// Appends options to the example of a scheme.
fn with(example: &str, options: &str) -> String {
    let between = if example.contains('?') { '&' } else { '?' };
    format!("{example}{between}{options}")
}

#[test]
fn an_unknown_option_gets_an_error_with_the_known_ones() {
    for engine in REGISTER {
        for scheme in engine.schemes {
            let sentence = refused(&with(scheme.example, "secret-word=secret")).to_string();
            let names: Vec<&str> = engine.options.iter().map(|option| option.name).collect();
            let wanted = if names.is_empty() { "no options".into() } else { listed(&names, "and") };
            assert!(sentence.contains(&wanted), "{sentence}");
        }
    }
}

#[test]
fn a_mistyped_option_gets_a_suggestion() {
    for engine in REGISTER {
        for (scheme, option) in engine.schemes.iter().zip(engine.options) {
            let url = with(scheme.example, &format!("{}x=1", option.name));
            let sentence = refused(&url).to_string();
            assert!(sentence.contains(&format!("did you mean `{}`?", option.name)), "{sentence}");
        }
    }
}

#[test]
fn an_option_that_is_given_twice_is_refused() {
    for engine in REGISTER {
        for (scheme, option) in engine.schemes.iter().zip(engine.options) {
            let url = with(scheme.example, &format!("{0}=secret&{0}=secret", option.name));
            let sentence = refused(&url).to_string();
            assert_eq!(sentence, format!("the URL has `{}` twice: leave one out", option.name));
        }
    }
}

#[test]
fn an_unknown_scheme_gets_a_suggestion_and_the_known_ones() {
    let schemes = REGISTER.iter().flat_map(|engine| engine.schemes);
    let known: Vec<String> = schemes.map(|scheme| format!("{}:", scheme.name)).collect();
    let there_are = format!("there are {}", known.join(", "));
    for (url, sentence) in [
        ("carrier-pigeon://coop", "no engine answers to the scheme `carrier-pigeon:`; "),
        ("reddis://h", "no engine answers to the scheme `reddis:` (did you mean `redis:`?); "),
        ("files:locks", "no engine answers to the scheme `files:` (did you mean `file:`?); "),
    ] {
        assert_eq!(refused(url).to_string(), format!("{sentence}{there_are}"));
    }
}
