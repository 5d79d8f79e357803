//! The few things every file of a job needs: durable directories, atomic replacement.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::{Doing, StorageError};

/// Makes created, renamed and removed names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), StorageError> {
    File::open(dir).and_then(|dir| dir.sync_all()).doing("sync the directory", dir)
}

/// Makes a directory and the name it got in its parent durable; nothing happens where it stands.
pub(crate) fn create_dir(dir: &Path) -> Result<(), StorageError> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(dir).doing("create the directory", dir)?;
    dir.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), sync_dir)
}

/// Replaces a file as one step: whoever opens it finds the old bytes or the new ones, whenever the
/// power goes. `write` fills a neighbour named `<name>.tmp`, which is synced and renamed.
pub(crate) fn replace_file<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<T, StorageError>,
) -> Result<T, StorageError> {
    let temporary = beside(path, ".tmp");
    let file = File::create(&temporary).doing("create", &temporary)?;
    let mut out = BufWriter::new(file);
    let outcome = write(&mut out)?;
    out.flush().doing("write", &temporary)?;
    out.get_ref().sync_all().doing("sync", &temporary)?;
    fs::rename(&temporary, path).doing("replace", path)?;
    path.parent().map_or(Ok(()), sync_dir)?;
    Ok(outcome)
}

/// The path with something appended to its file name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
