//! The device of `sweep vram predict`: a card known by name, an amount of memory, or neither. Refuses to guess a card.

use clap::ValueEnum;
use vram::{Backend, Bytes, Card, DeviceClass, DeviceLoad, known_card, known_cards};

use crate::error::Error;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Target {
    /// Card known by name, or a part of its name: "3070 Ti"; `sweep vram cards` lists them
    #[arg(long, value_name = "NAME", group = "one_device")]
    pub device: Option<String>,
    /// What one process can use of the empty device, its context included
    #[arg(long, value_name = "MIB", group = "one_device", value_parser = mib)]
    pub usable_mib: Option<f64>,
    /// What others hold of it [default: 0]
    #[arg(long, value_name = "MIB", requires = "one_device", value_parser = mib)]
    pub held_mib: Option<f64>,
    /// Kind of the device [default: cuda]; without a device: of which cards
    #[arg(long, conflicts_with = "device")]
    pub backend: Option<Kind>,
    /// Operating system; on windows the driver pages to system memory [default: linux, or the card's]
    #[arg(long)]
    pub os: Option<System>,
}

/// A class of device, and how full one of it is.
pub type Device = (DeviceClass, DeviceLoad);

/// A device that was named.
pub struct One {
    pub device: Device,
    /// Absent where only its memory was given.
    pub card: Option<&'static Card>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Kind {
    Cuda,
    Rocm,
    Cpu,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum System {
    Linux,
    Windows,
}

impl From<Kind> for Backend {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Cuda => Self::Cuda,
            Kind::Rocm => Self::Rocm,
            Kind::Cpu => Self::Cpu,
        }
    }
}

impl System {
    fn as_str(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Windows => "windows",
        }
    }
}

/// A number of MiB, 0 or more. What is beyond any machine would leave 64 bits.
pub fn mib(text: &str) -> Result<f64, String> {
    let most = f64::from(1 << 30);
    let number = text.parse::<f64>().ok();
    number
        .filter(|mib| (0.0..=most).contains(mib))
        .ok_or_else(|| format!("`{text}` is no number of MiB"))
}

impl Target {
    /// The one device that was asked for.
    pub fn one(&self) -> Result<Option<One>, Error> {
        let held = Bytes::from_mib(self.held_mib.unwrap_or(0.0));
        if let Some(name) = &self.device {
            let card = known_card(name).map_err(|error| Error::BadInput(error.to_string()))?;
            return Ok(Some(One {
                device: (self.class(card), card.load(held)),
                card: Some(card),
            }));
        }
        let Some(usable) = self.usable_mib else {
            return Ok(None);
        };
        let backend = self.backend.unwrap_or(Kind::Cuda).into();
        let os = self.os.unwrap_or(System::Linux).as_str();
        let class = DeviceClass {
            // It has no name that a driver would give it; the memory model takes the backend's commonest kernels.
            name: crate::render::vram::word(&backend),
            backend,
            os: os.to_owned(),
            spills: os == "windows",
            simulated: false,
        };
        let usable = Bytes::from_mib(usable);
        Ok(Some(One {
            device: (class, DeviceLoad { usable, held }),
            card: None,
        }))
    }

    /// Every card known by name, smallest first, of the backend that was asked for.
    pub fn all(&self) -> Result<Vec<Device>, Error> {
        let backend = self.backend.map(Backend::from);
        let mut cards: Vec<&Card> = known_cards()
            .iter()
            .filter(|card| backend.is_none_or(|wanted| card.backend == wanted))
            .collect();
        if cards.is_empty() {
            return Err(Error::BadInput(
                "no card known by name is of this backend; give its memory with --usable-mib"
                    .into(),
            ));
        }
        cards.sort_by(|a, b| a.usable_mib.total_cmp(&b.usable_mib));
        let devices = cards.into_iter();
        Ok(devices
            .map(|card| (self.class(card), card.load(Bytes::ZERO)))
            .collect())
    }

    /// Nothing was said of where to.
    pub fn is_open(&self) -> bool {
        self.device.is_none()
            && self.usable_mib.is_none()
            && self.backend.is_none()
            && self.os.is_none()
    }

    fn class(&self, card: &Card) -> DeviceClass {
        match self.os {
            Some(os) => card.class(os.as_str()),
            None => card.class(&card.os),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers_of_mib() {
        assert_eq!(mib("7833.6"), Ok(7833.6));
        assert_eq!(mib("0"), Ok(0.0));
        for bad in ["-1", "nan", "inf", "1e300", "8GiB", ""] {
            assert_eq!(mib(bad), Err(format!("`{bad}` is no number of MiB")));
        }
    }
}
