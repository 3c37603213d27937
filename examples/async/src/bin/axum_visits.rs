//! Visits of pages, counted over HTTP with axum. A write waits for the disk, so it is made by
//! `spawn_blocking`; each request is answered when its count is durable.
//!
//! `cargo run --bin axum_visits` serves, asks itself, and ends.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Router, serve};
use everleaf::{Store, Tree};
use everleaf_async_examples::off;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Clones are the same store.
#[derive(Clone)]
struct Pages {
    visits: Tree<String, u64>,
}

type Refusal = (StatusCode, String);

fn refuse(error: everleaf::Error) -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

async fn visit(State(pages): State<Pages>, Path(page): Path<String>) -> Result<String, Refusal> {
    let count = off(move || pages.visits.update(&page, |count| Some(count.unwrap_or(0) + 1)));
    Ok(count.await.map_err(refuse)?.unwrap_or(0).to_string())
}

/// A read takes microseconds where the pool is in memory, and need not leave this thread.
async fn visits(State(pages): State<Pages>, Path(page): Path<String>) -> Result<String, Refusal> {
    Ok(pages.visits.get(&page).map_err(refuse)?.unwrap_or(0).to_string())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::open_or_create(folder.path().join("pages.pool"))?;
    let pages = Pages { visits: store.typed_tree("visits")? };
    let router = Router::new().route("/{page}", get(visits).post(visit)).with_state(pages);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move { serve(listener, router).await });

    let clients: Vec<_> = (0..8).map(|_| tokio::spawn(ask(address, "POST"))).collect();
    for client in clients {
        client.await??;
    }
    let answer = ask(address, "GET").await?;
    assert!(answer.ends_with("\r\n\r\n8"), "{answer}");
    println!("8 visits, each durable when it was answered");
    server.abort();
    store.close()?;
    Ok(())
}

async fn ask(address: std::net::SocketAddr, method: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("{method} /start HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
