//! Against a name server on loopback that knows a handful of names.

use std::net::Ipv4Addr;
use std::sync::Mutex;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use super::*;

/// What the name server was asked, as `name type`.
type Questions = Arc<Mutex<Vec<String>>>;

async fn serve_names(socket: UdpSocket, questions: Questions) {
    let mut packet = [0; 4096];
    loop {
        let (len, from) = socket.recv_from(&mut packet).await.unwrap();
        let query = Message::from_vec(&packet[..len]).unwrap();
        let question = query.queries.first().unwrap().clone();
        let name = question.name().to_ascii().to_lowercase();
        questions.lock().unwrap().push(format!("{name} {}", question.query_type()));
        let mut answer = Message::response(query.metadata.id, query.metadata.op_code);
        answer.queries.push(question.clone());
        let v4: &[[u8; 4]] = match name.as_str() {
            "public.example." => &[[8, 8, 8, 8]],
            "private.example." => &[[10, 0, 0, 1]],
            "mixed.example." => &[[10, 0, 0, 1], [8, 8, 4, 4]],
            "empty.example." => &[],
            "failing.example." => {
                answer.metadata.response_code = ResponseCode::ServFail;
                &[]
            }
            "silent.example." => continue,
            _ => {
                answer.metadata.response_code = ResponseCode::NXDomain;
                &[]
            }
        };
        if question.query_type() == RecordType::A {
            for &octets in v4 {
                let data = RData::A(Ipv4Addr::from(octets).into());
                answer.add_answer(Record::from_rdata(question.name().clone(), 300, data));
            }
        }
        socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
    }
}

struct Fixture {
    resolver: NameResolver,
    questions: Questions,
    _server: JoinSet<()>,
}

async fn fixture(config: &str) -> Fixture {
    let config: DownloaderConfig = toml::from_str(config).unwrap();
    config.check().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut connection = ConnectionConfig::udp();
    connection.port = socket.local_addr().unwrap().port();
    let mut server = NameServerConfig::udp([127, 0, 0, 1].into());
    server.connections = vec![connection];
    let servers = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
    let mut builder = TokioResolver::builder_with_config(servers, TokioRuntimeProvider::default());
    set_options(builder.options_mut(), &config);
    let questions = Questions::default();
    let mut serving = JoinSet::new();
    serving.spawn(serve_names(socket, Arc::clone(&questions)));
    let policy = Arc::new(AddressPolicy::new(&config));
    let resolver = NameResolver::with_system(&config, policy, Ok(builder.build().unwrap()));
    Fixture { resolver, questions, _server: serving }
}

async fn check(fixture: &Fixture, name: &str, expected: Result<&[&str], FailureKind>) {
    let got = fixture.resolver.addresses(name).await;
    let got: Result<Vec<String>, FailureKind> =
        got.map(|found| found.iter().map(ToString::to_string).collect()).map_err(|failure| failure.kind);
    assert_eq!(got, expected.map(|texts| texts.iter().map(ToString::to_string).collect()), "{name}");
}

#[tokio::test]
async fn names_become_addresses_or_the_right_failure() {
    let fixture = fixture("connect_timeout = \"1200ms\"").await;
    check(&fixture, "public.example", Ok(&["8.8.8.8:0"])).await;
    check(&fixture, "PUBLIC.example.", Ok(&["8.8.8.8:0"])).await;
    check(&fixture, "private.example", Err(FailureKind::PrivateAddress)).await;
    check(&fixture, "mixed.example", Ok(&["8.8.4.4:0"])).await;
    check(&fixture, "empty.example", Err(FailureKind::DnsNotFound)).await;
    check(&fixture, "missing.example", Err(FailureKind::DnsNotFound)).await;
    check(&fixture, "failing.example", Err(FailureKind::DnsFailed)).await;
    check(&fixture, "silent.example", Err(FailureKind::DnsFailed)).await;
    check(&fixture, &format!("{}.example", "a".repeat(64)), Err(FailureKind::DnsNotFound)).await;
    check(&fixture, &["a"; 200].join("."), Err(FailureKind::DnsNotFound)).await;
}

#[tokio::test]
async fn the_refusal_says_what_would_allow_it() {
    let fixture = fixture("").await;
    let failure = fixture.resolver.addresses("private.example").await.unwrap_err();
    for words in ["10.0.0.1 of private.example", "a private address", "--allow-private", "allow_private_addresses"] {
        assert!(failure.detail.contains(words), "{failure}");
    }
}

#[tokio::test]
async fn names_are_asked_for_once() {
    let fixture = fixture("").await;
    let mut asking = JoinSet::new();
    for _ in 0..20 {
        let resolver = fixture.resolver.clone();
        asking.spawn(async move { resolver.addresses("public.example").await.is_ok() });
    }
    assert_eq!(asking.join_all().await, [true; 20]);
    check(&fixture, "public.example", Ok(&["8.8.8.8:0"])).await;
    let mut asked = fixture.questions.lock().unwrap().clone();
    asked.sort();
    assert_eq!(asked, ["public.example. A", "public.example. AAAA"]);
}

#[tokio::test]
async fn overrides_come_first_and_pass_the_same_check() {
    let fixture = fixture(
        r#"
        allow_networks = ["10.9.0.0/16"]
        resolve = { "public.example" = "9.9.9.9", "Port.example" = "10.9.0.1:8080", "hidden.example" = "10.8.0.1" }
        "#,
    )
    .await;
    check(&fixture, "public.example", Ok(&["9.9.9.9:0"])).await;
    check(&fixture, "port.example", Ok(&["10.9.0.1:8080"])).await;
    check(&fixture, "hidden.example", Err(FailureKind::PrivateAddress)).await;
    assert!(fixture.questions.lock().unwrap().is_empty());
}

#[tokio::test]
async fn without_name_servers_overrides_still_work() {
    let config: DownloaderConfig = toml::from_str(r#"resolve = { "a.example" = "9.9.9.9" }"#).unwrap();
    let policy = Arc::new(AddressPolicy::new(&config));
    let resolver = NameResolver::with_system(&config, policy, Err("there is no /etc/resolv.conf".to_owned()));
    assert!(resolver.addresses("a.example").await.is_ok());
    let failure = resolver.addresses("b.example").await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::DnsFailed);
    assert!(failure.detail.contains("there is no /etc/resolv.conf"), "{failure}");
}
