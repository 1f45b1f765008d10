//! Network file systems are unreliable for locks, and are refused unless allowed.

use std::path::Path;

/// Returns the name of the network file system of a directory, if it is on a known one.
pub(crate) fn file_system(dir: &Path) -> Option<&'static str> {
    let kind = rustix::fs::statfs(dir).ok()?.f_type;
    // The type of this field differs from machine to machine, and its upper half means nothing.
    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)]
    let kind = kind as u32;
    NETWORK.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name)
}

const NETWORK: [(u32, &str); 23] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0xaad7_aaea, "PanFS"),
    (0x2003_0528, "OrangeFS"),
    (0x7c7c_6673, "a shared folder of Parallels"),
    (0x786f_4256, "a shared folder of VirtualBox"),
    (0x6163_6673, "ACFS"),
    (0x0131_11a8, "IBRIX"),
    (0x5346_4846, "a shared folder of Hyper-V"),
];
