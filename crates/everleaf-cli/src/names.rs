//! Names that help and completions offer. Whether a name is one, the library decides: what it says
//! about a wrong one is longer than what clap would say.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};

/// A string, for which some values are offered.
#[derive(Clone)]
struct Offering<F>(F);

impl<F> TypedValueParser for Offering<F>
where
    F: Fn() -> Vec<&'static str> + Clone + Send + Sync + 'static,
{
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0().into_iter().map(PossibleValue::new)))
    }
}

/// A string, for which these values are offered.
pub fn offering(
    values: impl Fn() -> Vec<&'static str> + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = String> {
    Offering(values)
}

/// The engines that pools can be made of.
pub fn engines() -> impl TypedValueParser<Value = String> {
    offering(|| everleaf::Engine::available().map(|engine| engine.name()).collect())
}
