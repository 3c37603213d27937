//! Names that completions offer, and what they stand for.

use clap::builder::TypedValueParser;
use everleaf::Engine;
use everleaf_cli::failure::Failure;
use everleaf_cli::names::offering;

/// The figures of the papers.
pub fn figures() -> impl TypedValueParser<Value = String> {
    offering(|| everleaf_bench::figure::figure_list().iter().map(|(name, _)| *name).collect())
}

/// The engines that pools can be made of.
pub fn engines() -> impl TypedValueParser<Value = String> {
    offering(|| everleaf_engines::pools().map(|entry| entry.name).collect())
}

/// The engine of this name.
pub fn engine(name: &str) -> Result<Engine, Failure> {
    everleaf_engines::named(name).map(Engine::of).map_err(Failure::usage)
}

/// One engine that pools can be made of.
#[derive(Debug, clap::Args)]
pub struct OneEngine {
    /// The engine.
    #[arg(
        id = "engine",
        long = "engine",
        value_name = "E",
        default_value_t = Engine::default().name().to_owned(),
        value_parser = engines()
    )]
    name: String,
}

impl OneEngine {
    /// The engine that was named.
    pub fn get(&self) -> Result<Engine, Failure> {
        engine(&self.name)
    }
}
