use super::*;

#[test]
fn a_database_prints_without_its_password() {
    for (text, printed) in [
        ("postgres://relay:s3cret@db.example:6543/shop?sslmode=require", "db.example:6543/shop as relay"),
        ("host=a,b port=1,2 user=u password='s3cret'", "a:1,b:2/u as u"),
        ("postgresql:///d?user=u&host=/run/pg&password=s3cret", "/run/pg:5432/d as u"),
    ] {
        let database = text.parse::<ConnInfo>().unwrap();
        assert_eq!(database.to_string(), printed);
        assert!(!format!("{database:?}").contains("s3cret"));
    }
}

#[test]
fn a_bad_connection_string_is_refused_without_repeating_the_password() {
    for text in [
        "postgres://u:s3cret@h:port/d",
        "postgres://u:s3@cret@h:1/d",
        "user=u password=my s3cret host=h",
        "user=u password=my s3cret=x host=h",
        "user=u password='s3cret host=h",
        "postgres://u:p?s3cret=x/d",
        "postgres://u:p@s3cret@h/d",
        "postgres://u:p@p/s3cret@h/d",
        "postgres://u:p/s3cret@h/d",
        "postgres://u:s3cret@h/d?sslmode=s3cret",
        "postgres://u:s3cret@h/d?s3cret=1",
        "s3cret",
    ] {
        let Err(error) = text.parse::<ConnInfo>() else { continue };
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{text}: {error:?}");
    }
}

#[test]
fn what_is_wrong_is_told() {
    for (text, expected) in [
        ("user=u", "it names no host"),
        ("postgres://h/d", "it names no user"),
        ("postgres://u:p@w@h/d", "it has an @ too many"),
        ("postgres://u@h:port/d", "invalid value for option `port`"),
        ("postgres://u@h/d?target_session_attrs=read-only", "invalid value for option `target_session_attrs`"),
        ("postgres://u@h/d?gssencmode=disable", "the option gssencmode is not supported"),
        ("host=a,b,c port=1,2 user=u", "it must name one port"),
        ("postgres://u@h/d?sslmode=allow", "sslmode must be"),
        ("mysql://u@h/d", "not a connection string"),
        ("postgres://u@h/d?schema=public&pgbouncer=true", "the option schema is not supported"),
        ("postgres://u:p@h/d?connect_timeout=3&pool=5", "the option pool is not supported"),
        ("postgres://u:p@h/d?s%3Fcret=5", "not a connection string"),
        ("host=h user=u pool=5", "not a connection string"),
        ("postgres://u@h/d e", "there is white space"),
        ("postgres://u@h/d ?sslmode=require", "there is white space"),
        ("postgres://u:pass\nword@h/d", "there is white space"),
        ("postgres://u@h /d", "there is white space"),
    ] {
        let error = text.parse::<ConnInfo>().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn white_space_around_a_connection_string_is_no_part_of_it() {
    for text in ["postgres://u:p@h/d ", " postgres://u:p@h/d", "postgres://u:p@h/d\r\n", "\nhost=h\tuser=u\ndbname=d\n"]
    {
        assert_eq!(text.parse::<ConnInfo>().unwrap().to_string(), "h:5432/d as u", "{text:?}");
    }
}
