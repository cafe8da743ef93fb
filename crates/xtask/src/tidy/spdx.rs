//! Licence expressions: `MIT OR (Apache-2.0 AND ISC)`, and the older `MIT/Apache-2.0`.
//!
//! Evaluated while they are read, from the weakest operator to the strongest: OR, AND, WITH.

/// Whether one can comply with `expression` through allowed licences alone. A licence with an exception is asked for as a
/// whole: `Apache-2.0 WITH LLVM-exception`. The error says what is wrong with the expression.
pub fn is_satisfied(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let mut reader = Reader { tokens: tokens(expression), next: 0, is_allowed };
    let satisfied = reader.any_of()?;
    match reader.peek() {
        None => Ok(satisfied),
        Some(token) => Err(format!("`{token}` was not expected")),
    }
}

struct Reader<'a> {
    tokens: Vec<&'a str>,
    next: usize,
    is_allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> Reader<'a> {
    fn any_of(&mut self) -> Result<bool, String> {
        let mut satisfied = self.all_of()?;
        while self.skip("OR") || self.skip("/") {
            satisfied |= self.all_of()?;
        }
        Ok(satisfied)
    }

    fn all_of(&mut self) -> Result<bool, String> {
        let mut satisfied = self.one()?;
        while self.skip("AND") {
            satisfied &= self.one()?;
        }
        Ok(satisfied)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.skip("(") {
            let satisfied = self.any_of()?;
            return if self.skip(")") { Ok(satisfied) } else { Err("a parenthesis is not closed".to_owned()) };
        }
        let licence = self.name()?;
        if self.skip("WITH") {
            let exception = self.name()?;
            return Ok((self.is_allowed)(&format!("{licence} WITH {exception}")));
        }
        Ok((self.is_allowed)(licence))
    }

    fn name(&mut self) -> Result<&'a str, String> {
        let token = self.peek().ok_or("it ends where a licence should follow")?;
        if ["(", ")", "/"].contains(&token) || ["OR", "AND", "WITH"].iter().any(|word| word.eq_ignore_ascii_case(token)) {
            return Err(format!("`{token}` stands where a licence should"));
        }
        self.next += 1;
        Ok(token)
    }

    fn skip(&mut self, token: &str) -> bool {
        let is_next = self.peek().is_some_and(|next| next.eq_ignore_ascii_case(token));
        self.next += usize::from(is_next);
        is_next
    }

    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.next).copied()
    }
}

/// Words, and each of `(`, `)` and `/` for itself.
fn tokens(expression: &str) -> Vec<&str> {
    let is_sign = |c: char| matches!(c, '(' | ')' | '/');
    let words = expression.split_whitespace();
    words.flat_map(|word| word.split_inclusive(is_sign).flat_map(move |piece| split_off_sign(piece, is_sign))).collect()
}

fn split_off_sign(piece: &str, is_sign: impl Fn(char) -> bool) -> impl Iterator<Item = &str> {
    let word = piece.trim_end_matches(is_sign);
    [word, &piece[word.len()..]].into_iter().filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A and B are allowed, and X only with exception E.
    fn evaluate(expression: &str) -> Result<bool, String> {
        is_satisfied(expression, &|licence| ["A", "B", "X WITH E"].contains(&licence))
    }

    #[test]
    fn or_wants_one_side_and_and_wants_both() {
        for (expression, expected) in [
            ("A", true),
            ("X", false),
            ("A OR X", true),
            ("X OR A", true),
            ("X OR Y", false),
            ("A AND B", true),
            ("A AND X", false),
            ("X/A", true),
            ("X / Y", false),
            ("X or A", true),
        ] {
            assert_eq!(evaluate(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn and_binds_more_strongly_than_or_and_parentheses_most() {
        for (expression, expected) in [
            ("A OR B AND X", true),
            ("(A OR B) AND X", false),
            ("X AND A OR B", true),
            ("X AND (A OR B)", false),
            ("((A)) AND (X OR (Y OR B))", true),
        ] {
            assert_eq!(evaluate(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn an_exception_belongs_to_its_licence() {
        assert_eq!(evaluate("X WITH E"), Ok(true));
        assert_eq!(evaluate("A WITH E"), Ok(false));
        assert_eq!(evaluate("Y OR X WITH E AND B"), Ok(true));
    }

    #[test]
    fn what_is_not_an_expression_is_an_error() {
        for expression in ["", "A OR", "OR A", "(A", "A)", "A B", "A AND OR B", "A WITH", "()", "A//B"] {
            assert!(evaluate(expression).is_err(), "{expression}");
        }
    }
}
