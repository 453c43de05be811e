//! What Windows is asked: DXGI for adapters, PDH for the counters of all processes. Calls only; what the answers mean is
//! in `facts`. Not run on a real Windows yet: under Wine the adapters are pretended and the counters do not exist.
#![allow(unsafe_code, reason = "Windows' own interfaces have no safe form")]

use std::collections::BTreeMap;

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};
use windows::Win32::Graphics::Dxgi::{
    CreateDXGIFactory1, DXGI_ADAPTER_FLAG_SOFTWARE, IDXGIAdapter1, IDXGIFactory1,
};
use windows::Win32::System::Performance::{
    PDH_FMT_COUNTERVALUE_ITEM_W, PDH_FMT_LARGE, PDH_HCOUNTER, PDH_HQUERY, PDH_MORE_DATA,
    PdhAddEnglishCounterW, PdhCloseQuery, PdhCollectQueryData, PdhGetFormattedCounterArrayW,
    PdhOpenQueryW,
};
use windows::core::{HSTRING, PCWSTR};

use super::counters::{Instance, Luid};
use super::facts::{Adapter, Raw};

pub fn read() -> Raw {
    let process_dedicated = counter(r"\GPU Process Memory(*)\Dedicated Usage");
    Raw {
        adapters: adapters(),
        adapter_dedicated: counter(r"\GPU Adapter Memory(*)\Dedicated Usage"),
        adapter_shared: counter(r"\GPU Adapter Memory(*)\Shared Usage"),
        programs: programs(process_dedicated.as_deref().unwrap_or_default()),
        process_dedicated,
    }
}

pub fn adapters() -> Vec<Adapter> {
    // SAFETY: no arguments but the interface that is asked for.
    let Ok(factory) = (unsafe { CreateDXGIFactory1::<IDXGIFactory1>() }) else {
        return Vec::new();
    };
    // SAFETY: the factory is alive; an index beyond the last one is an error, which ends the list.
    let all = (0..).map_while(|at| unsafe { factory.EnumAdapters1(at) }.ok());
    all.filter_map(|one| adapter(&one)).collect()
}

fn adapter(adapter: &IDXGIAdapter1) -> Option<Adapter> {
    // SAFETY: the adapter is alive.
    let about = unsafe { adapter.GetDesc1() }.ok()?;
    Some(Adapter {
        luid: Luid {
            high: about.AdapterLuid.HighPart.cast_unsigned(),
            low: about.AdapterLuid.LowPart,
        },
        description: String::from_utf16_lossy(&about.Description),
        vendor: about.VendorId,
        device: about.DeviceId,
        dedicated: about.DedicatedVideoMemory as u64,
        software: about.Flags & DXGI_ADAPTER_FLAG_SOFTWARE.0.cast_unsigned() != 0,
        pci: None,
    })
}

/// Absent where the counter does not exist.
fn counter(path: &str) -> Option<Vec<(String, u64)>> {
    let mut query = PDH_HQUERY::default();
    // SAFETY: `query` outlives the call, and is closed below whatever happens between.
    if unsafe { PdhOpenQueryW(PCWSTR::null(), 0, &mut query) } != 0 {
        return None;
    }
    let values = collect(query, path);
    // SAFETY: it was opened above and is used no more.
    unsafe { PdhCloseQuery(query) };
    values
}

fn collect(query: PDH_HQUERY, path: &str) -> Option<Vec<(String, u64)>> {
    let mut counter = PDH_HCOUNTER::default();
    // SAFETY: the query is open and the path lives until the call has returned.
    unsafe {
        if PdhAddEnglishCounterW(query, &HSTRING::from(path), 0, &mut counter) != 0
            || PdhCollectQueryData(query) != 0
        {
            return None;
        }
    }
    let (mut bytes, mut count) = (0u32, 0u32);
    // SAFETY: without a buffer it only says how large one must be.
    let size = unsafe {
        PdhGetFormattedCounterArrayW(counter, PDH_FMT_LARGE, &mut bytes, &mut count, None)
    };
    if size != PDH_MORE_DATA {
        return (size == 0).then(Vec::new);
    }
    // The names lie behind the items, in the same buffer.
    let item = size_of::<PDH_FMT_COUNTERVALUE_ITEM_W>();
    let mut items = vec![PDH_FMT_COUNTERVALUE_ITEM_W::default(); (bytes as usize).div_ceil(item)];
    // SAFETY: the buffer has at least the size that was asked for.
    let got = unsafe {
        PdhGetFormattedCounterArrayW(
            counter,
            PDH_FMT_LARGE,
            &mut bytes,
            &mut count,
            Some(items.as_mut_ptr()),
        )
    };
    if got != 0 {
        return None;
    }
    let values = items.iter().take(count as usize).filter_map(|one| {
        // SAFETY: PDH filled `count` items, whose names are in the buffer and end with a zero.
        let (name, value) = unsafe {
            (
                one.szName.to_string().ok()?,
                one.FmtValue.Anonymous.largeValue,
            )
        };
        Some((name, u64::try_from(value).ok()?))
    });
    Some(values.collect())
}

fn programs(processes: &[(String, u64)]) -> BTreeMap<u32, String> {
    let pids = processes
        .iter()
        .filter_map(|(name, _)| Instance::parse(name)?.pid);
    let pids: Vec<Pid> = pids.map(Pid::from_u32).collect();
    let Ok(mut system) = System::new() else {
        return BTreeMap::new();
    };
    system.refresh_processes_specifics(
        ProcessesToUpdate::Some(&pids),
        false,
        ProcessRefreshKind::nothing(),
    );
    let named = system.processes().iter();
    named
        .map(|(pid, process)| (pid.as_u32(), process.name().to_string_lossy().into_owned()))
        .collect()
}
