use super::*;

fn one(text: &str) -> Node<'_> {
    let mut documents = documents(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0)
}

fn text(value: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(value))
}

#[test]
fn scalars_have_the_types_that_kubernetes_gives_them() {
    for (yaml, expected) in [
        ("a: 1", Value::Signed(1)),
        ("a: -1", Value::Signed(-1)),
        ("a: 0644", Value::Signed(0o644)),
        ("a: 0o644", Value::Signed(0o644)),
        ("a: 0x10", Value::Signed(16)),
        ("a: 18446744073709551615", Value::Unsigned(u64::MAX)),
        ("a: 0.5", Value::Float(0.5)),
        ("a: 30.0", Value::Signed(30)),
        ("a: 3e1", Value::Signed(30)),
        ("a: 08", Value::Signed(8)),
        ("a: -2.0", Value::Signed(-2)),
        ("a: -9223372036854775808.0", Value::Signed(i64::MIN)),
        ("a: 9223372036854775808.0", Value::Float(9_223_372_036_854_775_808.0)),
        ("a: .inf", Value::Float(f64::INFINITY)),
        ("a: 123e4567", text("123e4567")),
        ("# ü\n---\n---\nb: &x -1e400\na: *x # ü", text("-1e400")),
        ("a: true", Value::Bool(true)),
        ("a: yes", Value::Bool(true)),
        ("a: off", Value::Bool(false)),
        ("a: null", Value::Null),
        ("a: ~", Value::Null),
        ("a:", Value::Null),
        ("a: text", text("text")),
        ("a: \"1\"", text("1")),
        ("a: '0644'", text("0644")),
        ("a: 1.2.3", text("1.2.3")),
        ("a: 100m", text("100m")),
        ("a: nginx:1.25", text("nginx:1.25")),
        ("a: 2026-11-16", text("2026-11-16")),
    ] {
        assert_eq!(one(yaml).get("a").map(|node| &node.value), Some(&expected), "{yaml}");
    }
}

#[test]
fn keys_are_text_whatever_they_look_like() {
    let node = one("8080: a\ny: b\ntrue: c\n'': d\n");
    let Value::Map(entries) = &node.value else { panic!("{node:?}") };
    let keys: Vec<&str> = entries.iter().map(|(key, _)| &**key).collect();
    assert_eq!(keys, ["8080", "y", "true", ""]);
}

#[test]
fn json_is_read_as_it_is_written() {
    let json =
        "{\n\t\"a\":\"\\ud83d\\ude00 \\u00e4 \\/\",\n\t\"b\":[1,true,null,\"x\"],\"c\":{\"d\":\"1\"}\n}\n";
    let node = one(json);
    assert_eq!(node.get("a").map(|node| &node.value), Some(&text("😀 ä /")));
    assert_eq!(node.get("a").map(|node| node.line), Some(2));
    assert_eq!(node.line_of("c.d"), 3);

    let long = format!("{{\"a\":\"{}\",\"b\":[\"{}\"]}}", "x".repeat(5000), "y".repeat(5000));
    assert_eq!(one(&long).get("a").and_then(Node::text).map(str::len), Some(5000));
}

#[test]
fn documents_are_told_apart_and_empty_ones_left_out() {
    let text = "# nothing yet\n---\na: 1\n---\n---\n# only a comment\n---\na: 2\n...\n";
    let documents = documents(text).expect("documents");
    assert_eq!(documents.iter().map(|document| document.line_of("a")).collect::<Vec<_>>(), [3, 8]);
    assert_eq!(super::documents("").expect("nothing"), []);
}

/// As written by `jq -c '.items[]'` and `jq .`.
#[test]
fn values_of_json_may_follow_each_other() {
    for text in [
        "{\"a\":1}\n{\"a\":2}\n",
        "{\"a\":1}{\"a\":2}",
        "\n {\n  \"a\": 1}\t{\n\"a\":\n\n2\n}",
        "{\"a\":1,\"b\":\"}{\\\"\"} {\"a\":2}",
    ] {
        let documents = documents(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        let values: Vec<_> = documents.iter().filter_map(|document| document.get("a")).collect();
        assert_eq!(
            values.iter().map(|node| &node.value).collect::<Vec<_>>(),
            [&Value::Signed(1), &Value::Signed(2)]
        );
        let lines =
            |value: &str| u32::try_from(text.split(value).next().unwrap_or_default().matches('\n').count());
        assert_eq!(Ok(values[0].line), lines("1").map(|line| line + 1), "{text}");
        assert_eq!(Ok(values[1].line), lines("2").map(|line| line + 1), "{text}");
    }
    for (text, line, message) in [
        ("{\"a\":1}\n{\"a\":\n2", Some(3), "EOF while parsing an object"),
        ("{\"a\":1}\n{\"a\" 2}", Some(2), "expected `:`"),
        ("{\"a\":1}\n{\"b\":2,\n\"b\":3}", Some(3), "has the key \"b\" twice in the same map"),
        ("{\"a\":1}\n{a: 2}", Some(2), "key must be a string"),
        ("{\"a\":1}\nnonsense", Some(2), "did not find expected <document start>"),
        ("{a: 1}\n{a: 2}", Some(2), "did not find expected <document start>"),
        ("{\"a\":1", Some(1), "unclosed bracket '{'"),
    ] {
        let error = documents(text).expect_err(text);
        assert_eq!((error.line, error.message.as_str()), (line, message), "{text}");
    }
}

/// A text that cannot be parsed may be a secret.
#[test]
fn what_is_wrong_with_a_text_does_not_show_it() {
    for text in [
        "p: \"hunter2\nq: 1",
        "p: 'hunter2\nq: 1",
        "p: \"hunter2\\q\"",
        "p: @hunter2",
        "p: `hunter2",
        "p: %hunter2",
        "p: *hunter2",
        "p: !hunter2 x",
        "p: !h!hunter2 x",
        "p: &hunter2",
        "p: hunter2: x",
        "p: - hunter2",
        "p: [hunter2",
        "p: {hunter2",
        "p: !!int hunter2",
        "p: !!binary hunter2",
        "p: !!float hunter2",
        "p: |hunter2\n  x",
        "p: >\n  x\n hunter2\nq",
        "p: hunter2\n  q: 1",
        "p:\n\thunter2",
        "<<: hunter2",
        "{\"p\": 1}{\"p\": hunter2}",
        "{\"p\": 1}{\"p\": \"hunter2}",
        ": hunter2",
        "? [hunter2]\n: 1",
    ] {
        let told = documents(text).map_or_else(|error| error.message, |_| String::new());
        assert!(!told.contains("hunter2"), "{text}: {told}");
    }
    assert_eq!(documents(": x").expect_err("no name").message, "has a value without a key before the colon");
}

#[test]
fn lines_of_paths() {
    let node = one("a:\n  b:\n  - c: 1\n  - c: 2\n    d.e/f: 3\n");
    for (path, line) in [
        ("a.b[0].c", 3),
        ("a.b[1].c", 4),
        ("a.b[1][d.e/f]", 5),
        ("a.b[1].missing", 4),
        ("a.b[7].c", 3),
        ("x", 1),
        ("", 1),
    ] {
        assert_eq!(node.line_of(path), line, "{path}");
    }
}

#[test]
fn anchors_and_merge_keys_work_in_moderation() {
    let node = one("base: &base\n  x: 1\n  y: 2\nuse:\n  <<: *base\n  y: 3\ncopy: *base\n");
    assert_eq!(
        node.get("use").and_then(|node| node.get("x")).map(|node| &node.value),
        Some(&Value::Signed(1))
    );
    assert_eq!(
        node.get("use").and_then(|node| node.get("y")).map(|node| &node.value),
        Some(&Value::Signed(3))
    );
    assert_eq!(
        node.get("copy").and_then(|node| node.get("y")).map(|node| &node.value),
        Some(&Value::Signed(2))
    );
}

#[test]
fn mistakes_say_their_line() {
    for (text, line, message) in [
        ("a: 1\nb: [1, 2\nc: 3\n", 3, "illegal placement of ':' indicator"),
        ("a: 1\na: 2\n", 2, "has the key \"a\" twice in the same map"),
        ("a:\n\t- 1\n", 2, "tabs disallowed within this context (block indentation)"),
        ("a: *nobody\n", 1, "alias references unknown anchor"),
        ("a: \"open\nb: 1\n", 2, "invalid indentation in multiline quoted scalar"),
        ("a: 1\n b: 2\n", 2, "mapping values are not allowed in this context"),
    ] {
        let error = documents(text).expect_err(text);
        assert_eq!((error.line, error.message.as_str()), (Some(line), message), "{text}");
    }
}

/// Each of these would take gigabytes, or overflow the stack, if it were expanded.
#[test]
fn hostile_texts_are_refused() {
    let bomb = (1..30).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, n| {
        let before = n - 1;
        text + &format!("a{n}: &a{n} [*a{before}, *a{before}, *a{before}, *a{before}, *a{before}, *a{before}, *a{before}]\n")
    });
    let big_scalar = format!("a: &a {}\nb:\n{}", "x".repeat(1 << 17), "- *a\n".repeat(900));
    let escaped_scalar = format!("a: &a \"\\n{}\"\nb:\n{}", "x".repeat(1 << 17), "- *a\n".repeat(900));
    let deep_flow = format!("a: {}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_block = (0..500).fold(String::new(), |text, depth| text + &" ".repeat(depth) + "- \n");
    let deep_maps = (0..500).fold(String::new(), |text, depth| text + &" ".repeat(depth) + "a:\n");
    let many_nodes = format!("a: [{}]", "1,".repeat(110_000));
    let many_documents = "---\na: 1\n".repeat(1500);
    let own_tail = "a: &a [*a]\n".to_owned();
    let many_in_json = "{\"a\":[1,1,1,1,1,1,1,1,1]}".repeat(11_000);
    let many_values = format!("{{\"a\":[{}1]}}", "1,".repeat(40_000)).repeat(3);
    for (name, text, expected) in [
        ("bomb", bomb, "anchors and aliases"),
        ("big scalar", big_scalar, "aliases are expanded"),
        ("escaped scalar", escaped_scalar, "anchors and aliases"),
        ("deep flow", deep_flow, "recursion limit exceeded"),
        ("deep block", deep_block, "nested deeper than 32"),
        ("deep maps", deep_maps, "nested deeper than 32"),
        ("many nodes", many_nodes, "more than 100000 values"),
        ("many documents", many_documents, "more than 1024 documents"),
        ("own tail", own_tail, "recursive references"),
        ("many documents of JSON", many_in_json, "more than 1024 documents"),
        ("many values of JSON", many_values, "more than 100000 values"),
    ] {
        let error = documents(&text).expect_err(name);
        assert!(error.message.contains(expected), "{name}: {error:?}");
    }
}
