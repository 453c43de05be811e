"""Compares what `sweep agent devices --json` says with `nvidia-smi -q -x`, field by field. Asks both; changes nothing."""
import json
import subprocess
import xml.etree.ElementTree as tree

MIB = 2**20
#: What moves between two looks, and by how much it may.
NEAR = {"memory.used": 64, "temperature": 10}


def number(text):
    return int(text.split()[0])


def of_smi():
    """uuid -> field -> value. MiB as nvidia-smi rounds them."""
    text = subprocess.run(["nvidia-smi", "-q", "-x"], check=True, capture_output=True, text=True).stdout
    root = tree.fromstring(text)
    cards = {}
    for gpu in root.findall("gpu"):
        def one(path):
            found = gpu.findtext(path)
            return None if found is None or found.strip() in ("N/A", "[N/A]") else found.strip()

        mode = one("display_attached") or one("display_mode")
        cards[one("uuid")] = {
            "name": one("product_name"),
            "architecture": one("product_architecture"),
            "pci": one("pci/pci_bus_id").lower().removeprefix("0000"),
            "driver": root.findtext("driver_version"),
            "cuda": root.findtext("cuda_version"),
            "memory.total": number(one("fb_memory_usage/total")),
            "memory.reserved": number(one("fb_memory_usage/reserved")),
            "memory.used": number(one("fb_memory_usage/used")),
            "pcie.generation": number(one("pci/pci_gpu_link_info/pcie_gen/current_link_gen")),
            "pcie.max_generation": number(one("pci/pci_gpu_link_info/pcie_gen/max_link_gen")),
            "pcie.width": number(one("pci/pci_gpu_link_info/link_widths/current_link_width").rstrip("x")),
            "pcie.max_width": number(one("pci/pci_gpu_link_info/link_widths/max_link_width").rstrip("x")),
            "temperature": number(one("temperature/gpu_temp")),
            "display": None if mode is None else mode in ("Yes", "Enabled"),
            "divided": one("mig_mode/current_mig") == "Enabled",
            "processes": len(gpu.findall("processes/process_info")),
        }
    return cards


def of_sweep(sweep):
    text = subprocess.run([sweep, "agent", "devices", "--json"], check=True, capture_output=True, text=True).stdout
    look = json.loads(text)
    assert not look["troubles"], look["troubles"]
    cards = {}
    for card in look["found"]:
        now, pcie = card["now"], card["pcie"]
        cards[card["id"]] = {
            **{key: card[key] for key in ("name", "architecture", "pci", "driver", "cuda", "display", "divided")},
            **{f"pcie.{key}": pcie[key] for key in ("generation", "max_generation", "width", "max_width")},
            **{f"memory.{key}": now["memory"][key] // MIB for key in ("total", "reserved", "used")},
            "temperature": now["temperature"],
            "processes": len(now["processes"] or []),
        }
    return cards


def differences(sweep):
    """Prints one line for each field; gives those that differ."""
    ours, theirs = of_sweep(sweep), of_smi()
    wrong = []
    if set(ours) != set(theirs):
        wrong.append(f"cards: {sorted(ours)} and {sorted(theirs)}")
    for uuid in sorted(set(ours) & set(theirs)):
        for field, said in theirs[uuid].items():
            found = ours[uuid][field]
            near = NEAR.get(field, 1 if field.startswith("memory") else 0)
            if isinstance(said, int) and not isinstance(said, bool) and found is not None:
                same = abs(found - said) <= near
            else:
                same = found == said
            print(f"  {field:20} {found!s:32} {said!s:32} {'' if same else 'DIFFERS'}")
            if not same:
                wrong.append(f"{uuid} {field}: {found} and {said}")
    return wrong
