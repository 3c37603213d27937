//! Values by serde, as JSON: text that any tool reads, and that a type which has grown a field
//! still reads.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{StoredValue, ValueFor};
use crate::{Error, Result};

/// A value that is stored as JSON. `Json(&value)` stores a value that is borrowed.
///
/// ```
/// use everleaf::Json;
///
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct User {
///     name: String,
///     age: u8,
/// }
///
/// # let folder = tempfile::tempdir()?;
/// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
/// let users = store.typed_tree::<u64, Json<User>>("users")?;
/// let ann = User { name: "Ann".to_owned(), age: 31 };
/// users.put(7, Json(&ann))?;
/// assert_eq!(users.get(7)?, Some(Json(ann)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json<T>(pub T);

impl<T> Deref for Json<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Json<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

fn encode<T: Serialize>(value: &T) -> Result<Cow<'_, [u8]>> {
    match serde_json::to_vec(value) {
        Ok(bytes) => Ok(Cow::Owned(bytes)),
        Err(error) => Err(Error::NotEncodable { format: "JSON", what: error.to_string() }),
    }
}

impl<T: Serialize> ValueFor<Json<T>> for Json<T> {
    fn encode(&self) -> Result<Cow<'_, [u8]>> {
        encode(&self.0)
    }
}

impl<T: Serialize> ValueFor<Json<T>> for Json<&T> {
    fn encode(&self) -> Result<Cow<'_, [u8]>> {
        encode(self.0)
    }
}

impl<T: Serialize + DeserializeOwned> StoredValue for Json<T> {
    fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().map(Json)
    }
    fn type_name() -> String {
        "Json".to_owned()
    }
}
