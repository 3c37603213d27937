//! Cells: the only thing that persistent memory is made of.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{LINE, WORD};

/// A value that packs into one 8-byte word. Every one of the 2^64 words must be accepted by
/// [`from_word`](Word::from_word): memory may be damaged, and damage must not be undefined
/// behaviour.
pub trait Word: Copy + 'static {
    /// The word that stands for this value.
    fn into_word(self) -> u64;
    /// The value that a word stands for; total.
    fn from_word(word: u64) -> Self;
}

impl Word for u64 {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        word
    }
}

/// An 8-byte, p-atomic cell of persistent memory holding a `T`.
///
/// A cell is read and written through a [`Media`](crate::Media) only, so that every access can be
/// counted or traced.
#[repr(transparent)]
pub struct PCell<T: Word = u64> {
    word: AtomicU64,
    holds: PhantomData<fn() -> T>,
}

impl<T: Word> PCell<T> {
    #[cfg(test)]
    pub(crate) const fn zeroed() -> Self {
        Self { word: AtomicU64::new(0), holds: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.word.load(order)
    }

    #[inline(always)]
    pub(crate) fn store(&self, word: u64, order: Ordering) {
        self.word.store(word, order);
    }

    #[inline(always)]
    pub(crate) fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        self.word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// The address of the cell, as flush instructions and traces use it.
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        (self as *const Self).addr()
    }

    /// The same cell seen as a plain word.
    #[inline(always)]
    pub fn as_word(&self) -> &PCell<u64> {
        self.view()
    }

    /// The same cell seen as holding a `U`: every word is one.
    #[inline(always)]
    pub fn view<U: Word>(&self) -> &PCell<U> {
        // SAFETY: PCell is a transparent AtomicU64 for every T and U, and every word is a valid U
        // by the contract of Word.
        unsafe { &*(self as *const Self).cast::<PCell<U>>() }
    }
}

/// A structure that may live in persistent memory.
///
/// # Safety
/// The type is `repr(C)` or `repr(transparent)`, consists of [`PCell`]s, arrays and other
/// `Persistent` types only, and its alignment is at most [`LINE`]. Then any bit pattern is valid
/// and a shared reference to it permits racing accesses. Do not write this by hand:
/// [`persistent!`](crate::persistent!) derives and checks it.
pub unsafe trait Persistent: Sized + Send + Sync + 'static {}

// SAFETY: a transparent AtomicU64.
unsafe impl<T: Word> Persistent for PCell<T> {}
// SAFETY: an array of Persistent has no bytes but those of its elements.
unsafe impl<T: Persistent, const N: usize> Persistent for [T; N] {}

/// One cache line as eight cells.
#[repr(C, align(64))]
pub struct Line(
    /// The words of the line, lowest address first.
    pub [PCell; 8],
);
// SAFETY: repr(C), cells only, alignment 64.
unsafe impl Persistent for Line {}
const _: () =
    assert!(size_of::<Line>() == LINE && align_of::<Line>() == LINE && size_of::<PCell>() == WORD);

/// Declares structures of persistent memory: `repr(C)`, line-aligned unless said otherwise, every
/// field checked to be [`Persistent`](crate::Persistent) at compile time. Each gets a function
/// `layout`, from which docs/format.md is made; attributes of fields can be documentation only.
///
/// ```
/// use everleaf_pmem::{PCell, PPtr, persistent};
/// persistent! {
///     /// A node of one line.
///     pub struct Node {
///         /// The next node.
///         pub next: PCell<PPtr<Node>>,
///         /// Seven values.
///         pub values: [PCell; 7],
///     }
/// }
/// assert_eq!(size_of::<Node>(), 64);
/// assert_eq!(Node::layout().fields[1].offset, 8);
/// ```
#[macro_export]
macro_rules! persistent {
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(< $(const $g:ident : $gt:ty),+ >)? {
            $( $(#[doc = $fdoc:literal])* $fvis:vis $field:ident : $fty:ty ),* $(,)?
        }
    )*) => { $(
        $(#[$meta])*
        #[repr(C, align(64))]
        $vis struct $name $(< $(const $g: $gt),+ >)? {
            $( $(#[doc = $fdoc])* $fvis $field : $fty ),*
        }
        // SAFETY: repr(C), and `require` below refuses to compile unless every field is Persistent;
        // align(64) is at most a line.
        unsafe impl $(< $(const $g: $gt),+ >)? $crate::Persistent for $name $(< $($g),+ >)? {}
        impl $(< $(const $g: $gt),+ >)? $name $(< $($g),+ >)? {
            #[allow(dead_code)]
            const ALL_FIELDS_ARE_PERSISTENT: () = {
                const fn require<T: $crate::Persistent>() {}
                $( require::<$fty>(); )*
            };

            /// Every byte, as it is defined.
            #[allow(dead_code)]
            pub fn layout() -> $crate::Layout {
                let fields = ::std::vec![$( $crate::Field {
                    name: stringify!($field).to_owned(),
                    kind: stringify!($fty).to_owned(),
                    offset: ::std::mem::offset_of!(Self, $field),
                    bytes: ::std::mem::size_of::<$fty>(),
                    what: concat!($($fdoc),*).trim().to_owned(),
                } ),*];
                let bytes = ::std::mem::size_of::<Self>();
                $crate::Layout { name: stringify!($name), bytes, fields }
            }
        }
    )* };
}
