//! `cache/` of an agent: contents by their SHA-256 (`files/ab/SHA256`), and bundles laid out from them, each a folder
//! named by its digest (`bundles/DIGEST`), read-only. Both are checked before each use, by all their bytes: a file that
//! travels is small enough for that.
//!
//! Refuses what was changed, whoever changed it: it is put aside, and made anew. Removes nothing that is sound.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jobs::staged::StagedFile;
use sha2::{Digest, Sha256};

use super::arriving::{Arriving, hex};
use crate::durable::DiskError;

/// What begins with this means nothing to the next agent.
const UNFINISHED: &str = ".part-";
const PIECE: usize = 1 << 16;

#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    next: Arc<AtomicU64>,
}

impl Cache {
    /// Of one agent, whose folder nobody else works on; what an earlier one left unfinished is removed.
    pub fn open(folder: PathBuf) -> Result<Self, DiskError> {
        let cache = Self {
            folder,
            next: Arc::default(),
        };
        for within in [cache.files(), cache.bundles()] {
            fs::create_dir_all(&within).map_err(DiskError::of("make the folder", &within))?;
            let entries = fs::read_dir(&within).map_err(DiskError::of("read", &within))?;
            for entry in entries.flatten() {
                if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                    remove(&entry.path());
                }
            }
        }
        Ok(cache)
    }

    fn files(&self) -> PathBuf {
        self.folder.join("files")
    }

    fn bundles(&self) -> PathBuf {
        self.folder.join("bundles")
    }

    /// Where the bundle of this digest lies.
    #[must_use]
    pub fn bundle(&self, digest: &str) -> PathBuf {
        self.bundles().join(digest)
    }

    fn content(&self, digest: &str) -> PathBuf {
        let first = digest.get(..2).unwrap_or_default();
        self.files().join(first).join(digest)
    }

    fn unfinished(&self, within: &Path) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        within.join(format!("{UNFINISHED}{number}"))
    }

    /// Whether the bundle is there with exactly these files, each as it was submitted.
    pub fn holds<'a>(
        &self,
        digest: &str,
        files: impl Iterator<Item = &'a StagedFile>,
    ) -> Result<bool, DiskError> {
        let folder = self.bundle(digest);
        if !folder.is_dir() {
            return Ok(false);
        }
        let mut found = BTreeMap::new();
        walk(&folder, "", &mut found).map_err(DiskError::of("read", &folder))?;
        for file in files {
            let path = found.remove(&file.name);
            let same = path.is_some_and(|path| is_same(&path, file).unwrap_or(false));
            if !same {
                tracing::warn!(
                    digest,
                    name = file.name,
                    "a laid out file is not what it was"
                );
                return Ok(false);
            }
        }
        if let Some(more) = found.keys().next() {
            tracing::warn!(digest, name = more, "a file came into a laid out bundle");
        }
        Ok(found.is_empty())
    }

    /// Those whose content is not here. One that was changed is removed.
    pub fn lacking<'a>(
        &self,
        files: impl Iterator<Item = &'a StagedFile>,
    ) -> Result<Vec<StagedFile>, DiskError> {
        let mut lacking: BTreeMap<&str, &StagedFile> = BTreeMap::new();
        for file in files {
            let path = self.content(&file.sha256);
            if is_content(&path, file).unwrap_or(false) {
                continue;
            }
            if fs::symlink_metadata(&path).is_ok() {
                tracing::warn!(path = %path.display(), "a cached file is not what it was; fetched anew");
                remove(&path);
            }
            lacking.insert(&file.sha256, file);
        }
        Ok(lacking.into_values().cloned().collect())
    }

    /// Begins to take a content in.
    pub fn arriving(&self, file: &StagedFile) -> Result<Arriving, DiskError> {
        let path = self.content(&file.sha256);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(DiskError::of("make the folder", folder))?;
        }
        let part = self.unfinished(&self.files());
        Arriving::new(path, part, &file.sha256, file.size)
    }

    /// Lays the bundle out under another name, then puts it in its place whole. All contents are here.
    pub fn lay_out<'a>(
        &self,
        digest: &str,
        files: impl Iterator<Item = &'a StagedFile>,
    ) -> Result<(), DiskError> {
        let part = self.unfinished(&self.bundles());
        let laid = self.lay_out_in(&part, files);
        if let Err(error) = laid {
            remove(&part);
            return Err(error);
        }
        let place = self.bundle(digest);
        let mut aside = None;
        if fs::symlink_metadata(&place).is_ok() {
            // Programs that run may still read it: it goes aside, and is removed when this agent ends its work.
            let old = self.unfinished(&self.bundles());
            fs::rename(&place, &old).map_err(DiskError::of("put aside", &place))?;
            aside = Some(old);
        }
        fs::rename(&part, &place).map_err(DiskError::of("put in place", &place))?;
        if let Some(old) = aside {
            tracing::info!(old = %old.display(), "the changed bundle lies there until the agent starts again");
        }
        Ok(())
    }

    fn lay_out_in<'a>(
        &self,
        part: &Path,
        files: impl Iterator<Item = &'a StagedFile>,
    ) -> Result<(), DiskError> {
        fs::create_dir_all(part).map_err(DiskError::of("make the folder", part))?;
        for file in files {
            let path = part.join(&file.name);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(DiskError::of("make the folder", folder))?;
            }
            let content = self.content(&file.sha256);
            // A link shares its mode with all others, so what is to be executed is a copy.
            let linked = !file.executable && fs::hard_link(&content, &path).is_ok();
            if !linked {
                fs::copy(&content, &path).map_err(DiskError::of("write", &path))?;
            }
            read_only(&path, file.executable)?;
        }
        read_only_folders(part)
    }
}

/// By all its bytes, and whether it may be executed.
fn is_same(path: &Path, file: &StagedFile) -> io::Result<bool> {
    let facts = fs::symlink_metadata(path)?;
    Ok(is_executable(&facts).is_none_or(|can| can == file.executable) && is_content(path, file)?)
}

fn is_content(path: &Path, file: &StagedFile) -> io::Result<bool> {
    let facts = fs::symlink_metadata(path)?;
    if !facts.is_file() || facts.len() != file.size {
        return Ok(false);
    }
    let mut content = File::open(path)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE];
    loop {
        match content.read(&mut piece)? {
            0 => return Ok(hex(&hash.finalize()) == file.sha256),
            many => hash.update(&piece[..many]),
        }
    }
}

/// Every entry below a folder that is not a folder, by its name with forward slashes.
fn walk(folder: &Path, before: &str, found: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{before}{}", entry.file_name().to_string_lossy());
        // Of the entry itself: a link to a folder is no folder.
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &format!("{name}/"), found)?;
        } else {
            found.insert(name, entry.path());
        }
    }
    Ok(())
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(unix)]
fn is_executable(facts: &fs::Metadata) -> Option<bool> {
    use std::os::unix::fs::PermissionsExt;
    Some(facts.permissions().mode() & 0o100 != 0)
}

/// Windows has no such bit.
#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> Option<bool> {
    None
}

#[cfg(unix)]
pub(super) fn read_only(path: &Path, executable: bool) -> Result<(), DiskError> {
    let mode = if executable { 0o555 } else { 0o444 };
    set_mode(path, mode).map_err(DiskError::of("protect", path))
}

#[cfg(not(unix))]
pub(super) fn read_only(path: &Path, _: bool) -> Result<(), DiskError> {
    let protect = || {
        let mut permissions = fs::metadata(path)?.permissions();
        permissions.set_readonly(true);
        fs::set_permissions(path, permissions)
    };
    protect().map_err(DiskError::of("protect", path))
}

/// So that no program writes beside its files. The attribute means nothing for a folder on Windows.
fn read_only_folders(folder: &Path) -> Result<(), DiskError> {
    for entry in fs::read_dir(folder)
        .map_err(DiskError::of("read", folder))?
        .flatten()
    {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            read_only_folders(&entry.path())?;
        }
    }
    #[cfg(unix)]
    set_mode(folder, 0o555).map_err(DiskError::of("protect", folder))?;
    Ok(())
}

/// What is left of it, if anything, is only in the way of nobody.
fn remove(path: &Path) {
    let gone = match fs::symlink_metadata(path) {
        Ok(facts) if facts.is_dir() => {
            writable(path);
            fs::remove_dir_all(path)
        }
        Ok(_) => {
            writable_file(path);
            fs::remove_file(path)
        }
        Err(_) => Ok(()),
    };
    if let Err(error) = gone {
        tracing::warn!(%error, path = %path.display(), "could not be removed");
    }
}

fn writable(folder: &Path) {
    #[cfg(unix)]
    let _ = set_mode(folder, 0o755);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => writable(&entry.path()),
            _ => writable_file(&entry.path()),
        }
    }
}

/// Only Windows asks a file whether it may be removed.
#[cfg(unix)]
fn writable_file(_: &Path) {}

#[cfg(not(unix))]
fn writable_file(path: &Path) {
    if let Ok(facts) = fs::metadata(path) {
        let mut permissions = facts.permissions();
        #[allow(clippy::permissions_set_readonly_false)]
        permissions.set_readonly(false);
        let _ = fs::set_permissions(path, permissions);
    }
}

#[cfg(test)]
mod tests {
    use jobs::staged::{Bundle, Manifest};

    use super::*;

    fn file(name: &str, text: &str, executable: bool) -> (StagedFile, String) {
        let staged = StagedFile {
            bundle: Bundle::Files,
            name: name.into(),
            sha256: hex(&Sha256::digest(text)),
            size: text.len() as u64,
            executable,
        };
        (staged, text.to_owned())
    }

    fn put(cache: &Cache, file: &StagedFile, text: &str) -> Result<(), String> {
        let mut arriving = cache.arriving(file).unwrap();
        assert!(arriving.write(text.as_bytes()).unwrap());
        arriving.finish().unwrap()
    }

    fn laid(cache: &Cache) -> (Manifest, String) {
        let files = [
            file("run.sh", "echo", true),
            file("a/b.txt", "hello", false),
            file("c", "hello", false),
        ];
        for (file, text) in &files {
            put(cache, file, text).unwrap();
        }
        let manifest = Manifest::new(files.map(|(file, _)| file).into()).unwrap();
        let digest = manifest.digest(Bundle::Files).unwrap();
        assert!(!cache.holds(&digest, manifest.of(Bundle::Files)).unwrap());
        cache.lay_out(&digest, manifest.of(Bundle::Files)).unwrap();
        assert!(cache.holds(&digest, manifest.of(Bundle::Files)).unwrap());
        (manifest, digest)
    }

    struct Room(tempfile::TempDir);

    impl Drop for Room {
        fn drop(&mut self) {
            writable(self.0.path());
        }
    }

    fn room() -> (Room, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cache")).unwrap();
        (Room(folder), cache)
    }

    #[test]
    fn another_content_is_not_taken_and_leaves_nothing() {
        let (_room, cache) = room();
        let (wanted, _) = file("a", "hello", false);
        assert!(put(&cache, &wanted, "hallo").is_err());
        assert!(put(&cache, &wanted, "hell").is_err());
        assert!(!cache.arriving(&wanted).unwrap().write(b"hello!").unwrap());
        let left = fs::read_dir(cache.files()).unwrap().flatten();
        assert!(left.into_iter().all(|entry| entry.path().is_dir()));
        assert_eq!(cache.lacking([&wanted].into_iter()).unwrap(), [wanted]);
    }

    #[test]
    fn any_change_of_a_bundle_is_seen_and_mended() {
        let (_room, cache) = room();
        let (manifest, digest) = laid(&cache);
        let folder = cache.bundle(&digest);
        let files = || manifest.of(Bundle::Files);
        let changes: [&dyn Fn(); 4] = [
            &|| fs::write(folder.join("more.py"), "x").unwrap(),
            &|| fs::remove_file(folder.join("c")).unwrap(),
            &|| {
                fs::remove_file(folder.join("a/b.txt")).unwrap();
                fs::write(folder.join("a/b.txt"), "hallo").unwrap();
            },
            &|| {
                fs::remove_file(folder.join("run.sh")).unwrap();
                fs::write(folder.join("run.sh"), "echo").unwrap();
            },
        ];
        for change in changes {
            writable(&folder);
            change();
            assert!(!cache.holds(&digest, files()).unwrap());
            assert_eq!(cache.lacking(files()).unwrap(), []);
            cache.lay_out(&digest, files()).unwrap();
            assert!(cache.holds(&digest, files()).unwrap());
        }
    }

    #[test]
    fn a_changed_content_is_lacking_once_for_all_that_have_it() {
        let (_room, cache) = room();
        let (manifest, _) = laid(&cache);
        let hello = manifest
            .files()
            .iter()
            .find(|file| file.name == "c")
            .unwrap();
        let content = cache.content(&hello.sha256);
        fs::remove_file(&content).unwrap();
        fs::write(&content, "hallo").unwrap();
        let lacking = cache.lacking(manifest.of(Bundle::Files)).unwrap();
        assert_eq!(lacking.len(), 1);
        assert_eq!(lacking[0].sha256, hello.sha256);
        assert!(!content.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_the_place_of_a_file_is_no_file() {
        let (_room, cache) = room();
        let (manifest, digest) = laid(&cache);
        let folder = cache.bundle(&digest);
        writable(&folder);
        fs::remove_file(folder.join("c")).unwrap();
        std::os::unix::fs::symlink(folder.join("a/b.txt"), folder.join("c")).unwrap();
        assert!(!cache.holds(&digest, manifest.of(Bundle::Files)).unwrap());
    }

    #[test]
    fn what_was_left_unfinished_goes_with_the_next_agent() {
        let (_room, cache) = room();
        let (_, digest) = laid(&cache);
        let folder = cache.bundles().join(format!("{UNFINISHED}9"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("x"), "x").unwrap();
        Cache::open(cache.folder.clone()).unwrap();
        assert!(!folder.exists());
        assert!(cache.bundle(&digest).is_dir());
    }
}
