//! Logs and reports of attempts: no gap, nothing twice, few open files, and a full disk said as such.

mod store_common;

use coordinator::store::{AttemptFiles, Channel, StoreError, log_size, read_log};
use jobs::AttemptId;

fn id(number: u32) -> AttemptId {
    format!("logs-a/{number}/train/1").parse().unwrap()
}

#[test]
fn bytes_arrive_once_and_in_order() {
    let data = tempfile::tempdir().unwrap();
    let mut files = AttemptFiles::new(data.path());
    assert_eq!(files.size(&id(1), Channel::Log).unwrap(), 0);
    assert_eq!(files.append(&id(1), Channel::Log, 0, b"hello ").unwrap(), 6);
    // Again, overlapping, wholly known, and empty.
    assert_eq!(
        files.append(&id(1), Channel::Log, 3, b"lo world").unwrap(),
        11
    );
    assert_eq!(files.append(&id(1), Channel::Log, 0, b"hello").unwrap(), 11);
    assert_eq!(files.append(&id(1), Channel::Log, 11, b"").unwrap(), 11);
    let gap = files.append(&id(1), Channel::Log, 12, b"!").unwrap_err();
    assert!(
        matches!(
            gap,
            StoreError::Gap {
                offset: 12,
                have: 11,
                ..
            }
        ),
        "{gap}"
    );
    files.append(&id(1), Channel::Report, 0, b"{}\n").unwrap();
    files.sync(&id(1)).unwrap();
    files.close(&id(1)).unwrap();

    // Another process goes on where this one was.
    let mut files = AttemptFiles::new(data.path());
    assert_eq!(files.append(&id(1), Channel::Log, 11, b"!").unwrap(), 12);
    let read = |offset, limit| read_log(data.path(), &id(1), Channel::Log, offset, limit).unwrap();
    assert_eq!(read(0, 100), b"hello world!");
    assert_eq!(read(6, 5), b"world");
    assert_eq!(read(12, 5), b"");
    assert_eq!(
        read_log(data.path(), &id(2), Channel::Log, 0, 5).unwrap(),
        b""
    );
    assert_eq!(log_size(data.path(), &id(1), Channel::Report).unwrap(), 3);
}

#[test]
fn many_attempts_need_few_open_files() {
    let data = tempfile::tempdir().unwrap();
    let mut files = AttemptFiles::new(data.path());
    for round in 0..3_u64 {
        for number in 1..=300 {
            files
                .append(
                    &id(number),
                    Channel::Log,
                    round * 2,
                    format!("{round}\n").as_bytes(),
                )
                .unwrap();
        }
    }
    #[cfg(target_os = "linux")]
    {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let ours = open.filter_map(|it| std::fs::read_link(it.ok()?.path()).ok());
        assert!(ours.filter(|path| path.starts_with(data.path())).count() <= 64);
    }
    for number in 1..=300 {
        files.close(&id(number)).unwrap();
        assert_eq!(
            read_log(data.path(), &id(number), Channel::Log, 0, 99).unwrap(),
            b"0\n1\n2\n"
        );
    }
}

#[test]
fn a_log_lies_below_the_data_folder() {
    let data = tempfile::tempdir().unwrap();
    let mut files = AttemptFiles::new(data.path());
    let outside: AttemptId = "../1/train/1".parse().unwrap();
    let error = files.append(&outside, Channel::Log, 0, b"x").unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
}

/// `/dev/full` takes no byte, as a full disk.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said_to_be_full_and_names_the_file() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("attempts/logs-a/1/train/1");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.join("log")).unwrap();
    let mut files = AttemptFiles::new(data.path());
    let error = files.append(&id(1), Channel::Log, 0, b"x").unwrap_err();
    assert!(error.is_disk_full(), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("attempts/logs-a/1/train/1/log: the disk is full"),
        "{error}"
    );
    // Other attempts go on.
    files.append(&id(2), Channel::Log, 0, b"x").unwrap();
}
