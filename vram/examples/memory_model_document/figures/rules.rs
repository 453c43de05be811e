//! The rules that are compared, ours first: what each one speaks of, and what it answers for a row. A rule is asked only
//! what its authors say it answers; what it says nothing of is no error of it.

use std::rc::Rc;

use vram::VerdictKind;

use super::listed::{Listed, Reading};
use super::measured::Measured;
use super::packages::{Accelerate, Fitcheck, FitcheckAnswer};

/// What of a row a rule is held against.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// Allocated once the weights are loaded.
    Loading,
    /// Peak allocated.
    Allocated,
    /// Peak reserved and the context: what a card must have.
    Need,
}

impl Speaks {
    pub fn text(self) -> &'static str {
        match self {
            Self::Loading => "allocated after loading",
            Self::Allocated => "peak allocated",
            Self::Need => "reserved + context",
        }
    }

    pub fn measured(self, row: &Measured) -> Option<f64> {
        match self {
            Self::Loading => row.after_load,
            Self::Allocated => row.allocated,
            Self::Need => row.need,
        }
    }
}

/// Rows that the tool could be told all of, and the others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Told {
    All,
    Part,
}

enum Asks {
    Ours,
    /// Ours on the rows that fitcheck can be told all of: the same rows for both.
    OursWhere(Rc<Fitcheck>),
    Listed(Rc<Listed>, Reading),
    AccelerateTotal(Rc<Accelerate>),
    AccelerateTraining(Rc<Accelerate>),
    /// Four times the size, as the guide's table has it for every dtype.
    AccelerateGuide(Rc<Accelerate>),
    Fitcheck(Rc<Fitcheck>, Told),
}

pub struct Rule {
    pub name: String,
    pub speaks: Speaks,
    /// What it is and where it is published; empty where a line above says it.
    pub about: String,
    asks: Asks,
}

impl Rule {
    fn ours(&self, row: &Measured) -> Option<f64> {
        match self.speaks {
            Speaks::Need => row.ours.need,
            _ => row.ours.allocated,
        }
    }

    pub fn mib(&self, row: &Measured) -> Option<f64> {
        match &self.asks {
            Asks::Ours => self.ours(row),
            Asks::OursWhere(tool) => {
                of_fitcheck(tool, Told::All, row)?.total_mib?;
                self.ours(row)
            }
            Asks::Listed(table, reading) => table.mib(&row.model, row.bits, *reading),
            Asks::AccelerateTotal(tool) => tool.total_mib(&row.model, row.bits),
            Asks::AccelerateTraining(tool) => tool.training_mib(&row.model, row.bits),
            Asks::AccelerateGuide(tool) => Some(4.0 * tool.total_mib(&row.model, row.bits)?),
            Asks::Fitcheck(tool, told) => {
                let answer = of_fitcheck(tool, *told, row)?;
                match self.speaks {
                    Speaks::Need => answer.total_mib,
                    _ => answer.tensors_mib,
                }
            }
        }
    }

    /// Would it fit, for the rules that speak of the whole need or are taken for it; `None` where it does not answer.
    pub fn verdict(&self, row: &Measured) -> Option<VerdictKind> {
        match &self.asks {
            Asks::Ours => Some(row.ours.verdict),
            Asks::Fitcheck(tool, told) => of_fitcheck(tool, *told, row)?.verdict(),
            _ if self.mib(row)? <= row.room? => Some(VerdictKind::Fits),
            _ => Some(VerdictKind::TooLarge),
        }
    }

    /// Loading alone is no verdict on training, and one line of a rule is enough for its verdicts.
    pub fn judges(&self) -> bool {
        match &self.asks {
            Asks::AccelerateTotal(_) => false,
            Asks::Ours | Asks::Fitcheck(..) => self.speaks == Speaks::Need && !self.is_aside(),
            _ => !self.is_aside(),
        }
    }

    /// A second look at some of the rows; of no interest where it looks at none or at all of them.
    pub fn is_aside(&self) -> bool {
        matches!(
            &self.asks,
            Asks::OursWhere(_) | Asks::Fitcheck(_, Told::Part)
        )
    }
}

fn of_fitcheck<'a>(tool: &'a Fitcheck, told: Told, row: &Measured) -> Option<&'a FitcheckAnswer> {
    tool.answer(row.table, &row.row)
        .filter(|answer| answer.untold.is_empty() == (told == Told::All))
}

pub fn all() -> Result<Vec<Rule>, String> {
    let llama_factory = Rc::new(Listed::read(include_str!(
        "../../../data/rivals/llama-factory.json"
    ))?);
    let unsloth = Rc::new(Listed::read(include_str!(
        "../../../data/rivals/unsloth.json"
    ))?);
    let accelerate = Rc::new(Accelerate::read()?);
    let fitcheck = Rc::new(Fitcheck::read()?);
    let rule = |name: &str, speaks, about: &str, asks| Rule {
        name: name.to_owned(),
        speaks,
        about: about.to_owned(),
        asks,
    };
    let published = |table: &Rc<Listed>| {
        let about = format!("{}; <{}>, {}", table.place, table.source, table.version);
        rule(
            &format!("{}'s table", table.name),
            Speaks::Need,
            &about,
            Asks::Listed(table.clone(), Reading::AsPublished),
        )
    };
    let (accelerate_name, fitcheck_name) = (
        format!("accelerate {}", accelerate.version),
        format!("fitcheck-llm {}", fitcheck.version),
    );
    Ok(vec![
        rule(
            "this model: allocated",
            Speaks::Allocated,
            "this repository, `vram`",
            Asks::Ours,
        ),
        rule("this model: need", Speaks::Need, "", Asks::Ours),
        published(&llama_factory),
        rule(
            "the same, smaller models read as 7B",
            Speaks::Need,
            "",
            Asks::Listed(llama_factory, Reading::NextLarger),
        ),
        published(&unsloth),
        rule(
            &format!("{accelerate_name}: total size"),
            Speaks::Loading,
            "`accelerate estimate-memory`: parameters x bytes of the dtype (4 bits: half a byte each); \
             <https://huggingface.co/docs/accelerate/usage_guides/model_size_estimator>",
            Asks::AccelerateTotal(accelerate.clone()),
        ),
        rule(
            &format!("{accelerate_name}: training using Adam"),
            Speaks::Allocated,
            "the same command: 16 bits take 8 bytes for each parameter (all are trained), 4 bits answer N/A",
            Asks::AccelerateTraining(accelerate.clone()),
        ),
        rule(
            "accelerate's guide: 4 x total size",
            Speaks::Allocated,
            "the tables of the same guide still give four times the size for 4 bits too",
            Asks::AccelerateGuide(accelerate),
        ),
        rule(
            &format!("{fitcheck_name}: tensors"),
            Speaks::Allocated,
            "weights + adapters + optimizer + gradients + activations, in closed form; \
             <https://github.com/Anassbzdd/fitcheck>, docs/SPEC.md",
            Asks::Fitcheck(fitcheck.clone(), Told::All),
        ),
        rule(
            &format!("{fitcheck_name}: total"),
            Speaks::Need,
            "the same + overhead: on a T4 fitted to its measurements, elsewhere 500 MiB + 5 %",
            Asks::Fitcheck(fitcheck.clone(), Told::All),
        ),
        rule(
            "this model on the same rows: allocated",
            Speaks::Allocated,
            "",
            Asks::OursWhere(fitcheck.clone()),
        ),
        rule(
            "this model on the same rows: need",
            Speaks::Need,
            "",
            Asks::OursWhere(fitcheck.clone()),
        ),
        rule(
            &format!("{fitcheck_name}: total, rows with settings that it has no option for"),
            Speaks::Need,
            "",
            Asks::Fitcheck(fitcheck, Told::Part),
        ),
    ])
}
