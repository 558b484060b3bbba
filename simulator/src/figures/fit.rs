//! Functions fitted to points, as the paper fits its lines in figure 4.

/// A function of n, and its name.
pub type Term = (&'static str, fn(f64) -> f64);

/// The sum of these functions of n, each with its factor, that is nearest to the points (least squares); as a formula
/// and as a function. `None` if there are not more points than functions.
///
/// By the normal equations: for three unknowns a library of linear algebra would be larger than the simulator.
pub fn fit(points: &[(f64, f64)], terms: &[Term]) -> Option<Fit> {
    if points.len() <= terms.len() {
        return None;
    }
    let count = terms.len();
    let mut rows = vec![vec![0.0; count + 1]; count];
    for &(n, value) in points {
        let values: Vec<f64> = terms.iter().map(|(_, term)| term(n)).chain([value]).collect();
        for (row, factor) in rows.iter_mut().zip(&values) {
            row.iter_mut().zip(&values).for_each(|(sum, value)| *sum += factor * value);
        }
    }
    for pivot in 0..count {
        let best = (pivot..count).max_by(|&a, &b| rows[a][pivot].abs().total_cmp(&rows[b][pivot].abs()))?;
        rows.swap(pivot, best);
        let row = rows[pivot].clone();
        for other in rows.iter_mut().enumerate().filter(|(place, _)| *place != pivot).map(|(_, row)| row) {
            let factor = other[pivot] / row[pivot];
            other.iter_mut().zip(&row).for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    let factors: Vec<f64> = (0..count).map(|place| rows[place][count] / rows[place][place]).collect();
    let terms: Vec<_> = factors.into_iter().zip(terms.iter().copied()).collect();
    let formula: Vec<_> = terms.iter().map(|(factor, (name, _))| format!("{factor:.3}{name}")).collect();
    let mut fit = Fit { formula: formula.join(" + ").replace("+ -", "- "), farthest: 0.0, points: vec![] };
    for &(n, value) in points {
        let fitted: f64 = terms.iter().map(|(factor, (_, term))| factor * term(n)).sum();
        fit.farthest = f64::max(fit.farthest, (fitted - value).abs());
        fit.points.push((n, fitted));
    }
    Some(fit)
}

/// What was fitted.
pub struct Fit {
    /// With its factors.
    pub formula: String,
    /// How far the farthest point is from it.
    pub farthest: f64,
    /// Its values where the points are.
    pub points: Vec<(f64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: [Term; 3] = [("", |_| 1.0), ("/n", f64::recip), (" log2 n", f64::log2)];

    #[test]
    fn what_the_points_were_made_of_is_found() {
        let points: Vec<_> =
            [32.0, 64.0, 500.0, 4000.0, 256_000.0].map(|n: f64| (n, 7.0 - 90.0 / n + 2.5 * n.log2())).into();
        let found = fit(&points, &TERMS).unwrap();
        assert_eq!(found.formula, "7.000 - 90.000/n + 2.500 log2 n");
        assert!(found.farthest < 1e-6);
        assert!(fit(&points[..3], &TERMS).is_none());
    }

    #[test]
    fn the_nearest_is_found_where_no_sum_meets_all_points() {
        let found = fit(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0)], &TERMS[..1]).unwrap();
        assert_eq!((found.formula.as_str(), found.farthest), ("2.000", 1.0));
    }
}
