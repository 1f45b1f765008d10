//! What the engine for ZooKeeper says of itself.

use tenure_kit::options::Known;
use tenure_kit::register::{Description, Opened, Reach, Scheme};

const SCHEMES: &[Scheme] = &[Scheme {
    name: "zookeeper",
    form: "zookeeper://S1,S2,S3/CHROOT",
    example: "zookeeper://localhost",
    about: "an ensemble of ZooKeeper, by any of its servers",
    is_path: false,
}];

pub(crate) const OPTIONS: &[Known] = &[
    Known::new("prefix", "TEXT", "The node below which all locks are kept"),
    Known::new("timeout", "TIME", "How long one answer is waited for"),
    Known::new("connect_timeout", "TIME", "How long a connection may take to come about"),
    Known::new(
        "acl",
        "WHO",
        "Who may see and change what is kept: open, creator, or digest:USER:HASH",
    ),
];

/// What the engine for ZooKeeper is.
pub const DESCRIPTION: Description = Description {
    name: "zookeeper",
    schemes: SCHEMES,
    options: OPTIONS,
    reach: Reach::Network,
    open: |url| Box::pin(async move { crate::connect(url).await.map(Opened::from) }),
    look: |url| Box::pin(async move { crate::connect(url).await.map(Some) }),
};
