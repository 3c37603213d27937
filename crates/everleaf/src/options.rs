//! How stores are made and opened.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use everleaf_index::{BytesKeys, U64Keys};
use everleaf_log::NewFolder;
use everleaf_pmem::{Cpu, FlushInstruction, Mapped, Media, Medium, Region, Transactions, planted};
use everleaf_pool::{
    DEFAULT_MAX_BYTES, Format, KeyType, OpenMode, Opened, Pool, PoolError, create_file, lock_file,
};
use everleaf_tree::EngineCode;

use crate::core::attached::{Attached, Terms};
use crate::core::backend::{BEING_RESTORED, Backend};
use crate::durability::{DurabilityContext, choice_of, has_log, with_choice, with_log};
use crate::memory::bound_read_ahead;
use crate::registry::{Engines, SHIPPED};
use crate::store_parts::{PoolIdentity, terms};
use crate::unfinished::Unfinished;
use crate::{
    Clock, DurabilityMode, Engine, EngineParameters, Error, Store, StoreKey, logged, registry,
};

/// The size that a pool file has at first if nothing else is said: 1 MiB.
pub const DEFAULT_SIZE_BYTES: u64 = 1 << 20;
/// In a pool that stays smaller a group of leaves of the tuned size would be a large part of it.
const SMALL_POOL_BYTES: u64 = 4 << 20;
/// The unit of groups.
pub(crate) const GROUP_UNIT: u64 = 4096;

/// How a store is made.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("numbers.pool");
/// use everleaf::{CreateOptions, Engine, KeyType};
///
/// let store = CreateOptions::new()
///     .engine(Engine::FPTREE)
///     .key_type(KeyType::U64)
///     .create(&path)?;
/// store.put(42, "the answer")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreateOptions {
    /// The tree. Default: `fptree-c`.
    pub engine: Engine,
    /// The kind of keys. Default: byte strings.
    pub key_type: KeyType,
    /// Bytes of the file at first, all of them allocated at once; at least 64 KiB. The file grows
    /// by itself: it doubles until it has 16 MiB, and then grows by 8 MiB at a time. Default: 1
    /// MiB.
    pub size_bytes: u64,
    /// Bytes that the file may grow to. Default: as much as addresses can be reserved for, at most
    /// 1 TiB.
    pub max_size_bytes: Option<u64>,
    /// Sizes of the engine's nodes, for the laboratory. Default: its tuned ones.
    #[doc(hidden)]
    pub parameters: EngineParameters,
    /// The engines that there are. Default: those of this build.
    pub(crate) engines: Engines<Mapped>,
    /// When a write that has returned is durable; it stands in the pool. Default: the strongest
    /// that engine and medium keep: [`Immediate`](DurabilityMode::Immediate) on persistent memory
    /// and on ordinary disks, [`Process`](DurabilityMode::Process) where nothing survives the
    /// machine; with engines of epochs [`buffered`](DurabilityMode::buffered) everywhere. On an
    /// ordinary disk `Immediate` and `Buffered` make a log beside the pool, the folder `POOL.log`:
    /// nothing that is acknowledged is lost by a power failure.
    pub durability: Option<DurabilityMode>,
    /// The folder of the log, which must not exist: on a disk of its own, for instance. `POOL.log`
    /// is a symbolic link to it then. Default: `POOL.log` itself.
    pub log_folder: Option<PathBuf>,
    /// What values expire by. Default: the system's clock.
    pub clock: Clock,
    /// Which transactions keep threads apart, where the engine knows any (`fptree-c`). Default:
    /// none, but version locks, which are faster on the processors that were measured.
    pub transactions: Transactions,
    /// As [`OpenOptions::control_socket`], of the store that is returned. Default: none.
    #[cfg(feature = "control")]
    pub control_socket: bool,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            engine: Engine::default(),
            key_type: KeyType::Bytes,
            size_bytes: DEFAULT_SIZE_BYTES,
            max_size_bytes: None,
            parameters: EngineParameters::default(),
            engines: SHIPPED,
            durability: None,
            log_folder: None,
            clock: Clock::system(),
            transactions: Transactions::Off,
            #[cfg(feature = "control")]
            control_socket: false,
        }
    }
}

impl CreateOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the tree.
    #[must_use]
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Sets the kind of keys.
    #[must_use]
    pub fn key_type(mut self, key_type: KeyType) -> Self {
        self.key_type = key_type;
        self
    }

    /// Sets the size of the file at first, in bytes.
    #[must_use]
    pub fn size_bytes(mut self, bytes: u64) -> Self {
        self.size_bytes = bytes;
        self
    }

    /// Sets the size that the file may grow to, in bytes.
    #[must_use]
    pub fn max_size_bytes(mut self, bytes: u64) -> Self {
        self.max_size_bytes = Some(bytes);
        self
    }

    /// Sets the engine and the sizes of another pool where this program has code for them: what
    /// only the laboratory has becomes the default.
    pub(crate) fn with_tree(self, engine: Engine, parameters: EngineParameters) -> Self {
        let chosen = [(engine, parameters), (engine, EngineParameters::default())];
        let mut chosen = chosen.map(|(engine, of)| self.clone().engine(engine).parameters(of));
        match chosen.iter_mut().find(|options| options.format(options.engines).is_ok()) {
            Some(options) => options.clone(),
            None => self,
        }
    }

    /// Sets the engines that there are.
    #[doc(hidden)] // For the laboratory, which has more.
    #[must_use]
    pub fn engines(mut self, engines: Engines<Mapped>) -> Self {
        self.engines = engines;
        self
    }

    /// Sets the sizes of the engine's nodes.
    #[doc(hidden)] // For the laboratory: all others want the tuned ones.
    #[must_use]
    pub fn parameters(mut self, parameters: EngineParameters) -> Self {
        self.parameters = parameters;
        self
    }

    /// Sets when a write that has returned is durable.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("words.pool");
    /// use everleaf::{CreateOptions, DurabilityMode};
    ///
    /// let options = CreateOptions::new().durability(DurabilityMode::Process);
    /// let store = options.create(&path)?;
    /// assert_eq!(store.capabilities().durability_mode, DurabilityMode::Process);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn durability(mut self, mode: DurabilityMode) -> Self {
        self.durability = Some(mode);
        self
    }

    /// Sets where the folder of the log is made. The pool finds it again by a symbolic link, which
    /// is to be moved with the pool. It is a relative one if the folder is beside the pool or below
    /// that folder. A copy whose link leads to the log of the original is refused.
    ///
    /// ```no_run
    /// use everleaf::{CreateOptions, Store};
    ///
    /// let options = CreateOptions::new().log_folder("/mnt/fast/words.log");
    /// options.create("/mnt/large/words.pool")?.put("a", "1")?;
    /// assert!(Store::open("/mnt/large/words.pool")?.contains_key("a")?);
    /// # Ok::<(), everleaf::Error>(())
    /// ```
    #[must_use]
    pub fn log_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.log_folder = Some(folder.into());
        self
    }

    /// Sets what values expire by.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets which transactions keep threads apart, where the engine knows any.
    #[must_use]
    pub fn transactions(mut self, transactions: Transactions) -> Self {
        self.transactions = transactions;
        self
    }

    /// Sets whether other processes can read the pool while it is open here: see
    /// [`OpenOptions::control_socket`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("words.pool");
    /// let options = everleaf::CreateOptions::new().control_socket(true);
    /// for _made_or_opened in 0..2 {
    ///     let store = options.open_or_create(&path)?;
    ///     assert!(folder.path().join("words.pool.sock").exists());
    ///     store.close()?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "control")]
    #[must_use]
    pub fn control_socket(mut self, control_socket: bool) -> Self {
        self.control_socket = control_socket;
        self
    }

    /// Makes a pool file at `path`, which must not exist, with an empty store in it. The store is
    /// durable when this returns; if it fails, no file is left.
    ///
    /// # Errors
    /// [`Error::UnknownEngine`], [`Error::UnknownParameter`], [`Error::NoByteStrings`], an
    /// [`Error::Index`] that says which parameters there are, [`Error::DurabilityOfMedium`],
    /// [`Error::DurabilityOfEngine`], [`Error::NoLog`], [`PoolError::Exists`],
    /// [`PoolError::TooSmall`], or what the system says (a full disk above all).
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Store, Error> {
        let path = path.as_ref();
        let (store, _locked, log) = self.create_at(path, path)?;
        logged::keep_log(log, path)?;
        #[cfg(feature = "control")]
        if self.control_socket {
            store.listen_beside(path);
        }
        Ok(store)
    }

    /// As [`create`](Self::create), and closes the store. If that fails, no file is left either.
    ///
    /// # Errors
    /// As [`create`](Self::create) and [`Store::close`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("words.pool");
    /// everleaf::CreateOptions::new().create_closed(&path)?;
    /// assert!(everleaf::Store::open(&path)?.is_empty()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_closed(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        if path.symlink_metadata().is_ok() {
            return self.create(path)?.close(); // A DAX device, or an error.
        }
        let mut unfinished = Unfinished::of(path)?;
        let (store, unfinished) = (self.create_part(&mut unfinished)?, unfinished);
        store.close()?;
        unfinished.finish()
    }

    /// As [`create`](Self::create), under the name that a pool has until it is complete. A log has
    /// the place that it will have. Both are locked until the pool is complete.
    pub(crate) fn create_part(&self, unfinished: &mut Unfinished) -> Result<Store, Error> {
        let (store, file, log) = self.create_at(unfinished.part(), unfinished.path())?;
        unfinished.owns(file, log);
        Ok(store)
    }

    /// The same with the durability that was chosen for another pool, where the medium keeps it;
    /// else with its default.
    pub(crate) fn create_part_as(
        &self,
        unfinished: &mut Unfinished,
        chosen: Option<DurabilityMode>,
    ) -> Result<Store, Error> {
        let with = |durability| Self { durability, ..self.clone() };
        match with(chosen).create_part(unfinished) {
            Err(Error::DurabilityOfMedium { .. }) => with(None).create_part(unfinished),
            created => created,
        }
    }

    /// Opens the store at `path`, or makes one of these options if there is none. What is there is
    /// opened as it was made: of these options only the clock, the transactions, the durability and
    /// the control socket count for it.
    ///
    /// # Errors
    /// As [`create`](Self::create) and [`OpenOptions::open`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("numbers.pool");
    /// use everleaf::{CreateOptions, KeyType};
    ///
    /// let options = CreateOptions::new().key_type(KeyType::U64);
    /// options.open_or_create(&path)?.put(1, "one")?;
    /// assert_eq!(options.open_or_create(&path)?.len()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_or_create(&self, path: impl AsRef<Path>) -> Result<Store, Error> {
        let path = path.as_ref();
        let mut open = OpenOptions::new().clock(self.clock.clone()).transactions(self.transactions);
        open.durability = self.durability;
        #[cfg(feature = "control")]
        {
            open.control_socket = self.control_socket;
        }
        loop {
            match open.open(path) {
                Err(Error::Pool(PoolError::Missing { .. })) => {}
                opened => return opened,
            }
            // Another process may make it in between, or remove it.
            match self.create(path) {
                Err(Error::Pool(PoolError::Exists { .. })) => {}
                created => return created,
            }
        }
    }

    /// The store, its file, and its log, which is removed unless it is kept. Not generic, so that
    /// the engines are compiled here, once, and not in every crate that makes a store.
    fn create_at(
        &self,
        path: &Path,
        final_path: &Path,
    ) -> Result<(Store, File, Option<NewFolder>), Error> {
        self.format(self.engines)?; // Before a file is made.
        let max_bytes = self.max_size_bytes.unwrap_or(DEFAULT_MAX_BYTES);
        create_file(path, self.size_bytes, max_bytes, |region| {
            let file = region.file().ok_or_else(|| PoolError::Missing { path: path.into() })?;
            let file = file.try_clone().map_err(|source| PoolError::Io {
                action: "creating",
                path: path.into(),
                source,
            })?;
            if self.wants_log(region.medium()) {
                let mode = DurabilityContext::with_log(self.engine).of_new(self.durability)?;
                let options = self.clone().durability(mode);
                let (store, log) = logged::create(&options, final_path, region)?;
                return Ok((store, file, Some(log)));
            }
            if let Some(folder) = &self.log_folder {
                return Err(Error::NoLog { folder: folder.clone() });
            }
            let media = hardware(region, FlushChoice::Auto)?;
            let store = self.create_on(self.engines, media).map(bound_read_ahead)?;
            Ok((store, file, None))
        })
    }

    /// Whether there will be a log beside the pool.
    fn wants_log(&self, medium: Medium) -> bool {
        self.durability != Some(DurabilityMode::Process) && medium == Medium::PageCache
    }

    fn format<M: Media>(&self, engines: Engines<M>) -> Result<Format, Error> {
        let format = self.engine.store_format(self.key_type, &self.sized_parameters())?;
        registry::code_of_new(engines, &format)?;
        Ok(with_choice(format, self.durability))
    }

    /// The parameters, with groups of leaves that leave a small pool room for other things.
    fn sized_parameters(&self) -> EngineParameters {
        let mut parameters = self.parameters;
        let grouped = self.engine.entry().parameters.contains(&EngineParameters::GROUP_BYTES);
        if grouped && parameters.group_bytes.is_none() && self.stays_small() {
            parameters.group_bytes =
                Some((self.size_bytes / 16 / GROUP_UNIT * GROUP_UNIT).max(GROUP_UNIT));
        }
        parameters
    }

    /// Whether a part of the pool is that of a small one. One that begins with the default size
    /// grows.
    fn stays_small(&self) -> bool {
        let grows = self.max_size_bytes.is_none_or(|max_bytes| max_bytes >= SMALL_POOL_BYTES);
        self.size_bytes < if grows { DEFAULT_SIZE_BYTES } else { SMALL_POOL_BYTES }
    }

    /// Makes a store over the whole region of any media, whatever it holds: for benchmarks and for
    /// the explorer. The pool is handed out too, as the way to the media.
    ///
    /// # Errors
    /// As [`create`](Self::create), but for those about files.
    pub(crate) fn create_on<M: Media>(
        &self,
        engines: Engines<M>,
        media: M,
    ) -> Result<(Store, Arc<Pool<M>>), Error> {
        let ground = DurabilityContext::of(self.engine, &media);
        self.make(engines, media, ground, PoolIdentity::New)
    }

    /// The same, with what durability depends on.
    pub(crate) fn make<M: Media>(
        &self,
        engines: Engines<M>,
        media: M,
        ground: DurabilityContext,
        made: PoolIdentity,
    ) -> Result<(Store, Arc<Pool<M>>), Error> {
        let format = self.format(engines)?;
        let mode = ground.of_new(self.durability)?;
        let terms = terms(ground, mode, true, self.transactions, &self.clock);
        let pool = match made {
            PoolIdentity::New => Pool::create(media, &format)?,
            PoolIdentity::As(uuid) => Pool::create_as(media, &with_log(format), uuid)?,
        };
        let backend = match self.key_type {
            KeyType::U64 => self.attach::<M, U64Keys>(engines, &pool, terms)?,
            KeyType::Bytes => self.attach::<M, BytesKeys>(engines, &pool, terms)?,
        };
        pool.sync()?;
        Ok((Store::over(backend), pool))
    }

    fn attach<M: Media, K: StoreKey>(
        &self,
        engines: Engines<M>,
        pool: &Arc<Pool<M>>,
        terms: Terms,
    ) -> Result<Arc<dyn Backend>, Error> {
        let parameters = self.sized_parameters();
        Ok(Arc::new(Attached::<M, K>::create(engines, pool, self.engine, &parameters, terms)?))
    }
}

/// Which flush instruction is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushChoice {
    /// What the medium needs: the best instruction there is on persistent memory, none elsewhere.
    #[default]
    Auto,
    /// This one, with fences, whatever the medium: for measurements. Forcing none leaves the fences
    /// out too, and lowers the durability of persistent memory to that of a process crash.
    Force(FlushInstruction),
}

/// How a store is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Whether the file must not be written: if recovery is needed, it happens in private memory.
    /// Several readers may have a store open.
    pub read_only: bool,
    /// Whether all pages are faulted in at once, so that no later access waits for the kernel. Of a
    /// pool with a log: whether it is read into memory whole, so that no later access waits for the
    /// disk, and a disk that cannot be read is an error. Without effect where a pool without a log
    /// is opened read-only.
    pub prefault: bool,
    /// Bytes of memory that changed pages of a pool with a log may take: at half of it they are
    /// written to the file, and given back; writers wait for that before they take more, within a
    /// large value too, for as long as two checkpoints take. What is only read takes none, but for
    /// the system's cache of the file. At least 1 MiB. Default: half of the memory that there is,
    /// to this process. Without effect where the pool is read whole, or opened read-only.
    pub memory_bytes: Option<u64>,
    /// The flush instruction.
    pub flush: FlushChoice,
    /// When a write that has returned is durable, for this opening only: no stronger than what was
    /// chosen when the pool was created. Default: that, or what engine and medium keep.
    pub durability: Option<DurabilityMode>,
    /// A weaker durability for this opening: where the pool promises more and waits for a log, it
    /// promises only this. Default: nothing less than what the pool promises.
    pub relaxed_durability: Option<DurabilityMode>,
    /// What values expire by.
    pub clock: Clock,
    /// Which transactions keep threads apart, where the engine knows any (`fptree-c`); without any,
    /// version locks do. Default: none.
    pub transactions: Transactions,
    /// Whether other processes of the same user can read the pool meanwhile, by a socket beside it:
    /// `POOL.sock`. Without effect where the pool is opened read-only. Default: they cannot.
    #[cfg(feature = "control")]
    pub control_socket: bool,
    /// Whether a pool whose restore was cut off is opened, too.
    restoring: bool,
    /// The engines that there are. Default: those of this build.
    engines: Option<Engines<Mapped>>,
}

impl OpenOptions {
    /// Those of a restore.
    pub(crate) fn to_restore() -> Self {
        Self { restoring: true, ..Self::default() }
    }

    /// Sets the engines that there are.
    #[doc(hidden)] // For the laboratory, which has more.
    #[must_use]
    pub fn engines(mut self, engines: Engines<Mapped>) -> Self {
        self.engines = Some(engines);
        self
    }

    /// The engines that there are.
    pub(crate) fn known_engines(&self) -> Engines<Mapped> {
        self.engines.unwrap_or(SHIPPED)
    }

    /// The defaults: to read and write, nothing faulted in, flushes as the medium needs them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the file must not be written.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Sets whether all pages are faulted in at once, about 0.1 ms a MiB.
    #[must_use]
    pub fn prefault(mut self, prefault: bool) -> Self {
        self.prefault = prefault;
        self
    }

    /// Sets how much memory changed pages of a pool with a log may take, in bytes.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("words.pool");
    /// use everleaf::{OpenOptions, Store};
    ///
    /// Store::create(&path)?.close()?;
    /// let store = OpenOptions::new().memory_bytes(1 << 20).open(&path)?;
    /// store.put("large", vec![7; 3 << 20])?;
    /// assert_eq!(store.get("large")?.map(|value| value.len()), Some(3 << 20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = Some(bytes);
        self
    }

    /// Sets the flush instruction.
    #[must_use]
    pub fn flush(mut self, flush: FlushChoice) -> Self {
        self.flush = flush;
        self
    }

    /// Sets when a write that has returned is durable, for this opening only.
    #[must_use]
    pub fn durability(mut self, mode: DurabilityMode) -> Self {
        self.durability = Some(mode);
        self
    }

    /// Sets a weaker durability for this opening, as for a bulk load: writes do not wait for the
    /// log of an `immediate` pool then, and [`Store::sync`] does once for all. Unlike
    /// [`durability`](Self::durability) it fits every pool: one that promises less, or keeps its
    /// promise without waiting, goes on as it is.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("words.pool");
    /// use everleaf::{DurabilityMode, OpenOptions, Store};
    ///
    /// Store::create(&path)?.close()?;
    /// let relaxed = OpenOptions::new().relaxed_durability(DurabilityMode::buffered());
    /// let store = relaxed.open(&path)?;
    /// (0..1000).try_for_each(|i| store.put(format!("word {i}"), "").map(drop))?;
    /// store.sync()?; // all of them are durable now
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn relaxed_durability(mut self, mode: DurabilityMode) -> Self {
        self.relaxed_durability = Some(mode);
        self
    }

    /// Sets what values expire by.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets which transactions keep threads apart, where the engine knows any.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("words.pool");
    /// use everleaf::statistics::Concurrency;
    /// use everleaf::{OpenOptions, Store, Transactions};
    ///
    /// Store::create(&path)?.close()?;
    /// let store = OpenOptions::new().open(&path)?;
    /// assert_eq!(store.statistics()?.concurrency, Concurrency::VersionLocks);
    /// drop(store);
    /// // Transactions of the processor if it has them, else version locks again.
    /// let store = OpenOptions::new().transactions(Transactions::Auto).open(&path)?;
    /// assert_ne!(store.statistics()?.concurrency, Concurrency::OneLock);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn transactions(mut self, transactions: Transactions) -> Self {
        self.transactions = transactions;
        self
    }

    /// Sets whether other processes of the same user, or of root, can read the pool while it is
    /// open here: the commands `everleaf info`, `check`, `get`, `scan`, `count`, `trees`, `ttl`,
    /// `dump` and `copy` do. They ask a thread of this process, by the socket `POOL.sock` beside
    /// the pool, which is removed when the store is closed. Each sees one moment, as a
    /// [`Snapshot`](crate::Snapshot) does, with its costs.
    ///
    /// That there can be no socket is no error: see
    /// [`Store::no_control_socket`](Store::no_control_socket).
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("words.pool");
    /// use everleaf::{CreateOptions, OpenOptions};
    ///
    /// CreateOptions::new().size_bytes(1 << 20).create(&path)?.close()?;
    /// let store = OpenOptions::new().control_socket(true).open(&path)?;
    /// assert!(folder.path().join("words.pool.sock").exists());
    /// assert_eq!(store.no_control_socket(), None);
    /// store.close()?;
    /// assert!(!folder.path().join("words.pool.sock").exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "control")]
    #[must_use]
    pub fn control_socket(mut self, control_socket: bool) -> Self {
        self.control_socket = control_socket;
        self
    }

    /// Opens the store in the pool file at `path`, recovering it if it was not closed. The pool's
    /// part takes the same time for every size; the engine rebuilds what it keeps in DRAM.
    ///
    /// # Errors
    /// [`PoolError::Missing`], [`PoolError::Locked`], [`PoolError::NotAPool`],
    /// [`PoolError::OtherBoot`], [`Error::BeingRestored`], [`Error::EngineOfPool`],
    /// [`Error::ParameterOfPool`], [`Error::DurabilityOfPool`] for a choice that is too strong,
    /// [`Error::DurabilityOfMedium`] where the medium cannot keep what was chosen, damage, or what
    /// the system says.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Store, Error> {
        self.open_at(path.as_ref())
    }

    /// Not generic, as [`CreateOptions::create_at`] is not.
    fn open_at(&self, path: &Path) -> Result<Store, Error> {
        let store = self.open_file(path)?;
        #[cfg(feature = "control")]
        if self.control_socket && !self.read_only {
            store.listen_beside(path);
        }
        Ok(store)
    }

    fn open_file(&self, path: &Path) -> Result<Store, Error> {
        let start = Instant::now();
        let mode = if self.read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let locked = lock_file(path, mode)?;
        if has_log(locked.format()) {
            return logged::open(self, path, locked, start);
        }
        let region = locked.map()?;
        if self.prefault && !self.read_only {
            region.prefault();
        }
        let media = hardware(region, self.flush)?;
        self.open_since(self.known_engines(), media, start).map(bound_read_ahead)
    }

    /// Opens what any media holds: for benchmarks and for the explorer. The pool is handed out too,
    /// as the way to the media.
    ///
    /// # Errors
    /// As [`open`](Self::open), but for those about files.
    pub(crate) fn open_on<M: Media>(
        &self,
        engines: Engines<M>,
        media: M,
    ) -> Result<(Store, Arc<Pool<M>>), Error> {
        self.open_since(engines, media, Instant::now())
    }

    fn open_since<M: Media>(
        &self,
        engines: Engines<M>,
        media: M,
        start: Instant,
    ) -> Result<(Store, Arc<Pool<M>>), Error> {
        let (medium, keeps) = (media.region().medium(), media.durability());
        let log = media.is_durable_later();
        let accept = |format: &Format| {
            let code = registry::check_format(engines, format)?;
            let ground = DurabilityContext::new(Engine::of(code.entry), medium, keeps);
            let ground = DurabilityContext { log, ..ground };
            let mode = ground.of_opening(choice_of(format)?, self.durability, !self.read_only)?;
            Ok((code, self.terms(ground, mode)))
        };
        self.open_as(media, start, accept, None)
    }

    /// The terms on which a store on this ground is opened, to promise what the mode says.
    pub(crate) fn terms(&self, ground: DurabilityContext, mode: DurabilityMode) -> Terms {
        terms(ground, mode, !self.read_only, self.transactions, &self.clock)
    }

    /// The same. `accept` says which code opens a pool of this format, and on which terms; `lock`
    /// is a file that stays locked until the store is closed.
    pub(crate) fn open_as<M: Media>(
        &self,
        media: M,
        start: Instant,
        accept: impl FnOnce(&Format) -> Result<(&'static EngineCode<M>, Terms), Error>,
        lock: Option<File>,
    ) -> Result<(Store, Arc<Pool<M>>), Error> {
        if !self.restoring && !planted(344) && Pool::has_mark_on(&media, BEING_RESTORED) {
            return Err(Error::BeingRestored);
        }
        let (pool, opened, (code, terms)) = Pool::open_if(media, accept)?;
        let backend = match pool.format().key_type {
            KeyType::U64 => attach::<M, U64Keys>(code, &pool, &opened, terms, start, lock)?,
            KeyType::Bytes => attach::<M, BytesKeys>(code, &pool, &opened, terms, start, lock)?,
        };
        let store = Store::over(backend);
        if !self.read_only {
            store.finish_drops()?;
        }
        Ok((store, pool))
    }
}

fn attach<M: Media, K: StoreKey>(
    code: &EngineCode<M>,
    pool: &Arc<Pool<M>>,
    opened: &Opened,
    terms: Terms,
    start: Instant,
    lock: Option<File>,
) -> Result<Arc<dyn Backend>, Error> {
    let attached = Attached::<M, K>::open(code, pool, opened, terms, start, lock)?;
    let attached: Arc<dyn Backend> = Arc::new(attached);
    Arc::clone(&attached).walk_in_background();
    Ok(attached)
}

fn hardware(region: Region, flush: FlushChoice) -> Result<Mapped, Error> {
    let cpu = Cpu::detect();
    let media = match flush {
        FlushChoice::Auto => Mapped::new(region, &cpu),
        FlushChoice::Force(instruction) => Mapped::forced(region, &cpu, instruction),
    };
    media.map_err(|error| Error::Pool(PoolError::Map(error)))
}
