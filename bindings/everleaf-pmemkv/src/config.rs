//! What a database is opened with: items of several types, by name.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

use everleaf_c::boundary::{bytes, give, handle, handle_mut, string, taken};

use crate::Comparator;
use crate::status::number::{CONFIG_TYPE_ERROR, OK, UNKNOWN_ERROR};
use crate::status::{Fault, Result, found, guard};

/// Frees an object.
pub type Deleter = unsafe extern "C" fn(*mut c_void);
/// Finds an object behind what was put in its place.
pub type Getter = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The items.
#[derive(Default)]
pub struct Config {
    items: HashMap<CString, Item>,
}

enum Item {
    Text(CString),
    Int(i64),
    Uint(u64),
    Data(Box<[u8]>),
    Object(Object),
}

struct Object {
    place: *mut c_void,
    getter: Option<Getter>,
    deleter: Option<Deleter>,
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(deleter) = self.deleter {
            // SAFETY: who put the object gave this function for it.
            unsafe { deleter(self.place) }
        }
    }
}

impl Item {
    fn kind(&self) -> &'static str {
        match self {
            Item::Text(_) => "string",
            Item::Int(_) => "int64",
            Item::Uint(_) => "uint64",
            Item::Data(_) => "data",
            Item::Object(_) => "object",
        }
    }

    fn as_text(&self) -> Option<&CStr> {
        if let Item::Text(text) = self { Some(text) } else { None }
    }

    fn as_data(&self) -> Option<&[u8]> {
        if let Item::Data(data) = self { Some(data) } else { None }
    }

    fn as_int(&self) -> Option<i64> {
        match self {
            Item::Int(number) => Some(*number),
            Item::Uint(number) => i64::try_from(*number).ok(),
            _ => None,
        }
    }

    fn as_uint(&self) -> Option<u64> {
        match self {
            Item::Uint(number) => Some(*number),
            Item::Int(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    fn as_object(&self) -> Option<*mut c_void> {
        let Item::Object(object) = self else { return None };
        // SAFETY: who put the object gave this function for it.
        Some(object.getter.map_or(object.place, |getter| unsafe { getter(object.place) }))
    }
}

impl Config {
    /// What is refused is not made: an object stays the caller's then.
    fn put(&mut self, name: &CStr, item: impl FnOnce() -> Result<Item>) -> Result<c_int> {
        if self.items.contains_key(name) {
            let sentence = format!("Item with key: {} already exists", name.to_string_lossy());
            return Err(Fault::new(UNKNOWN_ERROR, sentence));
        }
        self.items.insert(name.to_owned(), item()?);
        Ok(OK)
    }

    fn get<'c, T>(
        &'c self,
        name: &CStr,
        expected: &str,
        read: impl FnOnce(&'c Item) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(item) = self.items.get(name) else { return Ok(None) };
        read(item).map(Some).ok_or_else(|| {
            let (name, kind) = (name.to_string_lossy(), item.kind());
            let sentence = format!("Item with key: {name} is of type {kind}. Expected: {expected}");
            Fault::new(CONFIG_TYPE_ERROR, sentence)
        })
    }

    pub(crate) fn text(&self, name: &CStr) -> Result<Option<&CStr>> {
        self.get(name, "string", Item::as_text)
    }

    pub(crate) fn uint(&self, name: &CStr) -> Result<Option<u64>> {
        self.get(name, "uint64", Item::as_uint)
    }

    pub(crate) fn is_set(&self, name: &CStr) -> Result<bool> {
        Ok(self.uint(name)?.is_some_and(|value| value != 0))
    }

    pub(crate) fn object(&self, name: &CStr) -> Result<Option<*mut c_void>> {
        self.get(name, "object", Item::as_object)
    }
}

/// An empty config.
#[unsafe(no_mangle)]
pub extern "C" fn pmemkv_config_new() -> *mut Config {
    Box::into_raw(Box::default())
}

/// Frees a config that no database was opened with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_delete(config: *mut Config) {
    // SAFETY: the caller's contract.
    drop(unsafe { taken(config) });
}

/// # Safety
/// The caller's contract.
unsafe fn put(
    function: &str,
    config: *mut Config,
    name: *const c_char,
    item: impl FnOnce() -> Result<Item>,
) -> c_int {
    // SAFETY: the caller's contract.
    guard(function, || unsafe { handle_mut(config)?.put(string(name)?, item) })
}

/// Copies bytes into a config.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_put_data(
    config: *mut Config,
    key: *const c_char,
    value: *const c_void,
    value_size: usize,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let data = || Ok(Item::Data(bytes(value, value_size)?.into()));
        put("pmemkv_config_put_data", config, key, data)
    }
}

/// Puts a pointer into a config, and what frees it, if anything does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_put_object(
    config: *mut Config,
    key: *const c_char,
    value: *mut c_void,
    deleter: Option<Deleter>,
) -> c_int {
    let object = || Ok(Item::Object(Object { place: value, getter: None, deleter }));
    // SAFETY: the caller's contract.
    unsafe { put("pmemkv_config_put_object", config, key, object) }
}

/// The same with a function that finds the object behind the pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_put_object_cb(
    config: *mut Config,
    key: *const c_char,
    value: *mut c_void,
    getter: Option<Getter>,
    deleter: Option<Deleter>,
) -> c_int {
    let object = || match getter {
        Some(_) => Ok(Item::Object(Object { place: value, getter, deleter })),
        None => Err(Fault::argument("the getter is NULL; give a function")),
    };
    // SAFETY: the caller's contract.
    unsafe { put("pmemkv_config_put_object_cb", config, key, object) }
}

/// Puts a number into a config.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_put_uint64(
    config: *mut Config,
    key: *const c_char,
    value: u64,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { put("pmemkv_config_put_uint64", config, key, || Ok(Item::Uint(value))) }
}

/// Puts a number into a config.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_put_int64(
    config: *mut Config,
    key: *const c_char,
    value: i64,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { put("pmemkv_config_put_int64", config, key, || Ok(Item::Int(value))) }
}

/// Copies a string into a config.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_put_string(
    config: *mut Config,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let text = || Ok(Item::Text(string(value)?.to_owned()));
        put("pmemkv_config_put_string", config, key, text)
    }
}

/// # Safety
/// The caller's contract.
unsafe fn get<T>(
    function: &str,
    config: *const Config,
    name: *const c_char,
    read: impl FnOnce(&'static Config, &CStr) -> Result<Option<T>>,
    hand_out: impl FnOnce(T) -> Result<()>,
) -> c_int {
    guard(function, || {
        // SAFETY: the caller's contract.
        let value = unsafe { read(handle(config)?, string(name)?) }?;
        Ok(found(value.map(hand_out).transpose()?.is_some()))
    })
}

/// Shows the bytes of an item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_get_data(
    config: *const Config,
    key: *const c_char,
    value: *mut *const c_void,
    value_size: *mut usize,
) -> c_int {
    let read = |config: &'static Config, name: &CStr| config.get(name, "data", Item::as_data);
    // SAFETY: the caller's contract.
    unsafe {
        get("pmemkv_config_get_data", config, key, read, |data| {
            give(value, data.as_ptr().cast())?;
            Ok(give(value_size, data.len())?)
        })
    }
}

/// Hands out the object of an item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_get_object(
    config: *const Config,
    key: *const c_char,
    value: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        get("pmemkv_config_get_object", config, key, Config::object, |object| {
            Ok(give(value, object)?)
        })
    }
}

/// Hands out the number of an item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_get_uint64(
    config: *const Config,
    key: *const c_char,
    value: *mut u64,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        get("pmemkv_config_get_uint64", config, key, Config::uint, |number| {
            Ok(give(value, number)?)
        })
    }
}

/// Hands out the number of an item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_get_int64(
    config: *const Config,
    key: *const c_char,
    value: *mut i64,
) -> c_int {
    let read = |config: &'static Config, name: &CStr| config.get(name, "int64", Item::as_int);
    // SAFETY: the caller's contract.
    unsafe { get("pmemkv_config_get_int64", config, key, read, |number| Ok(give(value, number)?)) }
}

/// Shows the string of an item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_get_string(
    config: *const Config,
    key: *const c_char,
    value: *mut *const c_char,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        get("pmemkv_config_get_string", config, key, Config::text, |text| {
            Ok(give(value, text.as_ptr())?)
        })
    }
}

/// How large a new pool is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_put_size(config: *mut Config, value: u64) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { pmemkv_config_put_uint64(config, c"size".as_ptr(), value) }
}

/// Where the pool is, or of an engine without a lasting one the folder for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_put_path(
    config: *mut Config,
    value: *const c_char,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { pmemkv_config_put_string(config, c"path".as_ptr(), value) }
}

/// The old name of [`pmemkv_config_put_create_or_error_if_exists`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_put_force_create(config: *mut Config, value: bool) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { pmemkv_config_put_create_or_error_if_exists(config, value) }
}

/// Whether the pool is to be made, and must not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_put_create_or_error_if_exists(
    config: *mut Config,
    value: bool,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { pmemkv_config_put_uint64(config, c"create_or_error_if_exists".as_ptr(), value.into()) }
}

/// Whether the pool is to be made if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_put_create_if_missing(
    config: *mut Config,
    value: bool,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { pmemkv_config_put_uint64(config, c"create_if_missing".as_ptr(), value.into()) }
}

/// The order of keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_put_comparator(
    config: *mut Config,
    comparator: *mut Comparator,
) -> c_int {
    unsafe extern "C" fn delete(comparator: *mut c_void) {
        // SAFETY: it is what was put.
        unsafe { crate::pmemkv_comparator_delete(comparator.cast()) }
    }
    let (key, comparator) = (c"comparator".as_ptr(), comparator.cast());
    // SAFETY: the caller's contract.
    unsafe { pmemkv_config_put_object(config, key, comparator, Some(delete)) }
}

/// An object of libpmemobj to keep the database in, which is refused when it is opened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmemkv_config_put_oid(config: *mut Config, oid: *mut c_void) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { pmemkv_config_put_object(config, c"oid".as_ptr(), oid, None) }
}
