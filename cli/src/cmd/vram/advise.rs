//! `sweep vram advise`: what would make a recipe fit a device: changes that leave what the training computes as it is
//! first, then smaller recipes; and all that was tried. Suggests nothing that was not replayed under the room there is.

use vram::{Workload, advise};

use super::predict::{Mode, known};
use super::rows;
use super::settings::Recipe;
use super::target::Target;
use crate::context::Context;
use crate::error::{Error, Exit};
use crate::{out, render};

/// Say what would make a recipe fit a device
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub recipe: Recipe,
    /// What is done with the memory
    #[arg(long, default_value = "train")]
    pub mode: Mode,
    #[command(flatten)]
    pub target: Target,
}

pub fn run(args: &Args, context: &Context) -> Result<Exit, Error> {
    let settings = args.recipe.read()?;
    let workload = Workload::new(args.mode.of_model(), &settings, None)
        .map_err(|error| Error::BadInput(error.to_string()))?;
    known(&workload)?;
    let Some(one) = args.target.one()? else {
        return Err(Error::BadInput(
            "say for which device: --device NAME, or --usable-mib N".into(),
        ));
    };
    let (class, load) = &one.device;
    let advice = advise(&workload, class, load, &rows::knowledge(&[], context)?);
    out::document(context, &advice, render::vram::advise::text)?;
    Ok(Exit::DONE)
}
