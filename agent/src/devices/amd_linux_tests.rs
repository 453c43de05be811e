//! A tree of /sys and /proc as an RX 7800 XT beside a processor's own graphics shows it.

use super::*;

const FDINFO: &str = "pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-client-id:\t41\ndrm-pdev:\t0000:03:00.0\n\
                      drm-memory-vram:\t262144 KiB\ndrm-memory-gtt: \t4096 KiB\n";

fn tree() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let card = "sys/class/drm/card1/device";
    let files = [
        (card, "vendor", "0x1002\n"),
        (card, "device", "0x747e\n"),
        (
            card,
            "uevent",
            "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_SLOT_NAME=0000:03:00.0\n",
        ),
        (card, "unique_id", "9f3b2c1d00aa55ee\n"),
        (card, "mem_info_vram_total", "17163091968\n"),
        (card, "mem_info_vram_used", "2147483648\n"),
        (card, "mem_info_gtt_used", "33554432\n"),
        (card, "current_link_speed", "16.0 GT/s PCIe\n"),
        (card, "current_link_width", "16\n"),
        (card, "max_link_speed", "16.0 GT/s PCIe\n"),
        (card, "max_link_width", "16\n"),
        (
            "sys/class/drm/card1/device/hwmon/hwmon3",
            "temp1_input",
            "51000\n",
        ),
        ("sys/class/drm/card1-DP-1", "status", "connected\n"),
        ("sys/class/drm/card1-DP-2", "status", "disconnected\n"),
        ("sys/class/drm/card0/device", "vendor", "0x1002\n"),
        (
            "sys/class/drm/card0/device",
            "uevent",
            "PCI_SLOT_NAME=0000:0f:00.0\n",
        ),
        (
            "sys/class/drm/card0/device",
            "mem_info_vram_total",
            "536870912\n",
        ),
        ("sys/class/drm/card2/device", "vendor", "0x10de\n"),
        ("sys/module/amdgpu", "version", "6.10.5\n"),
        (
            "sys/class/kfd/kfd/topology/nodes/0",
            "properties",
            "cpu_cores_count 16\nlocation_id 0\ngfx_target_version 0\n",
        ),
        (
            "sys/class/kfd/kfd/topology/nodes/1",
            "properties",
            "cpu_cores_count 0\nsimd_count 120\nlocation_id 768\ndomain 0\ngfx_target_version 110001\n",
        ),
        ("sys/class/kfd/kfd/topology/nodes/1", "gpu_id", "28351\n"),
        ("sys/class/kfd/kfd/proc/777", "vram_28351", "1610612736\n"),
        ("sys/class/kfd/kfd/proc/778", "vram_28351", "0\n"),
        ("proc/777", "comm", "python3\n"),
        ("proc/1300", "comm", "plasmashell\n"),
        ("proc/1300/fdinfo", "9", FDINFO),
        ("proc/1300/fdinfo", "10", FDINFO),
        ("proc/1300/fdinfo", "11", FDINFO),
    ];
    for (folder, name, text) in files {
        let folder = root.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), text).unwrap();
    }
    let open = root.path().join("proc/1300/fd");
    fs::create_dir_all(&open).unwrap();
    for (name, target) in [
        ("9", "/dev/dri/renderD128"),
        ("10", "/dev/dri/card1"),
        ("11", "/etc/passwd"),
    ] {
        std::os::unix::fs::symlink(target, open.join(name)).unwrap();
    }
    root
}

#[test]
fn a_card_is_read_and_others_are_left_out() {
    let root = tree();
    let look = look(root.path());
    assert!(look.answered.contains(&Backend::Rocm));
    let [card] = look.found.as_slice() else {
        panic!("{look:#?}");
    };
    assert_eq!(card.id, "GPU-9f3b2c1d00aa55ee");
    assert_eq!(card.pci.as_deref(), Some("0000:03:00.0"));
    assert_eq!(card.architecture.as_deref(), Some("gfx1101"));
    assert_eq!(card.name, "AMD gfx1101 0x747e");
    assert_eq!(card.driver.as_deref(), Some("6.10.5"));
    assert_eq!((card.display, card.now.temperature), (Some(true), Some(51)));
    assert_eq!(card.pcie.unwrap().generation, Some(4));
    let memory = card.now.memory.unwrap();
    assert_eq!((memory.total, memory.used), (17_163_091_968, 2_147_483_648));
    assert_eq!(card.now.shared, Some(33_554_432));
}

#[test]
fn processes_compute_or_draw_and_a_client_counts_once() {
    let root = tree();
    let look = look(root.path());
    let processes = look.found[0].now.processes.as_ref().unwrap();
    let said: Vec<_> = processes
        .iter()
        .map(|one| (one.pid, one.name.as_deref().unwrap(), one.bytes.unwrap()))
        .collect();
    assert_eq!(
        said,
        [
            (777, "python3", 1_610_612_736),
            (1300, "plasmashell", 268_435_456)
        ]
    );
}

#[test]
fn a_card_without_a_number_goes_by_its_place() {
    let root = tree();
    let device = root.path().join("sys/class/drm/card1/device");
    fs::write(device.join("unique_id"), "0\n").unwrap();
    fs::write(device.join("product_name"), "AMD Radeon RX 7800 XT\n").unwrap();
    let look = look(root.path());
    assert_eq!(look.found[0].id, "0000:03:00.0");
    assert_eq!(look.found[0].name, "AMD Radeon RX 7800 XT");
}

#[test]
fn target_versions_are_written_as_compilers_write_them() {
    for (version, name) in [
        (110_001, "gfx1101"),
        (90_010, "gfx90a"),
        (100_300, "gfx1030"),
        (90_402, "gfx942"),
    ] {
        assert_eq!(gfx(version), name);
    }
}

#[test]
fn another_cards_client_is_not_this_ones() {
    assert_eq!(
        client(FDINFO, "0000:03:00.0"),
        Some(("41".into(), 268_435_456))
    );
    assert_eq!(client(FDINFO, "0000:04:00.0"), None);
    assert_eq!(client("drm-driver:\tamdgpu\n", "0000:03:00.0"), None);
}
