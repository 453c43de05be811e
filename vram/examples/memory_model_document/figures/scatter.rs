//! The drawing beside the document: every measured peak that is shipped, against its prediction. The seeds are shown
//! as the program reports them, the tables of measured steps with nothing learned.

use vram::{Backend, EvaluatedRow, Knowledge, Mode, Report, ReportRow, report, scatter_svg};

use super::tables::Table;

fn row(table: &Table, row: &EvaluatedRow) -> Option<ReportRow> {
    let predicted = row.predicted_allocated_mib?;
    let measured = row
        .measured_allocated_mib
        .filter(|_| row.status.as_deref() != Some("oom"))?;
    Some(ReportRow {
        host: table.name.to_owned(),
        family: String::new(),
        device: table.title.to_owned(),
        mode: Mode::Train,
        backend: Backend::Cuda,
        source: format!("{} row {}", table.name, row.line),
        measured_mib: measured,
        computed_mib: predicted,
        corrected_mib: predicted,
    })
}

pub fn drawing(tables: &[Table]) -> String {
    let mut shown: Report = report(&Knowledge::seeds());
    for table in tables {
        let rows = table.plain.rows.iter();
        shown.rows.extend(rows.filter_map(|one| row(table, one)));
    }
    scatter_svg(&shown)
}
