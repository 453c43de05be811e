//! The one kind of table: no borders, two blanks between columns, at most 100 columns wide. Text columns wrap where
//! there is no room; figures never wrap and never lose a digit.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width, presets};

/// All tables and texts fit in it.
pub const WIDTH: u16 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Wraps when it must.
    Text,
    /// `name=value` pairs: wraps between them, not in them.
    Pairs,
    /// Never wraps.
    Word,
    /// Never wraps, and stands at the right.
    Figure,
}

pub struct Table {
    columns: Vec<(String, Kind)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(&str, Kind)]) -> Self {
        Self::of(named(columns))
    }

    pub fn of(columns: Vec<(String, Kind)>) -> Self {
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows
            .push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn longest_pair(&self, column: usize) -> ColumnConstraint {
        let words = self
            .rows
            .iter()
            .filter_map(|row| row.get(column))
            .flat_map(|cell| cell.split(' '));
        let longest = words.map(|word| word.chars().count()).max().unwrap_or(0);
        // With the blanks after it.
        let width = u16::try_from(longest + 2).unwrap_or(WIDTH).min(WIDTH / 3);
        ColumnConstraint::LowerBoundary(Width::Fixed(width))
    }
}

/// Columns with fixed titles.
pub fn named(columns: &[(&str, Kind)]) -> Vec<(String, Kind)> {
    columns
        .iter()
        .map(|(title, kind)| ((*title).to_owned(), *kind))
        .collect()
}

/// One line of plain text: what hosts and programs said must not drive the terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

impl std::fmt::Display for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = comfy_table::Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH)
            .set_header(self.columns.iter().map(|(title, _)| printable(title)));
        for row in &self.rows {
            table.add_row(row);
        }
        let last = self.columns.len().saturating_sub(1);
        for (at, (_, kind)) in self.columns.iter().enumerate() {
            let Some(column) = table.column_mut(at) else {
                continue;
            };
            column.set_padding((0, if at == last { 0 } else { 2 }));
            let constraint = match kind {
                Kind::Text => None,
                Kind::Pairs => Some(self.longest_pair(at)),
                Kind::Word | Kind::Figure => Some(ColumnConstraint::ContentWidth),
            };
            if let Some(constraint) = constraint {
                column.set_constraint(constraint);
            }
            if *kind == Kind::Figure {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in table.lines() {
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stay_whole_and_the_table_within_its_width() {
        let mut table = Table::new(&[
            ("trial", Kind::Text),
            ("about", Kind::Text),
            ("peak", Kind::Figure),
            ("outcome", Kind::Word),
        ]);
        let words = "rank=96 dropout=0.1 learning_rate=0.00031 ".repeat(4);
        table.row([words.clone(), words, "123456789.5".into(), "gpu_oom".into()]);
        let text = table.to_string();
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(
            text.contains("123456789.5") && text.contains("gpu_oom"),
            "{text}"
        );
        assert!(text.starts_with("trial"), "{text}");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut table = Table::new(&[("a", Kind::Text)]);
        table.row(["x\u{1b}[31my\nz".into()]);
        assert!(!table.to_string().contains('\u{1b}'));
        assert_eq!(table.to_string().lines().count(), 2);
    }
}
