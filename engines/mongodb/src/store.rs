//! A store: the lines of a collection, and its opening.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mongodb::Client;
use mongodb::bson::Bson;
use mongodb::options::ClientOptions;
use tenure_core::{Error, Guarantees, Result, Sampler, ThisRuntime};
use tenure_kit::subscriptions::Subscriptions;
use tokio::runtime::Handle;

use crate::batcher::{ClientState, KeyedBatcher};
use crate::command::CommandSender;
use crate::connect;
use crate::counter::CounterStages;
use crate::extension::Extension;
use crate::facts::DeploymentFacts;
use crate::feed::Feed;
use crate::field_prefix::FieldPrefix;
use crate::glances::Glances;
use crate::letter::INBOX_LETTERS;
use crate::local_tickets::LocalTickets;
use crate::location::CompiledPipelines;
use crate::onlooker::FollowedLines;
use crate::server_label::ServerLabel;
use crate::settings::Settings;
use crate::stream::{NoticeStream, letters_in_records};
use crate::url;

/// Poll interval of onlookers without a change stream.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// Databases that no lock may be in.
const PRIVATE: [&str; 3] = ["admin", "config", "local"];
/// The warning for a store over the program's own client.
const BORROWED: &str = "the client belongs to the program's own runtime: while that is blocked, or all connections of the client are in use, no lock is renewed; while a ticket or a queue waits, a change stream for each collection uses one of them, so set maxPoolSize if there are many; connect by a URL or by options instead";

/// The lines of a collection. The runtime that it was opened in drives it.
pub struct MongoStore {
    pub(crate) commands: Arc<CommandSender>,
    pub(crate) batcher: KeyedBatcher,
    pub(crate) sequence: CounterStages,
    pub(crate) windowed: CounterStages,
    pub(crate) mail: Arc<Subscriptions>,
    pub(crate) tickets: Arc<LocalTickets>,
    pub(crate) feed: Feed,
    pub(crate) stream: NoticeStream,
    pub(crate) glances: Glances,
    pub(crate) profile: Guarantees,
    pub(crate) facts: DeploymentFacts,
    pub(crate) followed: FollowedLines,
    pub(crate) sampler: Sampler,
    pub(crate) host: ThisRuntime,
    /// The stages for lines in records.
    pub(crate) records: Arc<CompiledPipelines>,
    /// Whether the client is this store's own, and ends with it.
    pub(crate) is_own: bool,
}

impl MongoStore {
    /// Connects to the servers that the URL names.
    ///
    /// # Errors
    ///
    /// As [`connect`](fn@crate::connect).
    pub async fn open(url: &str) -> Result<Self> {
        let (options, settings) = url::read(url).await?;
        Self::with_options(options, &settings).await
    }

    /// Connects with these options of the driver.
    ///
    /// # Errors
    ///
    /// As [`connect`](fn@crate::connect).
    pub async fn with_options(options: ClientOptions, settings: &Settings) -> Result<Self> {
        let (client, servers) = connect::client(options, settings.timeout)?;
        Self::of(client, servers, Handle::current(), settings, true, None).await
    }

    /// Opens the store over a client of the program's own, which `runtime` drives.
    ///
    /// # Errors
    ///
    /// As [`connect`](fn@crate::connect).
    pub async fn over(client: Client, runtime: Handle, settings: &Settings) -> Result<Self> {
        Self::of(client, ServerLabel::unknown(), runtime, settings, false, None).await
    }

    pub(crate) async fn of(
        client: Client,
        servers: ServerLabel,
        runtime: Handle,
        settings: &Settings,
        is_own: bool,
        extension: Option<Extension>,
    ) -> Result<Self> {
        let commands = Arc::new(CommandSender::new(client, servers, runtime, settings));
        refuse_private(commands.database.name())?;
        let facts =
            commands.repeated(|| DeploymentFacts::ask(&commands, extension.is_none())).await?;
        let mut profile = facts.profile(settings);
        profile.store.clone_from(&commands.servers.label);
        if !is_own {
            profile.warnings.push(BORROWED.to_owned());
        }
        for warning in &profile.warnings {
            tracing::warn!("{warning}");
        }
        let (mail, tickets, inbox) =
            (Arc::<Subscriptions>::default(), Arc::<LocalTickets>::default(), inbox()?);
        let client =
            ClientState { mail: mail.clone(), tickets: tickets.clone(), inbox: inbox.clone() };
        let batcher = KeyedBatcher::new(commands.clone(), client, facts.topology);
        let feed = Feed::new(commands.clone(), is_own);
        let (wants, name): (_, fn(&Bson) -> String) = match extension {
            None => (letters_in_records(&inbox), record_of),
            Some(extension) => ((extension.letters)(&inbox), extension.name),
        };
        let stream = NoticeStream::new(feed.clone(), wants, mail.clone(), inbox);
        Ok(Self {
            followed: FollowedLines::new(commands.clone(), feed.clone()),
            glances: Glances::new(commands.clone(), mail.clone(), name),
            feed,
            commands,
            batcher,
            sequence: CounterStages::sequence(),
            windowed: CounterStages::windowed(),
            mail,
            tickets,
            stream,
            profile,
            facts,
            sampler: Sampler::new(LOOK_PAUSE),
            host: ThisRuntime::new(),
            records: Arc::new(CompiledPipelines::new(&FieldPrefix::root())),
            is_own,
        })
    }
}

/// Returns the name of a record from its `_id`.
fn record_of(id: &Bson) -> String {
    id.as_str().unwrap_or_default().to_owned()
}

/// Returns an error for MongoDB's own databases. `local` is on one member only, so a fail-over
/// loses it.
fn refuse_private(database: &str) -> Result<()> {
    if !PRIVATE.contains(&database) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the database `{database}` is MongoDB's own{}: name another one, as in mongodb://SERVER/tenure",
        if database == "local" { ", and no other member has what stands in it" } else { "" }
    )))
}

/// Returns a random name for the inbox of a client.
fn inbox() -> Result<String> {
    let random = getrandom::u64().map_err(|error| {
        Error::rejected(format!("the operating system has no random numbers to give: {error}"))
    })?;
    Ok(format!("{random:0INBOX_LETTERS$x}"))
}

impl fmt::Debug for MongoStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MongoStore").finish_non_exhaustive()
    }
}
