//! Shapes given by numbers: each is of a known type, with all of its coefficients.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use shardine_codec::ElementSize;
use shardine_geometry::zarr_vectors::rules::{RuleKind, Violation};

use super::groups::KnownIds;
use super::objects::{AT_ONCE, object_of};
use super::{Nodes, StoreCheck};
use crate::jobs::check::{Finding, FindingKind, Limit};
use crate::zarr::{Group, Node};
use crate::{ArrayNode, Error, Region};

/// The group with the shapes.
pub(super) const GROUP: &str = "parametric";

/// The most numbers of a shape.
const MOST_COLUMNS: u64 = 1 << 12;

impl StoreCheck<'_, '_> {
    /// Judges the shapes of a store.
    pub(super) fn parametric(&self, group: &Group) -> Result<(), Error> {
        let Nodes { opened, .. } = self.nodes(group);
        let mut nodes: BTreeMap<String, Node> = opened.into_iter().collect();
        let mut array = |name: &str| nodes.remove(name).and_then(|node| self.array(node));
        // Without any shapes there is no array of them.
        let Some(objects) = array("objects") else { return Ok(()) };
        let (names, groups) = (array("names"), array("groups"));
        let location = objects.location();
        let is_numbers = objects.data_type().name() == "float64";
        let &[rows, columns @ 1..=MOST_COLUMNS] = objects.shape() else {
            let message = "must be float64 with two axes: shapes, and their numbers".to_owned();
            self.run.note_at(location, FindingKind::VectorsMetadata, message);
            return Ok(());
        };
        if !is_numbers {
            let message = "must be float64".to_owned();
            self.run.note_at(location, FindingKind::VectorsMetadata, message);
            return Ok(());
        }
        if let Some(names) = names {
            let is_text = names.data_type().size() == ElementSize::Variable;
            if !is_text || names.shape() != [rows] {
                let message = format!("must be a name for each of {rows} shapes");
                let found = vec![Violation::new(RuleKind::Attributes, message)];
                self.note_document(names.location(), found);
            }
        }
        self.tables(nodes.remove("object_attributes"), rows, "shapes");
        if let Some(groups) = groups {
            let count = groups.shape().first().copied().unwrap_or(0);
            self.tables(nodes.remove("group_attributes"), count, "groups");
            self.groups(&groups, &KnownIds::Counted(rows))?;
        }
        if !self.run.is_first() {
            return Ok(());
        }
        let said = objects.metadata().attributes().get("num_objects").and_then(Value::as_u64);
        self.note_counts(location, &[("num_objects", said, rows)], None);
        if self.run.scope.metadata_only {
            return Ok(());
        }
        self.shapes(&objects, rows, columns, &Types::read(group.metadata().attributes()))
    }

    fn shapes(
        &self,
        objects: &ArrayNode,
        rows: u64,
        columns: u64,
        types: &Types,
    ) -> Result<(), Error> {
        let mut limit = Limit::new(self.run.scope.max_of_kind);
        let mut start = 0;
        while start < rows {
            self.step(objects.location(), start as usize, rows as usize)?;
            let count = (AT_ONCE / columns).max(1).min(rows - start);
            let region = Region::of_box(&[start, 0], &[count, columns]);
            match objects.read::<f64>(&region) {
                Ok(read) => {
                    for (row, numbers) in (start..).zip(read.chunks_exact(columns as usize)) {
                        let Some((rule, reason)) = types.judge(numbers) else { continue };
                        let kind = FindingKind::of_vectors_rule(rule);
                        if limit.admits(kind) {
                            let object = object_of(objects, row);
                            let object = object.or_else(|| objects.location().path.clone());
                            let message = format!("shape {row}: {reason}");
                            self.run.tell([Finding::new(kind, object, message)]);
                        }
                    }
                }
                Err(error) => self.unread_rows(objects, start, &error),
            }
            start += count;
        }
        self.run.count(&limit.untold);
        Ok(())
    }
}

/// The types of shapes, by their numbers: how each is called, and what its coefficients are.
struct Types(Option<BTreeMap<u64, (String, Vec<String>)>>);

impl Types {
    /// Reads the attributes of the group. Without `parametric_types`, nothing is known of them.
    fn read(attributes: &Map<String, Value>) -> Self {
        let one = |(number, one): (&String, &Value)| {
            let name = one.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let named = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let coefficients = one.get("coefficients").and_then(Value::as_array);
            let coefficients = coefficients.into_iter().flatten().map(named).collect();
            Some((number.parse().ok()?, (name, coefficients)))
        };
        let types = attributes.get("parametric_types").and_then(Value::as_object);
        Self(types.map(|types| types.iter().filter_map(one).collect()))
    }

    /// What is wrong with the numbers of a shape: its type, then its coefficients.
    fn judge(&self, numbers: &[f64]) -> Option<(RuleKind, String)> {
        let types = self.0.as_ref()?;
        let (of, coefficients) = numbers.split_first()?;
        // Whole numbers below 2^53 are exact.
        let number = (of.fract() == 0.0 && (0.0..9e15).contains(of)).then_some(*of as u64);
        let Some((name, wanted)) = number.and_then(|number| types.get(&number)) else {
            return Some((RuleKind::Objects, format!("its type is {of}, which is not declared")));
        };
        if coefficients.len() < wanted.len() {
            let (room, needs) = (coefficients.len(), wanted.len());
            let reason = format!("a {name} has {needs} coefficients, and there is room for {room}");
            return Some((RuleKind::Objects, reason));
        }
        let lost = wanted.iter().zip(coefficients).find(|(_, value)| value.is_nan())?;
        let reason = format!("the coefficient {} of this {name} is not a number", lost.0);
        Some((RuleKind::Doubtful, reason))
    }
}
