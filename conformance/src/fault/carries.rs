//! A macro for wrappers that treat all methods alike.

/// Implements the methods of such a wrapper: each calls its `carry`.
macro_rules! carries_every_verb {
    ($wrapper:ident) => {
        impl<E: Engine> Engine for $wrapper<E> {
            fn guarantees(&self) -> Guarantees {
                self.promises()
            }

            async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
                let own = ticket.clone();
                let verb = move |engine: Arc<E>| {
                    let ticket = own.clone();
                    async move { engine.join(&ticket, patience).await }
                };
                self.carry(Verb::Join.of(ticket), verb).await
            }

            async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
                let own = ticket.clone();
                let verb = move |engine: Arc<E>| {
                    let ticket = own.clone();
                    async move { engine.renew(&ticket).await }
                };
                self.carry(Verb::Renew.of(ticket), verb).await
            }

            async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
                let own = ticket.clone();
                let verb = move |engine: Arc<E>| {
                    let ticket = own.clone();
                    async move { engine.leave(&ticket, how).await }
                };
                self.carry(Verb::Leave.of(ticket), verb).await
            }

            async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
                let own = ticket.clone();
                let verb = move |engine: Arc<E>| {
                    let ticket = own.clone();
                    async move { engine.watch(&ticket, seen).await }
                };
                self.carry(Verb::Watch.of(ticket), verb).await
            }

            async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
                let own = scope.clone();
                let verb = move |engine: Arc<E>| {
                    let scope = own.clone();
                    async move { engine.events(&scope, after).await }
                };
                self.carry(Verb::Events.alone(), verb).await
            }

            async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
                let own = key.clone();
                let verb = move |engine: Arc<E>| {
                    let key = own.clone();
                    async move { engine.line(&key).await }
                };
                self.carry(Verb::Line.alone(), verb).await
            }

            async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
                let own = prefix.to_owned();
                let verb = move |engine: Arc<E>| {
                    let prefix = own.clone();
                    async move { engine.keys(&prefix).await }
                };
                self.carry(Verb::Keys.alone(), verb).await
            }

            async fn add(
                &self,
                key: &Key,
                by: u64,
                window: Option<Window>,
            ) -> Result<CounterValue> {
                let own = key.clone();
                let verb = move |engine: Arc<E>| {
                    let key = own.clone();
                    async move { engine.add(&key, by, window).await }
                };
                self.carry(Verb::Add.alone(), verb).await
            }

            async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
                let own = (key.clone(), seen.to_owned(), value.to_owned());
                let verb = move |engine: Arc<E>| {
                    let (key, seen, value) = own.clone();
                    async move { engine.swap(&key, &seen, &value).await }
                };
                self.carry(Verb::Swap.alone(), verb).await
            }

            async fn close(&self) {
                self.engine.close().await;
            }
        }
    };
}
pub(super) use carries_every_verb;
