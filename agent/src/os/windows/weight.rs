//! A control group's CPU weight (1 to 10,000, 100 is everybody's) as a Job Object's (1 to 9, 5 is everybody's). Both go
//! by ratios, so ten times as much here is two steps there. Pure.

/// What is beyond either end is that end.
pub fn of(cpu_weight: u32) -> u32 {
    // Half decades: 1, 3.2, 10, 32, 100, ...
    const STEPS: [u32; 8] = [2, 6, 18, 57, 178, 563, 1779, 5624];
    1 + STEPS.iter().filter(|step| cpu_weight >= **step).count() as u32
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn everybodys_stays_everybodys_and_the_ends_hold() {
        let found = [0, 1, 10, 50, 100, 200, 1000, 10_000, u32::MAX].map(of);
        assert_eq!(found, [1, 1, 3, 4, 5, 6, 7, 9, 9]);
    }
}
