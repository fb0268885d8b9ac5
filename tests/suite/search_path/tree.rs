//! What a statement means to PostgreSQL: reads the parse trees that `debug_print_parse` puts into the server's log, and
//! says which functions, operators, relations and types the statement's names were found to be.

use std::collections::{BTreeMap, BTreeSet};

/// A call, as it was looked up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) is_operator: bool,
    pub(crate) oid: u32,
    /// Types of the arguments as they were given, before any cast that PostgreSQL added; with a name where one was
    /// given.
    pub(crate) arguments: Vec<(Option<String>, u32)>,
    pub(crate) result: u32,
}

/// Everything that the names of some statements were found to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    pub(crate) calls: BTreeSet<Call>,
    pub(crate) relations: BTreeSet<u32>,
    pub(crate) types: BTreeSet<u32>,
}

impl Used {
    /// Adds what one tree mentions.
    pub(crate) fn read(&mut self, tree: &str) {
        self.visit(&Parser { text: tree.as_bytes(), at: 0 }.values());
    }

    /// Every object.
    pub(crate) fn oids(&self) -> BTreeSet<u32> {
        let calls = self.calls.iter().map(|call| call.oid);
        calls.chain(self.relations.iter().copied()).chain(self.types.iter().copied()).collect()
    }

    fn visit(&mut self, values: &[Value]) {
        for value in values {
            match value {
                Value::Atom(_) => {}
                Value::List(list) => self.visit(list),
                Value::Node(node) => {
                    self.note(node);
                    node.fields.values().for_each(|field| self.visit(field));
                }
            }
        }
    }

    fn note(&mut self, node: &Node) {
        for (name, value) in &node.fields {
            let is_type =
                name.ends_with("type") || ["typeId", "array_typeid", "element_typeid"].contains(&name.as_str());
            if let (true, Some(oid)) = (is_type, number(value)) {
                self.types.insert(oid);
            }
        }
        self.relations.extend(node.oid("relid"));
        let called =
            ["funcid", "aggfnoid", "winfnoid"].iter().find_map(|field| node.oid(field)).map(|oid| (false, oid));
        let Some((is_operator, oid)) = called.or_else(|| node.oid("opno").map(|oid| (true, oid))) else { return };
        let result = type_of(node).unwrap_or(0);
        let arguments = node.nodes("args").map(argument).collect();
        self.calls.insert(Call { is_operator, oid, arguments, result });
        // VARIADIC arguments that were gathered into an array.
        if node.word("funcvariadic") == Some("true")
            && let Some((array, others)) = node.nodes("args").collect::<Vec<_>>().split_last()
            && array.tag == "ARRAYEXPR"
        {
            let spread = others.iter().copied().chain(array.nodes("elements")).map(argument).collect();
            self.calls.insert(Call { is_operator, oid, arguments: spread, result });
        }
    }
}

fn argument(node: &Node) -> (Option<String>, u32) {
    match node.tag.as_str() {
        "NAMEDARGEXPR" => (node.word("name").map(str::to_owned), node.node("arg").map_or(0, |arg| argument(arg).1)),
        "TARGETENTRY" => node.node("expr").map_or((None, 0), argument),
        _ => (None, type_of(given(node)).unwrap_or(0)),
    }
}

/// What an implicit cast was added to.
fn given(node: &Node) -> &Node {
    let is_implicit = ["funcformat", "relabelformat", "coerceformat", "coercionformat"]
        .iter()
        .any(|field| node.word(field) == Some("2"));
    let inner = node.node("arg").or_else(|| node.nodes("args").next());
    match inner {
        Some(inner) if is_implicit => given(inner),
        _ => node,
    }
}

fn type_of(node: &Node) -> Option<u32> {
    let field = match node.tag.as_str() {
        "BOOLEXPR" | "NULLTEST" | "BOOLEANTEST" | "SCALARARRAYOPEXPR" | "ROWCOMPAREEXPR" => return Some(16),
        "COLLATEEXPR" => return node.node("arg").and_then(type_of),
        "SUBLINK" if node.word("subLinkType") == Some("4") => {
            return type_of(node.node("subselect")?.nodes("targetList").next()?.node("expr")?);
        }
        "SUBLINK" => return Some(16),
        "VAR" => "vartype",
        "CONST" => "consttype",
        "PARAM" => "paramtype",
        "AGGREF" => "aggtype",
        "WINDOWFUNC" => "wintype",
        "FUNCEXPR" => "funcresulttype",
        "OPEXPR" | "DISTINCTEXPR" | "NULLIFEXPR" => "opresulttype",
        "SUBSCRIPTINGREF" => "refrestype",
        "CASEEXPR" => "casetype",
        "CASETESTEXPR" => "typeId",
        "ARRAYEXPR" | "ARRAY" => "array_typeid",
        "ROWEXPR" | "ROW" => "row_typeid",
        "COALESCEEXPR" | "COALESCE" => "coalescetype",
        "MINMAXEXPR" | "MINMAX" => "minmaxtype",
        "SQLVALUEFUNCTION" => "type",
        _ => "resulttype",
    };
    node.oid(field)
}

#[derive(Debug)]
enum Value {
    Atom(String),
    List(Vec<Value>),
    Node(Node),
}

#[derive(Debug, Default)]
struct Node {
    tag: String,
    fields: BTreeMap<String, Vec<Value>>,
}

impl Node {
    fn word(&self, field: &str) -> Option<&str> {
        match self.fields.get(field)?.first()? {
            Value::Atom(word) => Some(word),
            _ => None,
        }
    }

    fn oid(&self, field: &str) -> Option<u32> {
        number(self.fields.get(field)?)
    }

    fn node(&self, field: &str) -> Option<&Node> {
        match self.fields.get(field)?.first()? {
            Value::Node(node) => Some(node),
            _ => None,
        }
    }

    fn nodes(&self, field: &str) -> impl Iterator<Item = &Node> {
        let list = match self.fields.get(field).and_then(|values| values.first()) {
            Some(Value::List(list)) => list.as_slice(),
            _ => &[],
        };
        list.iter().filter_map(|value| match value {
            Value::Node(node) => Some(node),
            _ => None,
        })
    }
}

fn number(values: &[Value]) -> Option<u32> {
    match values.first()? {
        Value::Atom(word) => word.parse().ok().filter(|oid| *oid > 0),
        _ => None,
    }
}

/// `{TAG :field value :field (list of values)}`, as PostgreSQL's `outfuncs.c` writes it.
struct Parser<'t> {
    text: &'t [u8],
    at: usize,
}

impl Parser<'_> {
    /// All up to a closing bracket or the end.
    fn values(mut self) -> Vec<Value> {
        self.until_closed()
    }

    fn until_closed(&mut self) -> Vec<Value> {
        let mut values = Vec::new();
        while let Some(value) = self.value() {
            values.push(value);
        }
        values
    }

    fn value(&mut self) -> Option<Value> {
        self.skip_blanks();
        match *self.text.get(self.at)? {
            b'{' => {
                self.at += 1;
                Some(Value::Node(self.node()))
            }
            b'(' => {
                self.at += 1;
                Some(Value::List(self.until_closed()))
            }
            b')' | b'}' => {
                self.at += 1;
                None
            }
            _ => Some(Value::Atom(self.word())),
        }
    }

    fn node(&mut self) -> Node {
        let mut node = Node { tag: self.word(), ..Node::default() };
        let mut field = String::new();
        while let Some(value) = self.value() {
            match value {
                Value::Atom(word) if word.starts_with(':') => field = word[1..].to_owned(),
                value => node.fields.entry(field.clone()).or_default().push(value),
            }
        }
        node
    }

    fn skip_blanks(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn word(&mut self) -> String {
        self.skip_blanks();
        let mut word = Vec::new();
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'\\' => self.at += 1,
                b'(' | b')' | b'{' | b'}' => break,
                byte if byte.is_ascii_whitespace() => break,
                _ => {}
            }
            word.extend(self.text.get(self.at));
            self.at += 1;
        }
        String::from_utf8_lossy(&word).trim_matches('"').to_owned()
    }
}
