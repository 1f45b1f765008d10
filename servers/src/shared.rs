//! Deployments that the tests of one process share if `cargo xtask test` has not started them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::deployment::{Found, Store, deployments};
use crate::{Deployment, Result};

/// A store that is started once, or the error of its start.
type Once = Arc<OnceLock<Result<Box<dyn Store>>>>;

/// Returns the URL of the [`Deployment`] with this variable.
///
/// Reads the variable. Without it, the first call starts the deployment, which then runs until the
/// process ends.
///
/// ```no_run
/// # fn main() -> tenure_servers::Result<()> {
/// let url = tenure_servers::url_of("TENURE_TEST_REDIS_URL")?;
/// # Ok(())
/// # }
/// ```
pub fn url_of(variable: &str) -> Result<String> {
    let known = deployments().into_iter().find(|it| it.variable == variable);
    let deployment = known.ok_or_else(|| format!("No deployment has the variable {variable}."))?;
    match deployment.found() {
        Found::Stands(url) => Ok(url),
        Found::Absent(sentence) => Err(sentence),
        Found::Startable(_) => started(&deployment),
    }
}

fn started(deployment: &Deployment) -> Result<String> {
    static STARTED: Mutex<BTreeMap<&str, Once>> = Mutex::new(BTreeMap::new());
    let once = {
        let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(started.entry(deployment.variable).or_default())
    };
    // A caller waits only for its own deployment.
    let store = once.get_or_init(deployment.start).as_ref();
    store.map(|store| store.url()).map_err(Clone::clone)
}

#[cfg(all(test, unix))]
mod tests {
    use super::{Deployment, Store, started, url_of};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    static STARTS: AtomicUsize = AtomicUsize::new(0);

    struct Fake(usize);

    impl Store for Fake {
        fn url(&self) -> String {
            format!("fake://{}", self.0)
        }
    }

    #[test]
    fn all_tests_of_a_process_share_one() {
        let fake = Deployment {
            name: "fake",
            variable: "TENURE_TEST_FAKE_URL",
            needs: &[],
            start: || Ok(Box::new(Fake(STARTS.fetch_add(1, Ordering::SeqCst)))),
        };
        thread::scope(|scope| {
            let asked: Vec<_> = (0..4).map(|_| scope.spawn(|| started(&fake))).collect();
            for one in asked {
                assert_eq!(one.join().expect("it does not panic"), Ok("fake://0".into()));
            }
        });
        assert!(url_of("TENURE_TEST_NO_SUCH_URL").is_err());
    }
}
