//! As much of Markdown as it takes to find links: inline ones, images and reference definitions, but not HTML.

/// Every link outside code, with the number of its line.
pub fn links(markdown: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in markdown.lines().enumerate() {
        match (fence, fence_of(line)) {
            (None, Some(opening)) => fence = Some(opening),
            (None, None) => links.extend(links_of(line).into_iter().map(|link| (index + 1, link))),
            (Some(opening), Some(closing)) if closes(opening, closing, line) => fence = None,
            (Some(_), _) => {}
        }
    }
    links
}

/// The run of at least three backticks or tildes that a line starts with. A line such as "```a``` and so on" is a code span.
fn fence_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let sign = line.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    let rest = line.trim_start_matches(sign);
    let is_fence = line.len() - rest.len() >= 3 && !(sign == '`' && rest.contains('`'));
    is_fence.then(|| &line[..line.len() - rest.len()])
}

fn closes(opening: &str, closing: &str, line: &str) -> bool {
    closing.starts_with(opening) && line.trim() == closing
}

fn links_of(line: &str) -> Vec<String> {
    let line = without_code_spans(line);
    if let Some(destination) = definition(&line) {
        return vec![destination];
    }
    let after_brackets = line.match_indices("](").map(|(at, opening)| &line[at + opening.len()..]);
    after_brackets.map(destination_before_parenthesis).collect()
}

/// Blanks what stands between equal runs of backticks.
fn without_code_spans(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let run = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        let (before, from_run) = rest.split_at(start);
        let (ticks, after_run) = from_run.split_at(run);
        kept.push_str(before);
        match end_of_run(after_run, run) {
            Some(end) => rest = &after_run[end..],
            None => {
                kept.push_str(ticks);
                rest = after_run;
            }
        }
        kept.push(' ');
    }
    kept + rest
}

/// Where the first run of exactly `length` backticks ends.
fn end_of_run(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`') {
        let start = at + found;
        at = start + text[start..].len() - text[start..].trim_start_matches('`').len();
        if at - start == length {
            return Some(at);
        }
    }
    None
}

/// The destination of a reference definition, `[label]: destination`; footnotes are none.
fn definition(line: &str) -> Option<String> {
    let (label, destination) = line.trim_start().strip_prefix('[')?.split_once("]:")?;
    let is_definition = !label.is_empty() && !label.starts_with('^') && !label.contains(']');
    is_definition.then(|| first_word(destination.trim_start()).to_owned())
}

/// From `path "title") and so on`, the path; it may hold balanced parentheses.
fn destination_before_parenthesis(text: &str) -> String {
    let text = text.trim_start();
    if text.starts_with('<') {
        return first_word(text).to_owned();
    }
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return text[..at].to_owned(),
            ')' => depth -= 1,
            c if c.is_whitespace() => return text[..at].to_owned(),
            _ => {}
        }
    }
    text.to_owned()
}

/// Up to a space, or within `<…>`.
fn first_word(text: &str) -> &str {
    match text.strip_prefix('<') {
        Some(text) => text.split('>').next().unwrap_or_default(),
        None => text.split_whitespace().next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links_in(markdown: &str) -> Vec<String> {
        links(markdown).into_iter().map(|(_, link)| link).collect()
    }

    #[test]
    fn every_kind_of_link_is_read() {
        for markdown in [
            "[a](x.md)",
            "![image](x.md)",
            "[a](x.md \"title\")",
            "[a]( <x.md> )",
            "[`code`](x.md)",
            "text that goes on](x.md)",
            "[label]: x.md",
            "[label]: <x.md> 'title'",
            "a ` alone, [b](x.md)",
            "a `` b `c` [d](x.md)",
        ] {
            assert_eq!(links_in(markdown), ["x.md"], "{markdown}");
        }
    }

    #[test]
    fn several_links_share_a_line() {
        assert_eq!(links_in("[![image](x.png)](y.md) and [b](z.md#part)"), ["x.png", "y.md", "z.md#part"]);
    }

    #[test]
    fn a_destination_may_hold_spaces_and_parentheses() {
        assert_eq!(links_in("([a](x(1).md))"), ["x(1).md"]);
        assert_eq!(links_in("[a](<x (1).md>)"), ["x (1).md"]);
    }

    #[test]
    fn links_come_with_their_line() {
        assert_eq!(links("first\n\n[a](x.md)\n"), [(3, "x.md".to_owned())]);
    }

    #[test]
    fn code_and_footnotes_hold_no_links() {
        for markdown in [
            "`[a](x.md)`",
            "``a ` [a](x.md)``",
            "```\n[a](x.md)\n```",
            "```\n[a](x.md)",
            "~~~~\n~~~\n[a](x.md)\n~~~~",
            "```rust\n```rust\n[a](x.md)\n```",
            "[^1]: a note",
        ] {
            assert_eq!(links_in(markdown), [""; 0], "{markdown}");
        }
    }

    #[test]
    fn code_ends() {
        for markdown in ["```rust\ncode\n```\n[a](x.md)", "````\n```\n````\n[a](x.md)", "```a``` is a span\n[a](x.md)"] {
            assert_eq!(links_in(markdown), ["x.md"], "{markdown}");
        }
    }
}
