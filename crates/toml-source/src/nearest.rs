//! The known word that a mistyped one was meant to be.

/// Longest word that is compared, in characters: the distance takes quadratic time.
const MAX_COMPARED: usize = 64;

/// Returns the known word closest to `word`, if few enough edits lie between them. Swapping two neighbours is one edit.
#[must_use]
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let word: String = word.chars().take(MAX_COMPARED).collect();
    let (distance, best) = known.iter().map(|known| (strsim::osa_distance(&word, known), *known)).min()?;
    // Two edits of a short word would be most of it.
    let allowed = if best.len() < 5 { 1 } else { (best.len() / 3).clamp(2, 4) };
    (distance <= allowed).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_word_nearest_to_a_mistake_is_suggested() {
        let known = ["level", "max_level", "max_stop_ms", "patience_us"];
        assert_eq!(nearest("levl", &known), Some("level"));
        assert_eq!(nearest("levle", &known), Some("level"));
        assert_eq!(nearest("max_stop", &known), Some("max_stop_ms"));
        assert_eq!(nearest("patience_ms", &known), Some("patience_us"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest(&"level".repeat(100_000), &known), None);
        assert_eq!(nearest("level", &[]), None);
    }
}
